"""Elements at places of which no view is made: chosen by data or by position, or there under a test alone."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from tensmith.formula.expr import Call, Read, Size, fresh
from tensmith.formula.poly import Poly
from tensmith.formula.types import I64
from tensmith.lifting.lifted import ArrayView
from tensmith.lifting.loops import dtype_of
from tensmith.lifting.refusal import Refusal
from tensmith.lifting.summarize.chosen import choices, highest, position
from tensmith.lifting.summarize.scope import Scope
from tensmith.lifting.summarize.substitution import symbols
from tensmith.lifting.summary import Term, length_symbol
from tensmith.lifting.tensorize import positions
from tensmith.lifting.tensorize.affine import arrays_read, linear
from tensmith.lifting.tensorize.build import Tensor
from tensmith.lifting.tensorize.reads import view_of

if TYPE_CHECKING:
    from tensmith.lifting.tensorize.lower import Lowering


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


def by_axis(lowering: Lowering, term: Read) -> Tensor | None:
    """Elements of which tests say that they lie inside, along one axis after another: a spare one behind each
    where they do not. None where none is read with a stride, or no test is about its axis alone."""
    build, tests, indices = lowering.build, lowering.tests, list(term.indices)
    guarded: dict[int, Poly] = {}
    strided = False
    for place, index in enumerate(term.indices):
        lasts = [test + index for test in tests if not (test + index).symbols() & build.extents.keys()]
        own = build.ordered(index.symbols())
        if index in tests and lasts and len(own) == 1:
            guarded[place] = lowering.sizes.extent(lasts[0] + 1)
            strided |= index.coefficient(own[0]) != 1
    if not strided:
        return None
    variables = {place: fresh("k") for place in guarded}
    for place, variable in variables.items():
        build.insert(variable, guarded[place], before=build.ordered(term.indices[place].symbols())[0])
        indices[place] = Poly.symbol(variable)
    axes = build.ordered(symbol for each in indices for symbol in each.symbols())
    view = view_of(lowering.grid(term.tensor), indices, build.extents, axes)
    table = build.view(view, dtype_of(term.type), axes)
    for place, extent in guarded.items():
        index = term.indices[place]
        inside = positions.mask(lowering, (index, extent - 1 - index))
        at = positions.value(lowering, index, "i64")
        at = build.elementwise("where", inside, at, build.size(extent, "i64"))
        table = build.with_spare(table, variables[place])
        table = along(lowering, term.tensor, table, variables[place], at)
    return table


def lies_outside(lowering: Lowering, term: Read, view: ArrayView) -> bool:
    """Whether a view that is read under tests may begin before its array, which has one axis; or end behind
    it, where a test is about that: else its end is required."""
    steps = zip(view.steps[0], view.shape)
    falling = [step * (extent - 1) for step, extent in steps if (step.constant or 0) < 0]
    if not lowering.sizes.scope().proves(sum(falling, view.offset[0])):
        return True
    ends = (test + index for test in lowering.tests for index in term.indices[:1])
    tested = any(end.symbols().isdisjoint(lowering.build.extents) for end in ends)
    return len(term.indices) == 1 and tested and not lies_inside(lowering, view)


def lies_inside(lowering: Lowering, view: ArrayView) -> bool:
    """Whether a view that holds anything surely lies inside its array, whatever branches are taken."""
    filled = [lowering.sizes.filled(extent, view.shape) for extent in view.shape]
    scope = lowering.sizes.scope().knowing(extent - 1 for extent in filled)
    for axis, (first, steps) in enumerate(zip(view.offset, view.steps)):
        low = high = first
        for step, extent in zip(steps, view.shape):
            if scope.proves(step):
                high = high + step * (extent - 1)
            elif scope.proves(-step):
                low = low + step * (extent - 1)
            else:
                return False
        lengths = [*_required(lowering, view.array, axis), _length(view.array, axis)]
        low, high = (lowering.sizes.filled(poly, view.shape) for poly in (low, high))
        if not scope.proves(low) or not any(scope.proves(length - 1 - high) for length in lengths):
            return False
    return True


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


def element(lowering: Lowering, term: Call) -> Tensor:
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
    chosen = choices(term.args[place + 1], known, position)
    ends = [] if chosen is None else [high + 1 for high in highest(chosen, known)]
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
        table = along(lowering, named.tensor, table, variable, index)
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


def along(lowering: Lowering, array: str, table: Tensor, variable: str, index: Tensor) -> Tensor:
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
