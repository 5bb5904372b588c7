"""Calls in which a lifted Python function may do otherwise than Python: they are noticed, and refused.

A lift states what it assumes, and whoever calls a function that is decorated reads no statement. So what
Python's unbounded integers would hold and 64 bits do not, a number that is not finite where Python may raise
or the lift takes it to be finite, and a list under two names are for the function itself. Where nothing would
tell such calls from others, the lift is refused.
"""

from __future__ import annotations

import inspect
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Set
from typing import Any

import numpy as np

from tensmith.formula.functions import ELEMENTARY
from tensmith.formula.poly import Poly
from tensmith.ir import Node, Program
from tensmith.lifting.assumptions import (
    DEFINED,
    DIVISORS,
    FLOAT_DIVISORS,
    HYPOTENUSE,
    INTEGERS,
    LOGARITHMS,
    NARROWED,
    POWER_BASE,
    POWER_SIZE,
    POWERS,
    RANGE,
    REGROUPED,
    ROUNDED,
    SIGNED_32,
    Excuse,
    excused,
)
from tensmith.lifting.lifted import Lifted
from tensmith.lifting.loops import Array
from tensmith.lifting.ranges import Interval, overflowing
from tensmith.lifting.refusal import Refusal
from tensmith.lifting.running import fields
from tensmith.lifting.second.inputs import symbols
from tensmith.lifting.summary import length_symbol

_RAISES = frozenset({Excuse.DIVISION, Excuse.DOMAIN, Excuse.COMPLEX, Excuse.OVERFLOW})
_WIDE = "integers may not fit in 64 bits"
# Where this is assumed, these ops stand for steps that raise in Python, and have no finite value there.
_RAISING = (
    (DIVISORS(), {"div"}),
    (FLOAT_DIVISORS(), {"div"}),
    (DEFINED(), {*ELEMENTARY, "pow"} - {"tanh", "erf", "atan", "asinh"}),
    (POWERS(), {"pow", "sqrt"}),
    (POWER_SIZE(), {"pow", "mul"}),
    (HYPOTENUSE(), {"mul"}),
)
# Ops whose value is not finite where an element of an operand is not; of `_FIRST`, where one of the first is.
_FIRST = frozenset({
    "div", "log", "sqrt", "sin", "cos", "tan", "asin", "acos", "sinh", "cosh", "asinh", "acosh", "atanh",
    "floor", "ceil", "round", "reduce_sum", "reduce_prod", "cum_sum", "cum_prod", "cast", "expand",
    "unsqueeze", "squeeze", "transpose",
})  # fmt: skip
_SHOWING = _FIRST | {"add", "sub", "mul", "neg", "abs", "identity", "matmul", "einsum"}
# Ops whose value may not be finite where all elements of the operands are.
_LEAVING = frozenset({
    "add", "sub", "mul", "div", "mod", "pow", "cast", "reduce_sum", "reduce_prod", "cum_sum", "cum_prod",
    "matmul", "einsum", *ELEMENTARY,
}) - {"sin", "cos", "tanh", "erf", "atan", "asinh"}  # fmt: skip


def exact(form: Callable[..., Any], lifted: Lifted, to: str) -> Callable[..., Any]:
    """`form` in the target `to`, raising ValueError for calls in which it may not do what Python does.

    Raises:
        Refusal: such calls could not be told from others.
    """
    whole = (INTEGERS(), NARROWED(), REGROUPED(), SIGNED_32())
    unbounded = not set(whole).isdisjoint(lifted.assumes)
    finite = Excuse.NOT_FINITE in excused(lifted.assumes)
    may_raise = finite or not _RAISES.isdisjoint(excused(lifted.assumes))
    of_floats = [sentence for sentence in lifted.assumes if sentence not in whole]
    raising = finite or not _RAISES.isdisjoint(excused(of_floats))
    _check_noticed(lifted, to)
    names = [parameter.name for parameter in lifted.function.parameters]
    written = [name for name, type_ in lifted.function.arrays.items() if type_.written]
    numpy = to == "numpy"
    plain = inspect.unwrap(form) if numpy else form  # without an errstate of its own
    do = "do otherwise" if finite else "raise"
    how: Any = "raise" if numpy and raising else "ignore"

    def call(*arguments: Any) -> Any:
        if reason := _shared(written, dict(zip(names, arguments))):
            raise ValueError(reason)
        if finite and (reason := _infinite(lifted, arguments)):
            raise ValueError(reason)
        if unbounded and (reason := _overflow(lifted, arguments)):
            raise ValueError(reason)
        try:
            with np.errstate(divide=how, over=how, invalid=how, under="ignore"):
                found = plain(*arguments)
        except ArithmeticError as error:
            raise ValueError(f"a step has no finite number ({error}), where Python may {do}") from error
        if may_raise and not _finite(found):
            raise ValueError(f"an answer is no finite number, where Python may {do}")
        return found

    return call


