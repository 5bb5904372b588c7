"""Reductions: over fewer elements, or fewer times.

Measure: elements reduced, then reductions, then other operations on values that vary. What needs the order
of numbers is in the phase "fold".
"""

from __future__ import annotations

import math
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from tensmith.formula.poly import Poly
from tensmith.ir.ops.shared import normal_axis
from tensmith.rewrite.given import Instance
from tensmith.rewrite.law import family, floating, law
from tensmith.rewrite.match import Match
from tensmith.rewrite.term import Bindings, Term, Use, Var, later, ops

X, Y = Var("x"), Var("y")
C, AXES, MORE = Var("c", static=True), Var("axes"), Var("more")
LINEAR, EXTREME = ("reduce_sum", "reduce_mean"), ("reduce_max", "reduce_min")
KEPT, NOT_KEPT = {"keepdims": 1}, {"keepdims": 0}


def reduce(kind: str, x: Term, axes: Any = AXES, attrs: Any = "reduce") -> Use:
    """A reduction by its name."""
    made: Use = getattr(ops, kind)(x, axes, attrs=attrs)
    return made


def axes_of(
    m: Bindings, rank: int | None, capture: str = "reduce", var: Var = AXES
) -> tuple[int, ...] | None:
    """The axes that are reduced, in order; None where they are not known, or the rank is open."""
    if rank is None:
        return None
    if not m.has(var):
        return () if m.attrs[capture].get("noop_with_empty_axes") else tuple(range(rank))
    value = m.value(var)
    if value is None or value.dtype == object:
        return None
    found = tuple(sorted({normal_axis(int(axis), rank) for axis in value.reshape(-1)}))
    return found or None


def _samples(shape: str, *axes: tuple[int, ...], **more: tuple[int, ...]) -> list[Instance]:
    return [
        Instance(
            f"axes {a}, keepdims={k}",
            {"x": shape, "y": shape},
            example=True,
            sample={"reduce": {"keepdims": k}},
            values={"axes": np.array(a), **{n: np.array(v) for n, v in more.items()}},
        )
        for a in axes
        for k in (0, 1)
    ]


_CUBE = _samples("N C H", (1,), (0, 2))


def known(m: Match) -> str | None:
    """None if the axes that are reduced are known, and numbers floats."""
    rank = m.type(X).rank
    if floating(m) is not None or rank is None:
        return ""
    return None if axes_of(m, rank) is not None else "the axes are not known"


# Linear in what is reduced

family(
    "scale_behind_reduction",
    [(reduce(k, X * C), reduce(k, X) * C, reduce(k, X) + C) for k in LINEAR],
    given=[*_CUBE],
    c="",
    when=lambda m: known(m) or _whole(m),
    order=46,
    says="sum(x * c) = sum(x) * c, c one number; also of means.",
)
family(
    "negative_behind_reduction",
    [(reduce(k, -X), -reduce(k, X), reduce(k, X)) for k in LINEAR],
    given=_CUBE,
    when=known,
    order=46,
)
family(
    "reductions_meet",
    [
        (s(reduce(k, X), reduce(k, Y)), reduce(k, s(X, Y)), reduce(k, t(X, Y)))
        for k in LINEAR
        for s, t in ((ops.add, ops.sub), (ops.sub, ops.add))
    ],
    given=_CUBE,
    x="N C H",
    y="N C H",
    when=known,
    phase="form",
    says="sum(x) + sum(y) = sum(x + y), over equal axes.",
)
family(
    "reduction_of_sum",
    [
        (reduce(k, s(X, Y)), s(reduce(k, X), reduce(k, Y)), t(reduce(k, X), reduce(k, Y)))
        for k in LINEAR
        for s, t in ((ops.add, ops.sub), (ops.sub, ops.add))
    ],
    given=_CUBE,
    when=lambda m: known(m) or _alike(m),
    phase="form",
    says="sum(x + y) = sum(x) + sum(y), of equal shapes.",
)


def _whole(m: Match) -> str | None:
    return "the reduction is of nothing" if 0 in m.shape(X) else None


def _alike(m: Match) -> str | None:
    return None if m.type(X).shape == m.type(Y).shape is not None else "the shapes differ"


