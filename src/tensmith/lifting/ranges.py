"""What values the integers of a program can take: intervals, from element types and constants, in one call
from its arguments, and for all calls from the most elements that a tensor can have.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import reduce
from itertools import product

from tensmith.formula.poly import Poly
from tensmith.formula.types import MachineType
from tensmith.ir import Node, Program


@dataclass(frozen=True)
class Interval:
    """low <= value <= high."""

    low: int
    high: int

    def inside(self, other: Interval) -> bool:
        """Whether every value is one of the other's."""
        return other.low <= self.low and self.high <= other.high

    def meet(self, other: Interval) -> Interval:
        """What both hold."""
        return Interval(max(self.low, other.low), min(self.high, other.high))

    def join(self, other: Interval) -> Interval:
        """The least interval that holds both."""
        return Interval(min(self.low, other.low), max(self.high, other.high))


# What memory holds: addresses of x86-64 and aarch64 have 48 bits, one of them for the kernel.
MOST_ELEMENTS = 2**47


def of_dtype(dtype: str) -> Interval:
    """All values of an integer or Boolean type."""
    return Interval(*(MachineType(dtype).limits or (0, 1)))


def ranges(program: Program) -> dict[str, Interval]:
    """Value -> its interval, for every integer and Boolean value.

    Where a result does not fit its type it may be any value of the type.
    """
    return _ranges(program, {}, None)[0]


def overflowing(program: Program, inputs: Mapping[str, Interval], sizes: Mapping[str, int]) -> list[str]:
    """The integers that a call's may leave their types, where its inputs lie in these intervals."""
    return _ranges(program, inputs, sizes)[1]


def unbounded(program: Program, inputs: Mapping[str, Interval]) -> frozenset[str]:
    """The integers that may leave their types where tensors have at most `MOST_ELEMENTS`, and all that
    modular arithmetic makes of them."""
    found = set(_ranges(program, inputs, MOST_ELEMENTS)[1])
    for node in program.nodes:
        if node.modular and not found.isdisjoint(node.inputs):
            found.update(filter(None, node.outputs))
    return frozenset(found)


def floored(program: Program, node: Node) -> str | None:
    """a, where a node divides a - a mod b by b: how a program says floor(a / b), which targets compute."""
    difference = program.producers.get(node.inputs[0]) if node.op == "div" else None
    if difference is None or difference.op != "sub":
        return None
    rest = program.producers.get(difference.inputs[1])
    if rest is None or rest.op != "mod" or rest.attrs["fmod"]:
        return None
    return rest.inputs[0] if rest.inputs == (difference.inputs[0], node.inputs[1]) else None


def _ranges(
    program: Program, inputs: Mapping[str, Interval], sizes: Mapping[str, int] | int | None
) -> tuple[dict[str, Interval], list[str]]:
    """sizes: those of symbols, or the most elements of a tensor."""
    found: dict[str, Interval] = {}
    beyond: list[str] = []
    for name, type_ in program.inputs.items():
        if type_.dtype[0] in "iub":
            found[name] = inputs.get(name, of_dtype(type_.dtype))
    for name, array in program.constants.items():
        if array.dtype.kind in "iub" and array.size:
            found[name] = Interval(int(array.min()), int(array.max()))
    formulas: dict[str, Poly] = {}
    for node in program.nodes:
        dtype = program.type(node.output).dtype
        if dtype[0] not in "iub":
            continue
        whole = of_dtype(dtype)
        interval = _result(node, found)
        if interval is None and sizes is not None:
            interval = _of_sizes(program, node, found, sizes)
        formula = _formula(node, program, found, formulas)
        if interval is not None and formula is not None:
            interval = interval.meet(_corners(formula, found) or interval)
        if interval is not None and interval.inside(whole):
            found[node.output] = interval
            if formula is not None:
                formulas[node.output] = formula
        else:
            found[node.output] = whole
            if dtype != "bool" and node.op not in _CLOSED:
                beyond.append(node.output)
    return found, beyond


# What these make of any integers is one of the type.
_CLOSED = ("bitwise_and", "bitwise_or", "bitwise_xor", "bitwise_not")


# Of more variables than these, corners are not tried.
_MOST = 4


def _formula(
    node: Node, program: Program, known: Mapping[str, Interval], formulas: Mapping[str, Poly]
) -> Poly | None:
    """An element as a polynomial in elements of other values; every operand meets it at its own position."""
    if node.op not in ("add", "sub", "mul", "neg", "cast", "identity") or len(node.inputs) > 2:
        return None
    if any(name not in known for name in node.inputs):
        return None
    operands = []
    for name in node.inputs:
        array = program.constants.get(name)
        if array is not None and array.ndim == 0:
            operands.append(Poly.of(int(array)))
        else:
            operands.append(formulas.get(name, Poly.symbol(name)))
    match node.op, operands:
        case "add", [a, b]:
            return a + b
        case "sub", [a, b]:
            return a - b
        case "mul", [a, b]:
            return a * b
        case "neg", [a]:
            return -a
    return operands[0]


def _corners(formula: Poly, known: Mapping[str, Interval]) -> Interval | None:
    """The range of a polynomial that is linear in each variable: it takes its extremes at corners.

    t * a + (255 - t) * b on bytes stays below 255 * 255, where intervals alone give twice that.
    """
    names = sorted(formula.symbols())
    linear = all(power == 1 for monomial, _ in formula.terms for _, power in monomial)
    if not linear or len(names) > _MOST:
        return None
    ends = [(known[name].low, known[name].high) for name in names]
    values = [int(formula.evaluate(dict(zip(names, corner)))) for corner in product(*ends)]
    return Interval(min(values), max(values))