# What nothing would notice.


def _check_noticed(lifted: Lifted, to: str) -> None:
    """Refuse what Python raises for, and numbers that a lift takes to be finite, where neither the arguments
    nor a number tell. NumPy itself says where a step has no finite number, unless that is an einsum;
    elsewhere it has to be in the answer."""
    if Excuse.ASSERTION in excused(lifted.assumes):
        raise Refusal("an assertion is taken to hold, and a call cannot check it; test it in the caller")
    if any(map(RANGE.matches, lifted.assumes)):
        raise Refusal("min or max of an empty range raises, and a call cannot tell; write the loop")
    if ROUNDED() in lifted.assumes:
        raise Refusal("// and % of floats are computed from rounded quotients; use integers")
    if LOGARITHMS() in lifted.assumes:
        raise Refusal("log2 and log10 are computed from rounded quotients; do not round or compare them")
    if to == "onnx" and lifted.requires:
        raise Refusal(f"a model does not check that {lifted.requires[0].text}; lift it to numpy")
    raising = set[str]().union(*(ops for sentence, ops in _RAISING if sentence in lifted.assumes))
    if to != "numpy" and _hidden(lifted, raising):
        raise Refusal(f"what Python raises for on the way may go unseen in {to}; lift it to numpy")
    leaving = _LEAVING if to != "numpy" else frozenset({"einsum"})
    finite = Excuse.NOT_FINITE in excused(set(lifted.assumes) - {POWER_BASE()})
    rooted = to != "numpy" and POWER_BASE() in lifted.assumes
    if (finite and _hidden(lifted, leaving)) or (rooted and _loses_roots(lifted.program)):
        more = "; lift it to numpy" if to != "numpy" else ""
        raise Refusal(f"numbers on the way that are not finite may go unseen in {to}{more}")


def _hidden(lifted: Lifted, ops: Set[str]) -> bool:
    """Whether a step of these may have no finite number, and the answers finite ones all the same."""
    program = lifted.program
    seen = {output.name for output in lifted.outputs if program.type(output.name).floating}
    for node in reversed(program.nodes):
        shows = node.op in _SHOWING and not node.attrs.get("exclusive")  # which leaves out the last
        if node.output in seen and shows:
            operands = node.inputs[:1] if node.op in _FIRST else node.inputs
            seen |= {name for name in operands if _has_part(program, node, name)}
    steps = [node for node in program.nodes if node.op in ops and node.output not in seen]
    return any(_may_raise(program, node) for node in steps)


def _loses_roots(program: Program) -> bool:
    """Whether a root that is NaN, of -inf, may change an answer and not show in it."""
    found = {node.output for node in program.nodes if node.op == "sqrt"}
    for node in program.nodes:
        if not found.isdisjoint(node.inputs):
            if node.op not in _SHOWING | {"where"} or not program.type(node.output).floating:
                return True
            found.add(node.output)
    return False


def _has_part(program: Program, node: Node, operand: str) -> bool:
    """Whether every element of an operand takes part in the result: wherever it has elements, so have all."""
    dims = {name: set(map(Poly.of, program.type(name).dims)) for name in (*node.inputs, node.output)}
    others = set[Poly]().union(*dims.values()) - dims[operand]
    return all(extent.constant is not None and extent.constant > 0 for extent in others)


def _may_raise(program: Program, node: Node) -> bool:
    """Whether a node computes of floats what is not known before."""
    if not program.type(node.output).floating:
        return False
    constants = [program.constants.get(name) for name in node.inputs]
    if node.op == "div" and constants[1] is not None:
        return bool((constants[1] == 0).any())
    return any(array is None for array in constants)


