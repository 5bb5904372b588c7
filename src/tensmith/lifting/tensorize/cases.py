"""Values chosen by position: boxes where the conditions bound one variable each, masks elsewhere."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tensmith.formula.expr import Choose, Num, fresh, substitute
from tensmith.formula.poly import Poly
from tensmith.lifting.loops import dtype_of
from tensmith.lifting.summary import Term
from tensmith.lifting.tensorize import borders, positions
from tensmith.lifting.tensorize.affine import arrays_read, bounding
from tensmith.lifting.tensorize.build import Tensor
from tensmith.lifting.tensorize.windows import decided

if TYPE_CHECKING:
    from tensmith.lifting.tensorize.lower import Lowering


@dataclass(frozen=True)
class VariableBounds:
    """low <= variable < high, each None where the box of the variable itself bounds it."""

    variable: str
    low: Poly | None = None
    high: Poly | None = None


def bounds_of(conditions: Sequence[Poly], extents: Mapping[str, Poly]) -> tuple[VariableBounds, ...] | None:
    """Conditions (all >= 0) as bounds of single variables, at most one on a side; None where they are not."""
    found: dict[str, VariableBounds] = {}
    for condition in conditions:
        if (parts := bounding(condition, extents)) is None:
            return None
        variable, side, rest = parts
        here = found.get(variable, VariableBounds(variable))
        if side == 1 and here.low is None:
            low = None if rest.constant is not None and rest.constant >= 0 else -rest
            found[variable] = VariableBounds(variable, low, here.high)
        elif side == -1 and here.high is None:
            found[variable] = VariableBounds(variable, here.low, rest + 1)
        else:
            return None
    return tuple(found.values())


def lower(lowering: Lowering, term: Choose) -> Tensor:
    """The tensor of a choice by position."""
    if (known := decided(term)) != term:
        return lowering.lower(known)
    if (bordered := borders.lower(lowering, term)) is not None:
        return bordered
    mask = positions.mask(lowering, term.conditions)
    otherwise = lowering.lower_guarded(term.otherwise, (mask, False))
    bounds = bounds_of(term.conditions, lowering.build.extents)
    if bounds is not None and arrays_read(term.then):
        then = _in_box(lowering, term.then, bounds)
        if isinstance(term.otherwise, Num) and term.otherwise.value == 0:
            return then
    else:
        then = lowering.lower_guarded(term.then, (mask, True), tests=term.conditions)
    return lowering.build.elementwise("where", mask, then, otherwise, dtype=dtype_of(term.type))


def _in_box(lowering: Lowering, value: Term, bounds: tuple[VariableBounds, ...]) -> Tensor:
    """The value inside the bounds, 0 elsewhere; nothing outside the bounds is read.

    The value is computed over the box alone, an element 0 is put behind its end, and positions outside the
    box take that one.
    """
    build = lowering.build
    bounds = tuple(_inside(lowering, bound) for bound in bounds)
    inner = {bound.variable: fresh("k") for bound in bounds}
    for bound in bounds:
        high = build.extents[bound.variable] if bound.high is None else bound.high
        extent = lowering.sizes.extent(high - (bound.low or 0))
        build.insert(inner[bound.variable], extent, before=bound.variable)
    moved = {b.variable: Poly.symbol(inner[b.variable]) + (b.low or 0) for b in bounds}
    tensor = lowering.lower_elsewhere(substitute(value, moved), moved)
    for bound in bounds:
        if inner[bound.variable] in tensor.axes:
            tensor = _spread(lowering, tensor, inner[bound.variable], bound)
    outside = [bound for bound in bounds if bound.variable not in tensor.axes]
    if outside:
        mask = positions.mask(lowering, [c for bound in outside for c in _conditions(bound)])
        zero = build.constant(0, tensor.dtype)
        tensor = build.elementwise("where", mask, tensor, zero, dtype=tensor.dtype)
    return tensor


def _inside(lowering: Lowering, bound: VariableBounds) -> VariableBounds:
    """The bounds with none below 0 and none above the variable's extent."""
    extent, sizes = lowering.build.extents[bound.variable], lowering.sizes
    low = None if bound.low is None else sizes.extent(bound.low)
    high = None if bound.high is None else extent - sizes.extent(extent - bound.high)
    return VariableBounds(bound.variable, low, high)


def _conditions(bound: VariableBounds) -> list[Poly]:
    variable = Poly.symbol(bound.variable)
    low = [] if bound.low is None else [variable - bound.low]
    return low if bound.high is None else [*low, bound.high - 1 - variable]


def _spread(lowering: Lowering, tensor: Tensor, inner: str, bound: VariableBounds) -> Tensor:
    """A tensor over the box of one variable as one over all of the variable's values."""
    build = lowering.build
    axis = tensor.axes.index(inner)
    padded = build.with_spare(tensor, inner)
    at = positions.value(lowering, Poly.symbol(bound.variable) - (bound.low or 0), "i64")
    behind = positions.value(lowering, build.extents[inner], "i64")
    holds = positions.mask(lowering, _conditions(bound))
    places = build.elementwise("where", holds, at, behind, dtype="i64")
    axes = tuple(bound.variable if a == inner else a for a in tensor.axes)
    return build.node("gather", (padded, places), tensor.dtype, axes, axis=axis)