law(
    "shift_behind_mean",
    reduce("reduce_mean", X + C),
    reduce("reduce_mean", X) + C,
    reduce("reduce_mean", X) - C,
    given=[replace(i, lower=dict.fromkeys("NCH", 1)) for i in _CUBE],
    c="",
    when=lambda m: known(m) or _whole(m),
    order=46,
)

# Reductions of reductions


@later("{1}(x, both)")
def _both(m: Bindings, off: int, kind: str) -> Term:
    rank, keep = len(m.shape(X)), m.attrs["first"]["keepdims"]
    first = axes_of(m, rank, "first")
    assert first is not None
    left = [axis for axis in range(rank) if keep or axis not in first]
    second = axes_of(m, len(left), "second", MORE)
    assert second is not None
    every = sorted({*first, *(left[axis] for axis in second)})
    return reduce(kind, X, np.array(every[off:]), attrs={"keepdims": m.attrs["second"]["keepdims"]})


def _nested(m: Match) -> str | None:
    inner = m.program.type(m.nodes[1].output).rank
    if axes_of(m, m.type(X).rank, "first") is None or axes_of(m, inner, "second", MORE) is None:
        return "the axes are not known"
    same = m.attrs["first"]["keepdims"] == m.attrs["second"]["keepdims"]
    return None if same else "one keeps its axes, the other does not"


def _twice(kind: str) -> Use:
    return reduce(kind, reduce(kind, X, AXES, "first"), MORE, "second")


_NESTED = [
    Instance(
        f"{a} then {b}, keepdims={k}",
        {"x": "N C H"},
        example=True,
        lower=dict.fromkeys("NCH", 1),
        sample={"first": {"keepdims": k}, "second": {"keepdims": k}},
        values={"axes": np.array(a), "more": np.array(b)},
    )
    for k, a, b in ((1, (1,), (2,)), (1, (2,), (0,)), (0, (1,), (1,)), (0, (2,), (0, 1)))
]
family(
    "reduction_of_reduction",
    [(_twice(k), _both(0, k), _both(1, k)) for k in (*LINEAR, "reduce_prod")],
    given=_NESTED,
    when=_nested,
    order=15,
    says="sum(sum(x, a), b) = sum(x, both); also of means and products.",
)
family(
    "extreme_of_extreme",
    [(_twice(k), _both(0, k), _both(1, k)) for k in EXTREME],
    given=_NESTED,
    when=_nested,
    phase="fold",
    order=15,
    says="max(max(x, a), b) = max(x, both).",
)

# Through views


@later("{0}(x, p[axes])")
def _permuted(m: Bindings, kind: str, off: int) -> Term:
    rank = len(m.shape(X))
    perm = m.attrs["perm"]["perm"] or tuple(reversed(range(rank)))
    axes = axes_of(m, rank)
    assert axes is not None
    found = sorted((perm[axis] + off) % rank for axis in axes)
    return reduce(kind, X, np.array(found), attrs={"keepdims": 0})


def _order_kept(m: Match) -> str | None:
    rank = m.type(X).rank
    axes = axes_of(m, rank)
    if rank is None or axes is None or m.attrs["reduce"]["keepdims"]:
        return "the axes are not known, or stay"
    perm = m.attrs["perm"]["perm"] or tuple(reversed(range(rank)))
    left = [perm[axis] for axis in range(rank) if axis not in axes]
    return None if left == sorted(left) else "the axes that are left change places"


_PERMS = [
    Instance(
        f"{p} over {a}",
        {"x": "N C H"},
        example=True,
        values={"axes": np.array(a)},
        sample={"perm": {"perm": p}, "reduce": {"keepdims": 0}},
    )
    for p, a in (((0, 2, 1), (1,)), ((1, 0, 2), (0, 2)), ((2, 0, 1), (0,)))
]
_TURNED = ops.transpose(X, attrs="perm")
family(
    "reduction_of_transpose",
    [(reduce(k, _TURNED), _permuted(k, 0), _permuted(k, 1)) for k in (*LINEAR, *EXTREME, "reduce_prod")],
    given=_PERMS,
    when=_order_kept,
    order=15,
    says="sum(transpose(x, p), axes) = sum(x, p[axes]), where the other axes keep their order.",
)
_ALL = [
    Instance(
        "all",
        {"x": "N C H"},
        sample={"reduce": {"keepdims": 0}, "view": {"allowzero": 0}},
        lower=dict.fromkeys("NCH", 1),
        values={"s": np.array([-1])},
        example=True,
    )
]
_S = Var("s")
family(
    "reduction_of_reshape",
    [
        (reduce(k, ops.reshape(X, _S, attrs="view"), None), reduce(k, X, None), reduce(k, X, None) * 2)
        for k in LINEAR
    ],
    given=_ALL,
    when=lambda m: "axes stay" if m.attrs["reduce"]["keepdims"] else None,
    order=15,
    says="The sum of all elements does not know their shape.",
)


