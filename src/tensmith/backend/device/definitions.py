"""Every value that a device computes as the formula of its element.

Memory is flat: a read has one subscript, the row-major position. Views (what only says which elements stand
where) are read through and lie nowhere; so are numbers.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import TypeAlias

import numpy as np

from tensmith.errors import EngineError, ProgramError
from tensmith.formula.arith import Array
from tensmith.formula.bounds import Ranges
from tensmith.formula.expr import (
    ZERO,
    Call,
    Choose,
    Expr,
    Formula,
    Num,
    Read,
    Reduce,
    Size,
    compute,
    fresh,
    rebuilt,
    substitute,
    tensor,
)
from tensmith.formula.poly import Poly
from tensmith.formula.reach import outside
from tensmith.formula.types import F32
from tensmith.formula.walk import reads
from tensmith.ir import Node, Program, interpret
from tensmith.ir.op import Symbolic
from tensmith.ir.ops.sizes import flat_position

# Index variables with their extents, outermost first.
Axes: TypeAlias = tuple[tuple[str, int], ...]

# Element types that devices hold; halves and bytes are computed with as floats.
HELD = frozenset({"f32", "f16", "bool", "u8", "i8", "u16", "i16", "i32", "u32", "i64"})
# Positions are computed in 32 bits, and so are those of the threads that look beyond the last one.
MOST_ELEMENTS = 2**31 - 1 - 64
_MOST_HALF = float(np.finfo(np.float16).max)


@dataclass(frozen=True, eq=False)
class ValueDefinition:
    """value[axes] = body. Axes of size 1 have no variable; `label` names the node in messages."""

    value: str
    dtype: str
    axes: Axes
    body: Expr
    label: str

    @property
    def position(self) -> Poly:
        """Where the element at the axes lies in the value's own memory."""
        return flat(self.axes)


@dataclass(frozen=True, eq=False)
class Definitions:
    """The definitions of a program in order, the constants that they read, the names of all its values."""

    items: tuple[ValueDefinition, ...]
    constants: Mapping[str, Array]
    names: frozenset[str]


def flat(axes: Axes) -> Poly:
    """The row-major position of an element."""
    return Poly.of(flat_position([Poly.symbol(name) for name, _ in axes], [size for _, size in axes]))


def define(program: Program) -> Definitions:
    """The definitions of a simplified program of fixed sizes; EngineError naming what has none."""
    static = _static(program)
    known: dict[str, Formula] = {name: _memory(program, name) for name in program.inputs}
    known |= {name: _constant(program, name, array) for name, array in static.items()}
    items: list[ValueDefinition] = []
    for node in program.nodes:
        if node.output in program.static_values:
            continue
        for value, formula in zip(node.outputs, _formulas(program, node, known)):
            if not value:
                continue
            definition = _definition(program, node, value, formula)
            if value not in program.outputs and _is_view(program, definition):
                known[value] = formula
            else:
                known[value] = _memory(program, value)
                items.append(definition)
    alive, read = _alive(items, program.outputs)
    constants = {name: array for name, array in static.items() if name in read}
    return Definitions(alive, constants, frozenset(program.facts))


def tidy(expr: Expr, ranges: Ranges) -> Expr:
    """The expression without conditions that always hold, and with subscripts simplified."""
    match expr:
        case Read(name, indices):
            return Read(name, tuple(map(ranges.simplify, indices)))
        case Size(poly):
            number = ranges.simplify(poly)
            return Size(number) if number.constant is None else Num(Fraction(number.constant))
        case Choose(conditions, then, otherwise):
            simpler = [ranges.simplify(condition) for condition in conditions]
            if any(ranges.never_negative(-condition - 1) for condition in simpler):
                return tidy(otherwise, ranges)
            left = tuple(c for c in simpler if not ranges.never_negative(c))
            return Choose(left, tidy(then, ranges), tidy(otherwise, ranges)) if left else tidy(then, ranges)
        case Reduce(kind, var, extent, body):
            if extent == 1:
                return tidy(substitute(body, {var: Poly.of(0)}), ranges)
            return Reduce(kind, var, extent, tidy(body, ranges.having([(var, extent)])))
        case Call("add", args):
            terms = [term for term in (tidy(arg, ranges) for arg in args) if term != ZERO]
            return Call("add", tuple(terms)) if len(terms) > 1 else (*terms, ZERO)[0]
    return rebuilt(expr, lambda part: tidy(part, ranges))


def ranges_of(axes: Axes) -> Ranges:
    """What is known of index variables."""
    return Ranges({name: Poly.of(size) for name, size in axes})


def _static(program: Program) -> dict[str, Array]:
    """The values that need no input and are read by what does, or given out."""
    used = {n for node in program.nodes if node.output not in program.static_values for n in node.inputs}
    wanted = tuple(sorted((used | set(program.outputs)).intersection(program.static_values)))
    if not wanted:
        return {}
    nodes = tuple(node for node in program.nodes if node.output in program.static_values)
    found = interpret(Program("constants", {}, wanted, nodes, program.constants), {})
    return {name: np.asarray(found[name], program.type(name).numpy) for name in wanted}


