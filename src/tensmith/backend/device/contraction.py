"""Sums of products of two factors: whatever they come from, a product of matrices.

    out[b, i, j] = sum(k; left[b, i, k] * right[b, k, j])

where b, i, j and k each stand for several axes. A convolution is one (implicit GEMM, Chetlur et al. 2014):
its filters depend on the output channel, the image on position, both on channel and window.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from tensmith.backend.device.definitions import Axes, ranges_of, tidy
from tensmith.backend.device.fusion import Group, split_axis
from tensmith.backend.device.reductions import DeviceReduction
from tensmith.formula.expr import Call, Choose, Expr, Read, fresh
from tensmith.formula.poly import FloorDiv, Poly
from tensmith.formula.walk import free_variables, parts


@dataclass(frozen=True, eq=False)
class Contraction:
    """A group as a product of matrices; `columns` has the axis that is innermost in memory, if one has it."""

    group: Group
    batch: Axes
    rows: Axes
    columns: Axes
    depth: Axes
    left: Expr
    right: Expr


def contraction(group: Group) -> Contraction | None:
    """The group as a product of matrices with rows and columns, if it is one."""
    if _factors(group.fold) is None:
        return None
    group = _grouped(group)
    factors = _factors(group.fold)
    assert factors is not None and group.fold is not None
    if group.axes and group.axes[-1][0] in free_variables(factors[0]):
        factors = factors[::-1]
    left, right = map(free_variables, factors)
    rows = tuple(axis for axis in group.axes if axis[0] in left - right)
    columns = tuple(axis for axis in group.axes if axis[0] in right - left)
    batch = tuple(axis for axis in group.axes if axis[0] in left & right)
    if not rows or not columns:
        return None
    return Contraction(group, batch, rows, columns, group.fold.axes, *factors)


def _factors(fold: DeviceReduction | None) -> tuple[Expr, Expr] | None:
    if fold is not None and fold.kind == "sum":
        match fold.body:
            case Call("mul", (left, right)):
                return left, right
    return None


def _grouped(group: Group) -> Group:
    """With the output channels of a grouped convolution as two axes, the group and the channel in it.

    Both factors depend on the channel k, but one only on floor(k / channels a group).
    """
    for axis, extent in group.axes:
        factors = _factors(group.fold)
        assert factors is not None
        for factor in factors:
            sizes = {d.bottom.constant for d in _divisions(factor) if d.top == Poly.symbol(axis)}
            size = sizes.pop() if len(sizes) == 1 else None
            if not size or extent % size:
                continue
            inner = fresh("i")
            split = _tidied(split_axis(group, axis, (fresh("i"), inner), size))
            if any(inner not in free_variables(part) for part in _factors(split.fold) or ()):
                return _grouped(split)
    return group


def _tidied(group: Group) -> Group:
    assert group.fold is not None
    ranges = ranges_of((*group.axes, *group.fold.axes))
    return group.with_fold(tidy(group.fold.body, ranges))


def _divisions(expr: Expr) -> Iterator[FloorDiv]:
    """The divisions in subscripts and conditions."""
    polys: tuple[Poly, ...] = ()
    if isinstance(expr, Read):
        polys = expr.indices
    elif isinstance(expr, Choose):
        polys = expr.conditions
    for poly in polys:
        yield from poly.divisions()
    for part in parts(expr):
        yield from _divisions(part)