def _result(node: Node, known: Mapping[str, Interval]) -> Interval | None:
    operands = [known[name] for name in node.inputs if name in known]
    if len(operands) < len(node.inputs):
        return None
    match node.op, operands:
        case "add", [a, b]:
            return Interval(a.low + b.low, a.high + b.high)
        case "sub", [a, b]:
            return Interval(a.low - b.high, a.high - b.low)
        case "mul", [a, b]:
            return _times(a, b)
        case "neg", [a]:
            return Interval(-a.high, -a.low)
        case "abs", [a]:
            return Interval(0 if a.low <= 0 <= a.high else min(abs(a.low), abs(a.high)), max(-a.low, a.high))
        case "min", [a, b]:
            return Interval(min(a.low, b.low), min(a.high, b.high))
        case "max", [a, b]:
            return Interval(max(a.low, b.low), max(a.high, b.high))
        case "where", [_, a, b]:
            return a.join(b)
        case "div", [a, b]:
            return _quotient(a, b)
        case "mod", [a, b]:
            return _remainder(node, a, b)
        case "bit_shift", [a, b]:
            return _shifted(node, a, b)
        case "bitwise_and", [a, b] if max(a.low, b.low) >= 0:
            return Interval(0, min(each.high for each in (a, b) if each.low >= 0))
        case (("cast" | "identity" | "reduce_max" | "reduce_min"), [a, *_]):
            return a
        case (("unsqueeze" | "transpose" | "expand" | "squeeze"), [a, *_]):
            return a
    return None


def _of_sizes(
    program: Program, node: Node, known: Mapping[str, Interval], sizes: Mapping[str, int] | int
) -> Interval | None:
    """Of what sums or multiplies along axes, and of what only moves elements."""
    operands = [known.get(name) for name in node.inputs]
    first = operands[0] if operands else None
    if node.op in ("size", "shape"):
        extents = _extents(program, node.inputs[0], sizes)
        return Interval(0, max(_count(extents, sizes), *extents, 0))
    if node.traits.joins and None not in operands:
        return reduce(Interval.join, [each for each in operands if each is not None])
    if first is None:
        return None
    if node.traits.moves or node.traits.selects:
        return first
    if node.traits.carries:  # gathers, and pads, which bring a number
        brought = operands[2] if node.op == "pad" and len(operands) > 2 else Interval(0, 0)
        return first.join(brought) if brought is not None else None
    count = _terms(program, node, sizes)
    match node.op:
        case "reduce_sum" | "cum_sum":
            return _times(first, Interval(0, count))
        case "cum_max" | "cum_min":  # before the first element is the least or greatest of the type
            limits = of_dtype(program.type(node.output).dtype)
            edge = limits.low if node.op == "cum_max" else limits.high
            return first.join(Interval(edge, edge)) if node.attrs["exclusive"] else first
        case "reduce_prod" | "cum_prod":
            reach = max(abs(first.low), abs(first.high), 1)
            return None if count * math.log2(reach) > 64 else Interval(-(reach**count), reach**count)
        case "matmul" | "einsum":
            factors = [each for each in operands if each is not None]
            return reduce(_times, factors, Interval(0, count)) if len(factors) == len(operands) else None
    return None


def _terms(program: Program, node: Node, sizes: Mapping[str, int] | int) -> int:
    """How many elements at most go into one of the result."""
    shapes = [_extents(program, name, sizes) for name in node.inputs]
    if node.op == "matmul":
        return shapes[0][-1]
    if node.op == "einsum":
        letters, _, kept = node.attrs["equation"].replace(" ", "").partition("->")
        extents = {c: size for part, shape in zip(letters.split(","), shapes) for c, size in zip(part, shape)}
        return math.prod(size for letter, size in extents.items() if letter not in kept)
    return _count(shapes[0], sizes)


def _count(extents: list[int], sizes: Mapping[str, int] | int) -> int:
    """How many elements a tensor has at most."""
    count = math.prod(extents)
    return min(count, sizes) if isinstance(sizes, int) else count


def _extents(program: Program, name: str, sizes: Mapping[str, int] | int) -> list[int]:
    if isinstance(sizes, int):
        return [extent if isinstance(extent, int) else sizes for extent in program.type(name).dims]
    return [int(Poly.of(extent).evaluate(sizes)) for extent in program.type(name).dims]


def _times(a: Interval, b: Interval) -> Interval:
    corners = [x * y for x in (a.low, a.high) for y in (b.low, b.high)]
    return Interval(min(corners), max(corners))


def _quotient(a: Interval, b: Interval) -> Interval:
    """Truncated quotients; a divisor is never 0."""
    divisors = [d for d in (b.low, b.high, -1, 1) if d and b.low <= d <= b.high] or [1]
    corners = [
        abs(x) // abs(d) * (1 if (x < 0) == (d < 0) else -1) for x in (a.low, a.high) for d in divisors
    ]
    return Interval(min(0, *corners) if a.low <= 0 else min(corners), max(0, *corners))


def _remainder(node: Node, a: Interval, b: Interval) -> Interval:
    reach = max(abs(b.low), abs(b.high)) - 1
    if node.attrs["fmod"]:
        return Interval(max(-reach, min(a.low, 0)), min(reach, max(a.high, 0)))
    return Interval(0 if b.low > 0 else -reach, 0 if b.high < 0 else reach)


def _shifted(node: Node, a: Interval, b: Interval) -> Interval | None:
    """By 0 to 63 bits; the sign fills in from the left."""
    if b.low < 0 or b.high > 63:
        return None
    if node.attrs["direction"] == "LEFT":
        return _times(a, Interval(1 << b.low, 1 << b.high))
    corners = [x >> count for x in (a.low, a.high) for count in (b.low, b.high)]
    return Interval(min(corners), max(corners))