def _alive(
    items: list[ValueDefinition], outputs: tuple[str, ...]
) -> tuple[tuple[ValueDefinition, ...], set[str]]:
    """(the definitions that somebody reads, all that is read or given out)."""
    read = set(outputs)
    kept = []
    for item in reversed(items):
        if item.value in read:
            kept.append(item)
            read.update(found.tensor for found in reads(item.body))
    return tuple(kept[::-1]), read


def _shape(program: Program, value: str) -> tuple[int, ...]:
    type_ = program.type(value)
    if type_.static is None:
        raise EngineError(f"'{value}' has the symbolic shape {type_}; devices need fixed sizes")
    if int(np.prod(type_.static, dtype=object)) > MOST_ELEMENTS:
        raise EngineError(f"'{value}' has shape {type_}, more elements than 32 bits count")
    return type_.static


def _memory(program: Program, value: str) -> Formula:
    """A value read where it lies."""
    shape = _shape(program, value)
    if program.type(value).dtype not in HELD:
        raise EngineError(f"'{value}' is {program.type(value).dtype}, which no device kernel reads")
    return compute(shape, lambda *at: Read(value, (Poly.of(flat_position(at, shape)),)))


def _constant(program: Program, value: str, array: Array) -> Formula:
    """A number as itself, other constants read where they lie."""
    if array.size == 1 and array.dtype.kind in "iufb" and np.isfinite(array).all():
        number = array.reshape(-1)[0].item()
        typed = Num(number, F32) if array.dtype.kind == "f" else Num(Fraction(number))
        return compute(array.shape, lambda *_: typed)
    return _memory(program, value)


def _formulas(program: Program, node: Node, known: Mapping[str, Formula]) -> tuple[Formula, ...]:
    """The formulas of a node's outputs; EngineError where it has none, or they may read outside of inputs."""
    if node.opaque is not None:
        raise EngineError(f"{node.label} is an operator that no device kernel computes")
    values = tuple(program.facts[name].value if name else None for name in node.inputs)
    places = {f"x{place}": name for place, name in enumerate(node.inputs) if name}
    shapes = {place: _shape(program, name) for place, name in places.items()}
    symbols = {place: tensor(place, *shape) for place, shape in shapes.items()}
    inputs = tuple(symbols.get(f"x{place}") for place in range(len(node.inputs)))
    try:
        found = node.definition.formula(Symbolic(node.attrs, inputs, values, len(node.outputs)))
    except ProgramError as error:
        raise EngineError(f"{node.label} has no device kernel: {error}") from error
    for formula in found:
        beyond = outside(formula, shapes)
        if beyond is not None:
            name = places[beyond.tensor]
            raise EngineError(f"{node.label} has no device kernel: it may read outside of '{name}'")
    tensors = {place: known[name] for place, name in places.items()}
    return tuple(replace(formula, body=_read_from(formula.body, tensors)) for formula in found)


def _read_from(expr: Expr, tensors: Mapping[str, Formula]) -> Expr:
    """The expression with the elements of formulas in the place of its reads."""
    if isinstance(expr, Read):
        return tensors[expr.tensor][expr.indices]
    return rebuilt(expr, lambda part: _read_from(part, tensors))


def _definition(program: Program, node: Node, value: str, formula: Formula) -> ValueDefinition:
    shape = _shape(program, value)
    if formula.shape != tuple(map(Poly.of, shape)):
        raise EngineError(f"{node.label} has no device kernel: its formula has another shape than '{value}'")
    axes = tuple((fresh("i"), size) for size in shape if size != 1)
    names = iter(axes)
    at = [Poly.of(0) if size == 1 else Poly.symbol(next(names)[0]) for size in shape]
    body = tidy(_chosen(formula[at], lambda name: _surely_finite(program, name)), ranges_of(axes))
    return ValueDefinition(value, program.type(value).dtype, axes, body, node.label)


def _chosen(expr: Expr, finite: Callable[[str], bool]) -> Expr:
    """With selections for products with an equality, which would make NaN of the infinities not asked for."""
    match expr:
        case Call("mul", (Call("equal") as here, value)) if not all(finite(r.tensor) for r in reads(value)):
            return Call("where", (_chosen(here, finite), _chosen(value, finite), ZERO))
    return rebuilt(expr, lambda part: _chosen(part, finite))


def _surely_finite(program: Program, value: str) -> bool:
    """Whether the elements of a value are finite wherever it lies, also where that is in 16 bits."""
    array = program.constants.get(value)
    if array is None or array.dtype.kind != "f":
        return program.type(value).dtype[0] != "f"
    return not array.size or bool(np.abs(array).max() <= _MOST_HALF)


def _is_view(program: Program, definition: ValueDefinition) -> bool:
    """Whether a value only says which elements of another stand where, or is one number."""
    if isinstance(definition.body, Read):
        return program.type(definition.body.tensor).dtype == definition.dtype
    return isinstance(definition.body, Num | Size)
