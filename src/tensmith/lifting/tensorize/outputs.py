"""Where a result goes: the boxes that are written, as outputs of the program."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction

from tensmith.formula.expr import Choose, Num, Read, fresh, rebuilt, substitute
from tensmith.formula.poly import Poly
from tensmith.formula.types import MachineType
from tensmith.lifting.lifted import Output
from tensmith.lifting.summarize.writing import writing
from tensmith.lifting.summary import Result, Term, Written
from tensmith.lifting.tensorize.affine import arrays_read, bounding
from tensmith.lifting.tensorize.build import Tensor
from tensmith.lifting.tensorize.lower import Lowering
from tensmith.lifting.tensorize.reads import view_of
from tensmith.lifting.tensorize.sizes import Sizes


@dataclass(frozen=True)
class Placed:
    """A tensor of the program and the output it becomes."""

    tensor: Tensor
    output: Output


def lower(lowering: Lowering, result: Result, needed: frozenset[str]) -> Iterator[Placed]:
    """The outputs of one result. `needed`: arrays whose content at entry some value reads."""
    result = replace(result, written=tuple(map(_ascending, result.written)))
    if result.name in lowering.summary.function.returned:
        yield _returned(lowering, result)
        return
    boxes = [part for written in result.written for part in _boxes(lowering.sizes, written)]
    parts = [(part, boxes[:position]) for position, part in enumerate(boxes)]
    if _on_paths_only(lowering, result):
        parts = [(on, earlier) for part, earlier in parts for on in _on_paths(lowering, result.name, part)]
    for part, earlier in parts:
        part = _shared(lowering, _trimmed(lowering.sizes, part))
        if any(map(lowering.counts_otherwise, part.indices, part.extents)):
            part = _cut(lowering.sizes, part, ())
        extents = {v: lowering.index(v, e) for v, e in zip(part.indices, part.extents)}
        lowering.boxes += [v for v in extents if v not in lowering.boxes]
        grid = lowering.grid(result.name)
        view = view_of(grid, part.at, extents, part.indices)
        value = lowering.lower_whole(_over(part, earlier, result) if part.where else part.value)
        whole = len(parts) == 1 and not part.where and result.name not in needed and view.front
        tensor = lowering.build.expand(value, part.indices)
        yield Placed(tensor, Output(result.name, result.type, view, whole))


def _on_paths(lowering: Lowering, array: str, part: Written) -> Iterator[Written]:
    """One box for each path on which a part is written, empty on all others."""
    if not part.indices:  # one element, or none
        index, old = fresh("i"), part.at
        at = (*part.at[:-1], part.at[-1] + Poly.symbol(index))

        def moved(term: Term) -> Term:
            if isinstance(term, Read) and (term.tensor, term.indices) == (array, old):
                return replace(term, indices=at)
            return rebuilt(term, moved)

        part = Written((index,), (Poly.of(1),), at, moved(part.value), part.where)
    paths = writing(array, part)
    for path in ((),) if paths is None else paths:
        first = lowering.sizes.where(part.extents[0], path) if path else part.extents[0]
        yield replace(part, extents=(first, *part.extents[1:]))


def _on_paths_only(lowering: Lowering, result: Result) -> bool:
    """Whether an array is written on some paths only, and required to be as long on those alone."""
    asked = any(r.kind == "length" and r.array == result.name and r.where for r in lowering.summary.requires)
    return asked and all(writing(result.name, written) for written in result.written)


def _trimmed(sizes: Sizes, part: Written) -> Written:
    """The part without what no element of a mask reaches: the last row where columns start behind it."""
    inside = sizes.scope().binding(*zip(part.indices, part.extents)).knowing(part.where)
    ends: list[Poly] = []
    for variable, extent in zip(part.indices, part.extents):
        high = inside.upper(Poly.symbol(variable)) if part.where else None
        if high is not None and sizes.is_size(extent - 2 - high):
            ends.append(high - Poly.symbol(variable))
    return _cut(sizes, replace(part, where=()), (*ends, *part.where)) if ends else part


def _shared(lowering: Lowering, part: Written) -> Written:
    """The part over the indices of boxes before it, so that what both compute is one tensor.

    Indices of equal extents take each other's place, outermost first, as long as the order of axes allows.
    """
    extents = [lowering.sizes.extent(extent) for extent in part.extents]
    free, names = list(lowering.boxes), list(part.indices)
    for place, extent in enumerate(extents):
        known = next((name for name in free if lowering.build.extents[name] == extent), None)
        if known is None:
            break
        names[place] = known
        free = free[free.index(known) + 1 :]
    return _moved(part, {v: Poly.symbol(n) for v, n in zip(part.indices, names)}, tuple(names))


def _ascending(written: Written) -> Written:
    """The same part with every index counted in the direction in which its subscript grows."""
    flipped = {
        index: extent - 1 - Poly.symbol(index)
        for index, extent in zip(written.indices, written.extents)
        for subscript in written.at
        if (factor := subscript.coefficient(index)) is not None and (factor.constant or 0) < 0
    }
    return _moved(written, flipped, written.indices) if flipped else written


def _over(part: Written, earlier: Sequence[Written], result: Result) -> Term:
    """The value where a part is written, elsewhere in its box what the array held by then."""
    held: Term = Read(result.name, part.at, result.type)
    inside = [Poly.symbol(v) for v in part.indices]
    inside += [extent - 1 - Poly.symbol(v) for v, extent in zip(part.indices, part.extents)]
    for other in earlier:
        held = _over_position(other, part.at, inside, held, result.type)
    return Choose(part.where, part.value, held, result.type)


# Values chosen by position become boxes of their own


def _boxes(sizes: Sizes, written: Written) -> Iterator[Written]:
    """Parts whose values no bound of a single variable chooses, in an order that overwrites rightly."""
    if any(_bound(condition, written) for condition in written.where):
        yield from _boxes(sizes, _cut(sizes, replace(written, where=()), written.where))
        return
    value = written.value
    if not isinstance(value, Choose) or not _bounds(value, written):
        yield written
        return
    other = replace(written, value=value.otherwise)
    if arrays_read(other.value):
        for position, condition in enumerate(value.conditions):
            outside = (*value.conditions[:position], -condition - 1)
            yield from _boxes(sizes, _cut(sizes, other, outside))
    else:
        yield from _boxes(sizes, other)
    yield from _boxes(sizes, _cut(sizes, replace(written, value=value.then), value.conditions))


def _bounds(value: Term, written: Written) -> bool:
    """Whether all conditions that choose among values bound single variables."""
    if not isinstance(value, Choose):
        return True
    return all(_bound(c, written) for c in value.conditions) and _bounds(value.otherwise, written)


def _bound(condition: Poly, written: Written) -> tuple[str, int, Poly] | None:
    """See `bounding`, of the indices of a part."""
    return bounding(condition, dict(zip(written.indices, written.extents)))


def _cut(sizes: Sizes, written: Written, conditions: Sequence[Poly]) -> Written:
    """The part where conditions hold: a smaller box, its indices counted from the lower bounds."""
    names = {variable: fresh("i") for variable in written.indices}
    part = _moved(written, {v: Poly.symbol(name) for v, name in names.items()}, tuple(names.values()))
    left = [condition.substitute({v: Poly.symbol(n) for v, n in names.items()}) for condition in conditions]
    while left:
        condition = left.pop(0)
        if (bound := _bound(condition, part)) is None:
            part = replace(part, where=(*part.where, condition))
            continue
        variable, side, rest = bound
        place = part.indices.index(variable)
        extent = part.extents[place]
        low = Poly.of(0)
        if side == 1:
            low = sizes.extent(-rest)
            extent = extent - low
        elif not sizes.is_size(rest + 1 - extent):  # min(extent, rest + 1)
            extent = extent - sizes.extent(extent - rest - 1)
        moved = {variable: Poly.symbol(variable) + low}
        part = _moved(part, moved, part.indices)
        part = replace(part, extents=(*part.extents[:place], extent, *part.extents[place + 1 :]))
        left = [other.substitute(moved) for other in left]
    return part


def _moved(written: Written, values: Mapping[str, Poly], indices: tuple[str, ...]) -> Written:
    """The same part with other index variables."""
    return Written(
        indices,
        written.extents,
        tuple(at.substitute(values) for at in written.at),
        substitute(written.value, values),
        tuple(condition.substitute(values) for condition in written.where),
    )


# Returned values


def _returned(lowering: Lowering, result: Result) -> Placed:
    """A returned scalar, or a returned array put together from its parts."""
    shape = result.shape or ()
    indices = tuple(fresh("i") for _ in shape)
    for variable, extent in zip(indices, shape):
        lowering.index(variable, extent)
    value: Term = Num(Fraction(0), result.type)
    position = tuple(map(Poly.symbol, indices))
    inside = [*position, *(extent - 1 - place for extent, place in zip(shape, position))]
    for part in result.written:
        value = _over_position(part, position, inside, value, result.type)
    tensor = lowering.build.expand(lowering.lower_whole(value), indices)
    return Placed(tensor, Output(result.name, result.type))


def _over_position(
    part: Written, position: Sequence[Poly], inside: Sequence[Poly], otherwise: Term, type_: MachineType
) -> Term:
    """What a part writes at a position, and `otherwise` where it writes nothing; inside: known to be >= 0."""
    moved: dict[str, Poly] = {}
    conditions: list[Poly] = []
    extents = dict(zip(part.indices, part.extents))
    for subscript, place in zip(part.at, position):
        used = sorted(subscript.symbols() & extents.keys())
        offset = subscript - Poly.symbol(used[0]) if used else subscript
        if used:
            moved[used[0]] = place - offset
        conditions += [place - offset, offset + (extents[used[0]] if used else 1) - 1 - place]
    conditions += [condition.substitute(moved) for condition in part.where]
    here = substitute(part.value, moved)
    left = tuple(condition for condition in conditions if condition not in inside)
    return Choose(left, here, otherwise, type_) if left else here
