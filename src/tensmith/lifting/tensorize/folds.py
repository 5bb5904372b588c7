"""Folds as tensors: contractions, reductions, windows and running values.

A sum of products is a contraction (`products`); every other fold is an elementwise body over the joint space
of outer and fold variables, reduced. An extent that depends on outer variables (a triangle) becomes a mask
over a rectangle, or a running value where the body does not vary with the outer variable.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from tensmith.formula.expr import Num, Reduce, fresh, substitute
from tensmith.formula.functions import JOINS
from tensmith.formula.poly import Poly
from tensmith.lifting.loops import dtype_of
from tensmith.lifting.refusal import Refusal
from tensmith.lifting.summarize.constants import identity, infinite
from tensmith.lifting.summarize.substitution import symbols
from tensmith.lifting.summary import Term, first
from tensmith.lifting.tensorize import positions, products
from tensmith.lifting.tensorize.affine import linear
from tensmith.lifting.tensorize.build import Tensor
from tensmith.lifting.tensorize.operators import op_of
from tensmith.lifting.tensorize.windows import is_window, starts_plain, unrolled

if TYPE_CHECKING:
    from tensmith.lifting.tensorize.lower import Lowering


@dataclass(frozen=True)
class FoldRange:
    """The values a fold's variable takes: a rectangle, and a mask where it depends on outer variables."""

    var: str
    body: Term
    mask: tuple[Poly, ...] = ()


def lower(lowering: Lowering, fold: Reduce) -> Tensor:
    """The tensor of a fold."""
    if is_window(fold, lowering.build.extents):
        return lowering.lower(unrolled(fold))
    if (running := _running(lowering, fold)) is not None:
        return _joined(lowering, fold, running)
    if (whole := _with_start(fold)) is not None:
        return _reduced(lowering, whole, rectangle(lowering, whole))
    around = rectangle(lowering, fold)
    if fold.kind != "sum":
        return _reduced(lowering, fold, around)
    return _joined(lowering, fold, products.total(lowering, fold, around))


def _joined(lowering: Lowering, fold: Reduce, value: Tensor) -> Tensor:
    """The fold's start joined to the value of the rest."""
    if starts_plain(fold):
        return value
    return lowering.build.elementwise(op_of(JOINS[fold.kind]), lowering.lower(first(fold)), value)


# Triangles


def rectangle(lowering: Lowering, fold: Reduce) -> FoldRange:
    """The fold over a rectangle that holds every value its variable takes, and the mask that cuts it."""
    extents = lowering.build.extents
    outer = [v for v in extents if v in fold.extent.symbols()]
    if not outer:
        return FoldRange(*lowering.counted(fold.var, fold.extent, fold.body))
    parts = linear(fold.extent, extents)
    steps = {v: f.constant for v, f in parts[1].items()} if parts else {}
    if parts is None or None in steps.values():
        raise Refusal(f"a loop runs {fold.extent} times; its bound must be linear in the outer counters")
    # Where the extent shrinks with an outer variable, count from that variable's first value instead.
    shift = sum((Poly.symbol(v) * -(step or 0) for v, step in steps.items() if (step or 0) < 0), Poly.of(0))
    var = fresh("k") if shift.terms else fold.var
    body = substitute(fold.body, {fold.var: Poly.symbol(var) - shift}) if shift.terms else fold.body
    most = parts[0]
    for v, step in steps.items():
        most = most + (extents[v] - 1) * max(0, step or 0)
    var, body = lowering.counted(var, most, body)
    mask = [fold.extent + shift - 1 - Poly.symbol(var)]
    if shift.terms:
        mask.append(Poly.symbol(var) - shift)
        if all((step or 0) < 0 for step in steps.values()):
            mask = mask[1:]
    return FoldRange(var, body, tuple(mask))


def _running(lowering: Lowering, fold: Reduce) -> Tensor | None:
    """A fold over k < v or k <= v of what does not vary with v: a cumulative one along v; over as many as
    are left behind v: one from the other end."""
    build = lowering.build
    outer = [v for v in build.extents if v in fold.extent.symbols()]
    if len(outer) != 1 or outer[0] in symbols(fold.body):
        return None
    v, extent = Poly.symbol(outer[0]), build.extents[outer[0]]
    behind, place = fold.extent - v, v
    if behind not in (0, 1):
        behind, place = fold.extent + v - extent + 1, extent - 1 - v
    if behind not in (0, 1):
        return None
    body = lowering.lower(substitute(fold.body, {fold.var: place}))
    if outer[0] not in body.axes:
        return None
    axis = build.constant(body.axes.index(outer[0]), "i64")
    ends = {"exclusive": int(behind == 0), "reverse": int(place != v)}
    return build.node(f"cum_{fold.kind}", (body, axis), body.dtype, body.axes, **ends)


# Products, maxima and minima


def _with_start(fold: Reduce) -> Reduce | None:
    """A maximum that starts at the element before its first, as one over that element too."""
    if fold.kind not in ("max", "min") or substitute(fold.body, {fold.var: -1}) != first(fold):
        return None
    body = substitute(fold.body, {fold.var: Poly.symbol(fold.var) - 1})
    return replace(fold, extent=fold.extent + 1, body=body, start=identity(fold.kind, fold.type))


def _reduced(lowering: Lowering, fold: Reduce, around: FoldRange) -> Tensor:
    """The body over the joint space, reduced; positions outside the mask, and none at all, change nothing.

    A constant start serves as well as the identity there, and is then joined.
    """
    build = lowering.build
    dtype = dtype_of(fold.type)
    body = lowering.lower(around.body)
    neutral = fold.kind != "prod" and _is_constant(first(fold))
    unit = lowering.lower(first(fold) if neutral else identity(fold.kind, fold.type))
    if around.mask:
        body = build.elementwise("where", positions.mask(lowering, around.mask), body, unit, dtype=dtype)
    axes = build.ordered((*body.axes, around.var))
    body = build.expand(body, axes)
    axis = axes.index(around.var)
    padded = fold.kind != "prod" and not lowering.sizes.is_size(build.extents[around.var] - 1)
    if padded:
        pads = [0] * (2 * len(axes))
        pads[axis] = 1
        body = build.node("pad", (body, build.constant(pads, "i64"), unit), dtype, axes)
    kept = tuple(a for a in axes if a != around.var)
    axis_at = build.constant([axis], "i64")
    value = build.node(f"reduce_{fold.kind}", (body, axis_at), dtype, kept, keepdims=0)
    return value if padded and neutral else _joined(lowering, fold, value)


def _is_constant(term: Term) -> bool:
    return isinstance(term, Num) or infinite(term) != 0