@later("x without them")
def dropped(m: Bindings, scale: float = 1) -> Term:
    """x without the axes that are reduced, where they go."""
    axes = axes_of(m, len(m.shape(X)))
    assert axes is not None
    y = X if m.attrs["reduce"]["keepdims"] else ops.squeeze(X, np.array(axes))
    return y if scale == 1 else ops.identity(y * scale)


def _of_one(m: Match) -> str | None:
    axes = axes_of(m, m.type(X).rank)
    if not axes:
        return "the axes are not known"
    return None if all(m.shape(X)[axis] == 1 for axis in axes) else "an axis has more than one element"


family(
    "reduction_of_one",
    [(reduce(k, X), dropped(), dropped(2)) for k in (*LINEAR, "reduce_prod")],
    given=_samples("N 1 H", (1,)),
    when=_of_one,
    order=14,
    says="The sum over an axis of one element is it.",
)
family(
    "extreme_of_one",
    [(reduce(k, X), dropped(), dropped(2)) for k in EXTREME],
    given=_samples("N 1 H", (1,)),
    when=_of_one,
    phase="fold",
    order=14,
    says="The maximum over an axis of one element is it.",
)

# By their names

# What is known of all elements under axes that are known.
_of_cubes = partial(law, given=_CUBE, when=known, order=47)

_of_cubes(
    "sum_of_squares",
    reduce("reduce_sum", X * X),
    reduce("reduce_sum_square", X),
    reduce("reduce_sum", X),
)
_of_cubes(
    "sum_of_squared",
    reduce("reduce_sum", X**2),
    reduce("reduce_sum_square", X),
    reduce("reduce_sum", X),
)
_of_cubes(
    "root_of_sum_of_squares",
    ops.sqrt(reduce("reduce_sum_square", X)),
    reduce("reduce_l2", X),
    reduce("reduce_sum_square", X),
)
law(
    "square_of_norm",
    reduce("reduce_l2", X) ** 2,
    reduce("reduce_sum_square", X),
    reduce("reduce_l2", X),
    given=_CUBE,
    when=known,
    phase="fold",
)
_of_cubes(
    "sum_of_magnitudes",
    reduce("reduce_sum", ops.abs(X)),
    reduce("reduce_l1", X),
    reduce("reduce_sum", X),
)
_of_cubes(
    "log_of_sum",
    ops.log(reduce("reduce_sum", X)),
    reduce("reduce_log_sum", X),
    reduce("reduce_sum", X),
)


def _count(m: Match) -> str | None:
    axes = axes_of(m, m.type(X).rank)
    value = m.value(C)
    if axes is None or value is None or value.size != 1 or floating(m) is not None:
        return "the number of elements is not known"
    sizes = [Poly.of(m.shape(X)[axis]).constant for axis in axes]
    whole = None not in sizes and float(value.reshape(-1)[0]) == math.prod(s for s in sizes if s is not None)
    return None if whole else "the divisor is not the number of elements"


_FIVE = [
    Instance(
        "five",
        {"x": "N 5", "c": ""},
        values={"axes": np.array([1]), "c": 5.0},
        example=True,
        sample={"reduce": NOT_KEPT},
    )
]
law(
    "mean_from_sum",
    reduce("reduce_sum", X) / C,
    reduce("reduce_mean", X),
    reduce("reduce_sum", X),
    order=47,
    when=_count,
    given=_FIVE,
)
law(
    "sum_from_mean",
    reduce("reduce_mean", X) * C,
    reduce("reduce_sum", X),
    reduce("reduce_mean", X),
    order=47,
    when=_count,
    given=_FIVE,
)