# What a call's arguments tell.


def _shared(written: Iterable[str], given: Mapping[str, Any]) -> str:
    """Why writing to an argument would change what another name, or row, stands for, or raise; "" if not."""
    for name in written:
        own = list(_parts(given[name]))
        others = [part for other, value in given.items() if other != name for part in _parts(value)]
        if not all(map(_writeable, own)):
            return f"{name} is written, and cannot be"
        counted = Counter(map(id, (*own, *others)))
        arrays = [part for part in own if isinstance(part, np.ndarray)]
        rest = [part for part in (*own, *others) if isinstance(part, np.ndarray)]
        meet = any(one is not other and np.may_share_memory(one, other) for one in arrays for other in rest)
        if meet or any(counted[id(part)] > 1 for part in own):
            return f"{name} is written, and shares memory with another argument or row"
    return ""


def _parts(value: Any) -> Iterator[Any]:
    """A list or array, and those inside of it."""
    if isinstance(value, (list, tuple, np.ndarray)):
        yield value
    if isinstance(value, (list, tuple)) and value and isinstance(value[0], (list, tuple, np.ndarray)):
        for part in value:
            yield from _parts(part)


def _writeable(part: Any) -> bool:
    return bool(part.flags.writeable) if isinstance(part, np.ndarray) else isinstance(part, list)


def _infinite(lifted: Lifted, arguments: tuple[Any, ...]) -> str:
    """Why what is taken to be finite is not; "" where all floats are."""
    read = {each.scalar if each.view is None else each.view.array for each in lifted.inputs}
    for name, value in fields(lifted.function, arguments).items():
        array = np.asarray(value)
        if name in read and array.dtype.kind == "f" and not np.isfinite(array).all():
            return f"{name} holds numbers that are not finite, and the lift takes them to be"
    return ""


def _overflow(lifted: Lifted, arguments: tuple[Any, ...]) -> str:
    """Why bounds from the arguments leave it open that an integer leaves its type; "" where they do not."""
    given, known = fields(lifted.function, arguments), dict[str, int]()
    seen: dict[str, Interval] = {}
    for name, type_ in lifted.function.fields:
        array = np.asarray(given[name])
        if isinstance(type_, Array):
            shape = (*array.shape, *(0,) * type_.axes)  # no rows have no lengths
            known |= {length_symbol(name, axis): shape[axis] for axis in range(type_.axes)}
        elif array.dtype.kind in "iub":
            known[name] = int(array)
        elif type_.kind == "int" and array.dtype.kind != "O":
            return f"{name} is no integer"
        if array.dtype.kind in "iub":
            seen[name] = Interval(int(array.min()), int(array.max())) if array.size else Interval(0, 0)
        elif array.dtype.kind == "O":  # integers beyond 64 bits
            return _WIDE
    sizes = symbols(lifted, known)
    if SIGNED_32() in lifted.assumes and any(size >= 2**31 for size in sizes.values()):
        return _WIDE
    inputs: dict[str, Interval] = {}
    for each in lifted.inputs:
        source = each.view.array if each.view is not None else each.scalar
        if source in seen:
            inputs[each.name] = seen[source]
        elif each.positions is not None:
            inputs[each.name] = Interval(0, max(0, int(Poly.of(each.positions).evaluate(sizes)) - 1))
    return _why(lifted.program, overflowing(lifted.program, inputs, sizes))


def _why(program: Program, beyond: list[str]) -> str:
    """What is said of the first integer that may leave its type."""
    if not beyond:
        return ""
    node = program.producers.get(beyond[0])
    if node is not None and node.op == "cast" and program.type(node.inputs[0]).floating:
        return "a float becomes an integer, which may not fit in 64 bits"
    return _WIDE


def _finite(found: Any) -> bool:
    """Whether all numbers are finite, of what NumPy can read."""
    parts = found if isinstance(found, (tuple, list)) else (found,)
    arrays = [np.asarray(part) for part in parts]
    return all(np.isfinite(array).all() for array in arrays if array.dtype.kind == "f")
