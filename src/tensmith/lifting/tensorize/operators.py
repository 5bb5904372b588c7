"""Operators on elements as TensIR ops; each of the loop language's meanings is kept to the letter."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from tensmith.formula.expr import Call, Num, Read, Size, fresh
from tensmith.formula.functions import BITWISE, ELEMENTARY
from tensmith.formula.poly import Poly
from tensmith.formula.types import I64
from tensmith.lifting.loops import dtype_of
from tensmith.lifting.refusal import Refusal
from tensmith.lifting.summarize.chosen import choices, highest, position
from tensmith.lifting.summarize.constants import infinite
from tensmith.lifting.summarize.logic import extreme
from tensmith.lifting.summarize.scope import Scope
from tensmith.lifting.summarize.substitution import symbols
from tensmith.lifting.summary import Term, length_symbol
from tensmith.lifting.tensorize.affine import arrays_read, linear
from tensmith.lifting.tensorize.build import Tensor
from tensmith.lifting.tensorize.continued import continued

if TYPE_CHECKING:
    from tensmith.lifting.tensorize.lower import Lowering

# Operator -> TensIR op of the same meaning, where its name is another.
_NAMED = {"maximum": "max", "minimum": "min", "less_equal": "less_or_equal"}
_SAME = frozenset({
    *BITWISE, *ELEMENTARY, "add", "sub", "mul", "abs", "maximum", "minimum", "floor", "ceil",
    "round",
})  # fmt: skip
_BOOLEAN = frozenset({"less", "less_equal", "equal", "or", "and", "not"})


def op_of(operator: str) -> str:
    """The TensIR op that an operator is."""
    return _NAMED.get(operator, operator)


Meaning: TypeAlias = "Callable[[Lowering, Call], Tensor]"


def lower(lowering: Lowering, term: Call) -> Tensor:
    """The tensor of an operator applied to terms."""
    operator, build = term.function, lowering.build
    if (fold := continued(term, build.extents)) is not None:
        return lowering.lower(fold)
    if operator in _SPECIAL:
        return _SPECIAL[operator](lowering, term)
    arguments = [lowering.lower(argument) for argument in term.args]
    if operator in _BOOLEAN | _SAME:
        dtype = "bool" if operator in _BOOLEAN else dtype_of(term.type)
        return build.elementwise(op_of(operator), *arguments, dtype=dtype)
    raise Refusal(f"operator '{operator}' has no tensor form")


def _cast(lowering: Lowering, term: Call) -> Tensor:
    return lowering.build.cast(lowering.lower(term.args[0]), dtype_of(term.type))


def _infinity(lowering: Lowering, term: Call) -> Tensor:
    return lowering.build.constant(np.inf, dtype_of(term.type))


def _negative(lowering: Lowering, term: Call) -> Tensor:
    if infinite(term):
        return lowering.build.constant(-np.inf, dtype_of(term.type))
    return lowering.build.elementwise("neg", lowering.lower(term.args[0]))


def _not_equal(lowering: Lowering, term: Call) -> Tensor:
    a, b = map(lowering.lower, term.args)
    return lowering.build.elementwise("not", lowering.build.elementwise("equal", a, b, dtype="bool"))


# Division


def _divisor(lowering: Lowering, term: Term) -> Tensor:
    """The divisor; where its value may not be used, 1 in its place, or in the place of 0."""
    tensor = lowering.lower(term)
    if isinstance(term, Num) or tensor.dtype[0] not in "iu":
        return tensor
    build = lowering.build
    asked = lowering.asked & {("nonzero", array) for array in arrays_read(term)}
    if not lowering.guarded or (asked and lowering.choices):
        lowering.checked |= asked
    if not lowering.guarded:
        return tensor
    if asked and lowering.choices:
        one = build.constant(1, tensor.dtype)
        for condition, side in reversed(lowering.choices):
            sides = (tensor, one) if side else (one, tensor)
            tensor = build.elementwise("where", condition, *sides, dtype=tensor.dtype)
        return tensor
    zero = build.elementwise("equal", tensor, build.constant(0, tensor.dtype), dtype="bool")
    return build.elementwise("where", zero, build.constant(1, tensor.dtype), tensor, dtype=tensor.dtype)


def _dividing(op: str, **attrs: Any) -> Meaning:
    def meaning(lowering: Lowering, term: Call) -> Tensor:
        a, b = lowering.lower(term.args[0]), _divisor(lowering, term.args[1])
        return lowering.build.elementwise(op, a, b, **attrs)

    return meaning


def _floor_divide(lowering: Lowering, term: Call) -> Tensor:
    """(a - a mod b) / b, which is exact on integers; floor(a / b) on floats."""
    build = lowering.build
    a, b = lowering.lower(term.args[0]), _divisor(lowering, term.args[1])
    if a.dtype[0] == "f":
        return build.elementwise("floor", build.elementwise("div", a, b))
    return build.elementwise("div", build.elementwise("sub", a, build.elementwise("mod", a, b)), b)


# Selection


def _select(lowering: Lowering, term: Call) -> Tensor:
    condition, a, b = term.args
    kind = extreme(condition, a, b)
    if kind is not None and a.type.kind == "int":  # NaN decides among floats
        return lowering.build.elementwise(kind, lowering.lower(a), lowering.lower(b))
    mask = lowering.lower(condition)
    chosen = [lowering.lower_guarded(part, (mask, side)) for part, side in ((a, True), (b, False))]
    return lowering.build.elementwise("where", mask, *chosen, dtype=chosen[0].dtype)


# Elements by data


def gathered(lowering: Lowering, term: Read) -> Tensor:
    """Elements at positions of which no view can be made."""
    places = [n for n, at in enumerate(term.indices) if linear(at, lowering.build.extents) is None]
    if not places and len(lowering.grid(term.tensor).strides) > 1:
        raise Refusal(
            f"'{term.tensor}' is read beyond its borders along several axes, but for a test; let one "
            "function copy it into a larger array that has zeros around it, and another read that one "
            "without a test"
        )
    places = places or [0]
    subscripts = tuple(Size(at, I64) for at in term.indices)
    call = Call("element", (Read(term.tensor, (), term.type), *subscripts), term.type)
    if len(places) > 1 or len(lowering.grid(term.tensor).strides) > 1:
        return _gather(lowering, call, {place: _reached(lowering, call, place) for place in places})
    (place,) = places
    spare = bool(lowering.choices) and not holds_one(lowering, term, place)
    return _gather(lowering, call, {place: _length(term.tensor, place)}, spare)


def holds_one(lowering: Lowering, term: Read, axis: int) -> bool:
    """Whether an array holds an element wherever an iteration asks for one, as what is required says."""
    wanted = lowering.build.ordered(name for at in term.indices for name in at.symbols())
    extents = [lowering.build.extents[name] for name in wanted]
    filled = [lowering.sizes.filled(extent, extents) for extent in extents]
    scope = lowering.sizes.scope().knowing(extent - 1 for extent in (*extents, *filled))
    length = length_symbol(term.tensor, axis)
    lengths = [size.poly for size in lowering.summary.sizes if size.poly == Poly.symbol(length)]
    lengths += _required(lowering, term.tensor, axis)
    named = {size.poly: Poly.symbol(size.symbol) for size in lowering.summary.sizes}
    return any(scope.proves(named.get(poly, poly) - 1) for poly in lengths)


def _element(lowering: Lowering, term: Call) -> Tensor:
    """Gathers along the axes whose subscripts are data, or are chosen by position."""
    named, *subscripts = term.args
    assert isinstance(named, Read)
    places = [axis for axis, each in enumerate(subscripts) if not isinstance(each, Size)]
    if not any(arrays_read(each) for each in subscripts):
        return _gather(lowering, term, {place: _reached(lowering, term, place) for place in places})
    if len(places) > 1 or len(lowering.grid(named.tensor).strides) > 1:
        raise Refusal(
            f"'{named.tensor}' is read where data says along several axes; use arrays of one axis, or rows"
        )
    lowering.checked.add(("there", named.tensor))
    return _gather(lowering, term, {places[0]: _length(named.tensor, places[0])})


def _length(array: str, axis: int) -> Poly:
    return Poly.symbol(length_symbol(array, axis))


def _reached(lowering: Lowering, term: Call, place: int) -> Poly:
    """How many elements along an axis a subscript that is chosen by position reaches."""
    array = term.args[0]
    assert isinstance(array, Read)
    # Positions are computed wherever their own counters run, though others may not.
    own = lowering.build.ordered(symbols(term.args[place + 1]) & lowering.build.extents.keys())
    extents = [lowering.build.extents[name] for name in own]
    known = lowering.sizes.scope().binding(*zip(own, extents, strict=True))
    known = known.knowing(lowering.sizes.stated(extents))
    positions = choices(term.args[place + 1], known, position)
    ends = [] if positions is None else [high + 1 for high in highest(positions, known)]
    lengths = _required(lowering, array.tensor, place)
    alone = len(lowering.grid(array.tensor).strides) < 2
    whole = alone and not lowering.choices
    if lowering.choices or len(own) < len(lowering.build.extents):
        ends = [end for end in ends if _above_zero(end, known)]
        whole = whole and any(_above_zero(end, known) for end in (*lengths, _length(array.tensor, place)))
    if alone:
        for end in ends:
            if any(known.proves(length - end) for length in lengths):
                return lowering.sizes.filled(end, extents)
    if whole:
        return _length(array.tensor, place)
    if not ends:
        raise Refusal(
            f"how far '{array.tensor}' is read is not clear where its subscripts are chosen; compare the "
            "counters with 0 and with its length alone"
        )
    return lowering.sizes.filled(ends[0], extents)


def _above_zero(poly: Poly, known: Scope) -> bool:
    return known.proves(poly - 1) or known.proves(poly * 2 - 1)


def _required(lowering: Lowering, array: str, axis: int) -> list[Poly]:
    """Lengths that are required of an array whatever branches are taken."""
    return [
        r.poly
        for r in lowering.summary.requires
        if (r.kind, r.array, r.axis) == ("length", array, axis) and r.poly is not None and not r.where
    ]


def _gather(lowering: Lowering, term: Call, places: Mapping[int, Poly], spare: bool = False) -> Tensor:
    """Elements whose subscripts along some axes, of so many elements, are tensors; the first one where it
    may not be used, or, of what may be empty, a spare one behind the last."""
    build, (named, *subscripts) = lowering.build, term.args
    assert isinstance(named, Read)
    own = {symbol for each in subscripts if isinstance(each, Size) for symbol in each.poly.symbols()}
    at = [each.poly if isinstance(each, Size) else Poly.of(0) for each in subscripts]
    found: list[tuple[str, Tensor]] = []
    for place, extent in places.items():
        other = build.size(lowering.sizes.extent(extent), "i64") if spare else None
        index = _index(lowering, named.tensor, subscripts[place], other)
        variable = fresh("k")
        before = "" if own & set(index.axes) else next(iter(build.ordered(index.axes) or build.extents), "")
        build.insert(variable, lowering.sizes.extent(extent), before)
        at[place] = Poly.symbol(variable)
        found.append((variable, index))
    table = lowering.read(Read(named.tensor, tuple(at), term.type))
    for variable, index in found:
        if spare:
            table = build.with_spare(table, variable)
        table = _along(lowering, named.tensor, table, variable, index)
    return table


def _index(lowering: Lowering, array: str, subscript: Term, other: Tensor | None) -> Tensor:
    """A subscript, another place or 0 where what is read may not be used."""
    build = lowering.build
    index = lowering.lower(subscript)
    index = index if index.dtype in ("i32", "i64") else build.cast(index, "i64")
    if lowering.guarded and not lowering.choices:
        raise Refusal(f"'{array}' is read where data says, and not in every iteration")
    for condition, side in reversed(lowering.choices):
        unused = build.constant(0, index.dtype) if other is None else build.cast(other, index.dtype)
        sides = (index, unused) if side else (unused, index)
        index = build.elementwise("where", condition, *sides, dtype=index.dtype)
    return index


def _along(lowering: Lowering, array: str, table: Tensor, variable: str, index: Tensor) -> Tensor:
    """A table with an axis replaced by those of the index into it."""
    build, axis = lowering.build, table.axes.index(variable)
    others = (*table.axes[:axis], *table.axes[axis + 1 :])
    if not set(index.axes) & set(others):
        axes = (*table.axes[:axis], *index.axes, *table.axes[axis + 1 :])
        found = build.node("gather", (table, index), table.dtype, axes, axis=axis)
        return build.arrange(found, build.ordered(axes))
    if not set(index.axes) <= set(others):
        if lowering.choices:
            raise Refusal(
                f"'{array}' is read in some iterations only, at places of its own along several axes; read "
                "it in all of them, and choose among values"
            )
        raise Refusal(
            f"where '{array}' is read along one axis depends on the loop counters of another one; give each "
            "axis a loop of its own, or copy the rows that are read to an array first"
        )
    each = build.cast(build.arrange(build.expand(index, build.ordered(others)), others), "i64")
    along = build.constant([axis], "i64")
    column = build.node("unsqueeze", (each, along), "i64", others)
    found = build.node("gather_elements", (table, column), table.dtype, others, axis=axis)
    found = build.node("squeeze", (found, along), table.dtype, others)
    return build.arrange(found, build.ordered(others))


# Powers, shifts


def _power(lowering: Lowering, term: Call) -> Tensor:
    """A product for exponents 2 to 4, as repeated multiplication is what they mean."""
    base, exponent = term.args
    tensor = lowering.build.cast(lowering.lower(base), dtype_of(term.type))
    if isinstance(exponent, Num) and exponent.value in (2, 3, 4):
        square = lowering.build.elementwise("mul", tensor, tensor)
        other = {2: None, 3: tensor, 4: square}[int(exponent.value)]
        return square if other is None else lowering.build.elementwise("mul", square, other)
    return lowering.build.elementwise("pow", tensor, lowering.lower(exponent))


def _shift(direction: str) -> Meaning:
    def meaning(lowering: Lowering, term: Call) -> Tensor:
        a, b = map(lowering.lower, term.args)
        return lowering.build.elementwise(
            "bit_shift", a, lowering.build.cast(b, a.dtype), direction=direction
        )

    return meaning


_SPECIAL: dict[str, Meaning] = {
    "cast": _cast,
    "inf": _infinity,
    "neg": _negative,
    "not_equal": _not_equal,
    "div": _dividing("div"),
    "fmod": _dividing("mod", fmod=1),
    "floor_div": _floor_divide,
    "mod": _dividing("mod"),
    "where": _select,
    "element": _element,
    "pow": _power,
    "left_shift": _shift("LEFT"),
    "right_shift": _shift("RIGHT"),
}
