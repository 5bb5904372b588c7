"""What elementwise nodes compute of one element each: as C over vectors, and as expressions of numbers.

Both are read from the declared meanings of their ops. Parameters stand for a node's inputs, by place.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from tensmith.backend.native.quantization import quantized_values
from tensmith.ctext.typed import Typing
from tensmith.errors import EngineError, ProgramError
from tensmith.formula.arith import Array
from tensmith.formula.expr import Call, Expr, Num, Read, tensor
from tensmith.formula.types import BOOL, F32, UNTYPED, MachineType
from tensmith.ir import Node, Program
from tensmith.ir.handlers import Handlers
from tensmith.ir.op import Symbolic
from tensmith.ir.ops.cast import Conversion
from tensmith.ir.ops.elementwise import Elementwise
from tensmith.ir.ops.quantization import decodes, encodes
from tensmith.ir.static import StaticValues
from tensmith.kernel import grid_code
from tensmith.kernel.quantized import QuantizationParameters
from tensmith.kernel.vectors import vector_text

_NUMBERS = frozenset({"f32", "i64", "i32", "bool", "u8", "i8"})
_HOLE = re.compile("\0(.*?)\0")


class ElementFunction(NamedTuple):
    """An element of a node's output, of one of each input.

    `vector` is C over vectors, in which bytes are their codes, with holes for parameters; a hole t0, t1... is
    for one of `tables`, which have one number a channel. `numbers` is of scalars of any type.
    """

    vector: str | None = None
    numbers: Expr | None = None
    tables: tuple[Array, ...] = ()

    @property
    def whole(self) -> bool:
        """Whether the C has instructions or functions on vectors alone, none that goes lane by lane."""
        return self.vector is not None and "EACH(" not in self.vector

    @property
    def product(self) -> bool:
        """Whether it is a product of floats, which compilers would add to others before it is rounded."""
        return (
            isinstance(self.numbers, Call) and self.numbers.function == "mul" and self.numbers.type == "f32"
        )

    @property
    def holes(self) -> tuple[str, ...]:
        """Those of the C, in the order in which they stand there."""
        return tuple(dict.fromkeys(_HOLE.findall(self.vector))) if self.vector is not None else ()

    def filled(self, texts: Mapping[str, str]) -> str:
        """The C with a text in the place of each hole."""
        assert self.vector is not None
        return _HOLE.sub(lambda found: texts[found[1]], self.vector)

    def count(self, places: Sequence[int]) -> int:
        """How often any of these inputs stands in the C; once in what has none."""
        return sum(self.vector.count(_hole(place)) for place in places) if self.vector is not None else 1


def _hole(name: object) -> str:
    return f"\0{name}\0"


# What is no function of scalars, or has another text than that.
_functions = Handlers[Callable[[Program, Node, StaticValues], "ElementFunction | None"]]()


def element_function(
    program: Program,
    node: Node,
    constants: StaticValues,
    parameters: QuantizationParameters | None,
) -> ElementFunction | None:
    """What a node computes of elements; None if there is no C for that."""
    if len(node.outputs) > 1:
        return None
    special = _functions.find(node)
    if special is not None:
        return special(program, node, constants)
    types = {program.type(name).dtype for name in (*node.inputs, node.output) if name}
    if parameters is not None:
        return _quantization(program, node, parameters)
    found = _meaning(program, node, constants)
    vector = _vector(node, found) if types == {"f32"} else None
    numbers = found if types <= _NUMBERS else None
    return ElementFunction(vector, numbers) if vector or numbers else None


@_functions("batch_normalization")
def _batch_norm(program: Program, node: Node, constants: StaticValues) -> ElementFunction | None:
    statistics = [constants.get(name) for name in node.inputs[1:5]]
    if any(table is None for table in statistics):
        return None
    scale, shift, mean, variance = (np.asarray(table, np.float64) for table in statistics)
    factor = scale / np.sqrt(variance + node.attrs["epsilon"])
    text = f"({_hole(0)} * {_hole('t0')} + {_hole('t1')})"
    return ElementFunction(text, tables=(factor, shift - mean * factor))


def _vector(node: Node, found: Expr | None) -> str | None:
    """The C over vectors of an expression, if it has one; what it reads twice is named."""
    if found is None:
        return None
    try:
        text = vector_text(found, _hole)
    except EngineError:
        return None
    for place in range(len(node.inputs)):
        if text.count(_hole(place)) > 1:
            text = f"LET(v{place}_, {_hole(place)}, {text.replace(_hole(place), f'v{place}_')})"
    return text


def _quantization(program: Program, node: Node, grid: QuantizationParameters) -> ElementFunction:
    """Numbers as codes, what is no number as the least one, or codes as numbers; signed bytes stay signed."""
    codes = MachineType(program.type(quantized_values(node)).dtype)
    floats = decodes(node) or program.type(node.inputs[0]).dtype == "f32"
    coded = grid_code.codes_of if encodes(node) else grid_code.numbers_of
    vector = coded(_hole(0), grid) if floats else None
    least = -128 if codes == "i8" else 0
    x: Expr = Read("0", (), MachineType(program.type(node.inputs[0]).dtype))
    x = x if floats else Call("cast", (x,), F32)
    zero, scale, low, high = (
        Num(float(number), F32) for number in (grid.zero_point + least, grid.scale, least, least + 255)
    )
    if decodes(node):
        off = Call("sub", (Call("cast", (x,), F32), zero), F32)
        return ElementFunction(vector, Call("mul", (off, scale), F32))
    units = Call("round", (Call("div", (x, scale), F32),), F32)
    code = Call("add", (units, zero), F32)
    for relation, bound in (("greater", low), ("less", high)):
        code = Call("where", (Call(relation, (code, bound), BOOL), code, bound), F32)
    return ElementFunction(vector, Call("cast", (code,), codes))


def _meaning(program: Program, node: Node, constants: StaticValues) -> Expr | None:
    """The expression of a node, in which inputs of one known number are that; None where it is not
    elementwise, or has no C."""
    dtypes = [MachineType(program.type(name).dtype) if name else UNTYPED for name in node.inputs]

    def read(place: str, at: object) -> Expr:
        dtype, number = dtypes[int(place)], constants.number(node.inputs[int(place)])
        if number is None:
            return Read(place, (), dtype)
        return Num(number, dtype)

    typing = Typing(read, EngineError, whole=UNTYPED)
    dtype = MachineType(program.type(node.output).dtype)
    if node.kind(Conversion) is not None and len(node.inputs) == 1:
        return typing.cast(Read("0", (), dtypes[0]), dtype)
    op = node.kind(Elementwise)
    if op is None:
        return None
    inputs = tuple(tensor(str(place)) if name else None for place, name in enumerate(node.inputs))
    values = tuple(constants.get(name) if name else None for name in node.inputs)
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
