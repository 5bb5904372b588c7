"""Windows that reach behind an array's ends, where a guard leaves out what is not there: slices of the array
with a border around it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import TYPE_CHECKING, TypeAlias

from tensmith.formula.expr import Call, Choose, Num, Read, Reduce
from tensmith.formula.poly import Poly
from tensmith.formula.walk import loads, walk
from tensmith.lifting.lifted import TO_THE_END
from tensmith.lifting.loops import dtype_of
from tensmith.lifting.summary import Term, first
from tensmith.lifting.tensorize import gathers, positions
from tensmith.lifting.tensorize.affine import arrays_read, linear
from tensmith.lifting.tensorize.build import Tensor
from tensmith.lifting.tensorize.reads import view_of
from tensmith.lifting.tensorize.windows import starts_plain

if TYPE_CHECKING:
    from tensmith.lifting.tensorize.lower import Lowering

# How far is read before and behind the place of an element along each axis, of arrays by name.
Reach: TypeAlias = dict[str, tuple[tuple[int, int], ...]]


# The most that the last place of a window with a stride lies behind an axis.
_FARTHEST = 8


@dataclass(frozen=True)
class GuardedAxis:
    """An axis of `extent` elements, read at step * variable + offset where that lies inside. before, behind:
    how many elements a border needs there."""

    variable: str
    step: int
    offset: int
    extent: Poly
    before: int
    behind: int


def reach(term: Term) -> Reach:
    """Of what a term reads, with the variables of small folds at their least and greatest."""
    inner = [fold for fold in walk(term) if isinstance(fold, Reduce)]
    last = {fold.var: fold.extent.constant - 1 for fold in inner if fold.extent.constant}
    found: Reach = {}
    for read in loads(term):
        here = tuple(_span(index, last) for index in read.indices)
        before = found.get(read.tensor, here)
        found[read.tensor] = tuple((min(a, c), max(b, d)) for (a, b), (c, d) in zip(before, here))
    return found


def _span(index: Poly, last: Mapping[str, int]) -> tuple[int, int]:
    """The offsets that window variables, from 0 to their last, give a subscript."""
    low = high = dict(index.terms).get((), 0)
    for variable, greatest in last.items():
        factor = index.coefficient(variable)
        most = greatest * (factor.constant or 0) if factor is not None else 0
        low, high = low + min(0, most), high + max(0, most)
    return low, high


def lower(lowering: Lowering, term: Choose) -> Tensor | None:
    """A choice of what is read in a window where that is inside its array; None where it is none.

    Around the array lies the number that stands for what is outside, if it is one; else a mask tells what is
    chosen.
    """
    spans = (span for read in loads(term) for span in lowering.reach.get(read.tensor, ()))
    if not any(low < high for low, high in spans):
        return None
    if len(term.conditions) == 1 and arrays_read(term.otherwise) and not arrays_read(term.then):
        term = replace(term, conditions=(-term.conditions[0] - 1,), then=term.otherwise, otherwise=term.then)
    then, otherwise = term.then, term.otherwise
    zero = isinstance(otherwise, Num) and otherwise.value == 0
    if isinstance(then, Choose) and then.otherwise == otherwise:
        return lowering.lower(replace(then, conditions=(*term.conditions, *then.conditions)))
    if isinstance(then, Reduce) and _is_unit(otherwise, then):
        return lowering.lower(replace(then, body=replace(term, then=then.body)))
    reads = list(loads(then))
    for read in reads:
        if not (axes := _guarded(lowering, read, term.conditions)):
            continue
        number = otherwise if isinstance(otherwise, Num) else Num(0, read.type)
        if isinstance(otherwise, Num) and (then == read or (zero and _vanishes(then, read))):
            factors = any(isinstance(part, Read) and part != read for part in walk(then))
            lowering.masked |= factors and dtype_of(term.type)[0] == "f"
            return _with(lowering, read, _bordered(lowering, read, axes, number), then)
        if len(reads) == 1:
            mask = positions.mask(lowering, term.conditions)
            value = _with(lowering, read, _bordered(lowering, read, axes, number), then, (mask, True))
            other = lowering.lower_guarded(otherwise, (mask, False))
            return lowering.build.elementwise("where", mask, value, other, dtype=dtype_of(term.type))
    return None


def _is_unit(term: Term, fold: Reduce) -> bool:
    """Whether a fold of nothing but a term, as often as you like, is that term."""
    return term == first(fold) and (starts_plain(fold) or fold.kind in ("max", "min"))


def _with(
    lowering: Lowering, read: Read, tensor: Tensor, term: Term, *choices: tuple[Tensor, bool]
) -> Tensor:
    """The tensor of a term in which what is read is a tensor."""
    lowering.bordered[read] = tensor
    value = lowering.lower_guarded(term, *choices) if choices else lowering.lower(term)
    del lowering.bordered[read]
    return value


def _guarded(lowering: Lowering, read: Read, conditions: tuple[Poly, ...]) -> dict[int, GuardedAxis] | None:
    """The axes that the conditions are about; None where some are about something else, or do not hold an
    axis that needs it inside."""
    if read.tensor not in lowering.reach:
        return None
    extents, left, found = lowering.build.extents, set(conditions), dict[int, GuardedAxis]()
    for place, index in enumerate(read.indices):
        parts = linear(index, extents)
        if parts is None:
            return None
        at, steps = parts[0].constant, parts[1]
        if len(steps) > 1:
            return None
        step = next((step.constant or 0 for step in steps.values()), 0)
        if at is None or step < 1:
            continue
        (variable,) = steps
        alone = sum(variable in each.symbols() for each in read.indices) == 1
        extent = extents[variable] if step == 1 else _tested(index, conditions, extents)
        if extent is None:
            continue
        low, high = index, extent - 1 - index
        before, behind = lowering.reach[read.tensor][place]
        if step == 1 and before == behind == 0 and not (at or left & {low, high}):
            continue
        held = (low in left or at >= 0) and (high in left or (at <= 0 and step == 1))
        if not (alone and held and before <= min(at, 0) <= max(at, 0) <= behind):
            return None
        far = 0 if step == 1 else _farther(lowering, step, extents[variable], extent)
        if far is None:
            return None
        left -= {low, high}
        found[place] = GuardedAxis(variable, step, at, extent, -before, behind + far)
    return None if left else found


def _tested(index: Poly, conditions: Sequence[Poly], extents: Mapping[str, Poly]) -> Poly | None:
    """What a condition says that a subscript is below, where that is one number for all."""
    ends = (condition + index + 1 for condition in conditions)
    return next((end for end in ends if not end.symbols() & extents.keys()), None)


def _farther(lowering: Lowering, step: int, count: Poly, extent: Poly) -> int | None:
    """How far behind an axis the last of so many places is; None where that is not sure."""
    known = lowering.sizes.scope().knowing((count - 1,))
    left = extent - 1 - step * (count - 1)
    return next((more for more in range(_FARTHEST) if known.proves(left + more)), None)


def _vanishes(term: Term, read: Read) -> bool:
    """Whether a term is 0 where what is read is."""
    match term:
        case Read():
            return term == read
        case Call("mul", args):
            return any(_vanishes(arg, read) for arg in args)
        case Call("cast" | "neg", (arg,)):
            return _vanishes(arg, read)
        case Call("add" | "sub", args):
            return all(_vanishes(arg, read) for arg in args)
    return False


def _bordered(lowering: Lowering, read: Read, guarded: Mapping[int, GuardedAxis], around: Num) -> Tensor:
    """The elements at the offsets: slices of the array with as much around it as the window needs, or what is
    at every so many places of that."""
    build, dtype = lowering.build, dtype_of(read.type)
    indices, along = list(read.indices), dict[str, GuardedAxis]()
    for place, axis in guarded.items():
        name = axis.variable
        if axis.step > 1:
            name = f"{axis.variable} of {axis.extent} of {read.tensor}, {place}"
            build.insert(name, lowering.sizes.extent(axis.extent), before=axis.variable)
        indices[place], along[name] = Poly.symbol(name), axis
    axes = build.ordered(symbol for index in indices for symbol in index.symbols())
    view = view_of(lowering.grid(read.tensor), indices, build.extents, axes)
    lowering.certain.add((view.array, view.offset))
    sides = [(along[a].before, along[a].behind) if a in along else (0, 0) for a in axes]
    widths = [before for before, _ in sides] + [behind for _, behind in sides]
    found = build.view(view, dtype, axes)
    if any(widths):
        number = lowering.number(Fraction(around.value), read.type)
        found = build.node("pad", (found, build.constant(widths, "i64"), number), dtype, axes)
    places = (place for place, a in enumerate(axes) if any(sides[place]) and along[a].step == 1)
    if cut := {place: along[axes[place]] for place in places}:
        starts = [axis.offset + axis.before for axis in cut.values()]
        ends = [axis.offset - axis.behind or TO_THE_END for axis in cut.values()]
        bounds = (build.constant(each, "i64") for each in (starts, ends, list(cut)))
        found = build.node("slice", (found, *bounds), dtype, axes)
    for name, axis in along.items():
        if axis.step > 1:
            index = axis.step * Poly.symbol(axis.variable) + axis.offset + axis.before
            at = positions.value(lowering, index, "i64")
            found = gathers.along(lowering, read.tensor, found, name, at)
    return found
