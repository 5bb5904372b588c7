"""What elementwise nodes compute of one element each, as ctext reads the declared meanings of their ops."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tensmith.backend.native.steps import Array
from tensmith.ctext.typed import Typing
from tensmith.errors import EngineError, ProgramError
from tensmith.formula.expr import Call, Expr, Read, tensor
from tensmith.formula.types import UNTYPED, MachineType
from tensmith.ir import Node, Program
from tensmith.ir.op import Symbolic
from tensmith.ir.ops.cast import Conversion
from tensmith.ir.ops.elementwise import Elementwise


def meaning(program: Program, node: Node, known: Callable[[str], Array | None]) -> Expr | None:
    """The node's value at an element of each input, which are parameters called "0", "1"...

    `known` has the values of constants. None where the node is not elementwise, or has no C.
    """
    dtypes = [MachineType(program.type(name).dtype) if name else UNTYPED for name in node.inputs]
    typing = Typing(lambda name, at: Read(name, (), dtypes[int(name)]), EngineError, whole=UNTYPED)
    dtype = MachineType(program.type(node.output).dtype)
    if node.kind(Conversion) is not None and len(node.inputs) == 1:
        return typing.cast(Read("0", (), dtypes[0]), dtype)
    op = node.kind(Elementwise)
    if op is None:
        return None
    inputs = tuple(tensor(str(place)) if name else None for place, name in enumerate(node.inputs))
    values = tuple(known(name) if name else None for name in node.inputs)
    try:
        (formula,) = op.formula(Symbolic(node.attrs, inputs, values))
        return typing.typed(formula[()], dtype)
    except (EngineError, ProgramError):
        return None


def composed(expr: Expr, args: Sequence[Expr]) -> Expr:
    """The expression of other expressions in the place of its parameters; parts met twice stay one object."""
    done: dict[int, Expr] = {}

    def made(part: Expr) -> Expr:
        if id(part) not in done:
            if isinstance(part, Read):
                done[id(part)] = args[int(part.tensor)]
            elif isinstance(part, Call):
                done[id(part)] = Call(part.function, tuple(map(made, part.args)), part.type)
            else:
                done[id(part)] = part
        return done[id(part)]

    return made(expr)
