"""Rules that enumeration found: small terms that compute the same, which the other rules did not imply.

    tensmith rules --discover

prints such laws; these were picked from it and put in general terms. Each says so by its field `found`.
Measure: operations on values that vary; of reductions, elements. What needs the order of numbers, or holds
over the reals alone, is in the phase "fold".
"""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from tensmith.rewrite.exact.reductions import axes_of, known, reduce
from tensmith.rewrite.given import Instance, matmul_instances
from tensmith.rewrite.law import family, floating, law
from tensmith.rewrite.match import Match
from tensmith.rewrite.term import Var, ops

X, Y, Z, R, W = Var("x"), Var("y"), Var("z"), Var("r"), Var("w")
_found: dict[str, Any] = {"found": "enumeration", "when": floating}
field: Any = partial(law, **_found)
fields: Any = partial(family, **_found)
real: Any = partial(field, phase="fold", order=6)
reals: Any = partial(fields, phase="fold", order=6)
most, least, square = ops.max, ops.min, X * X
PAIRS = ((most, least), (least, most))

# Magnitudes and rectifiers of what has no sign

reals(
    "abs_of_positive",
    [(ops.abs(f), f, -f) for f in (ops.relu(X), ops.exp(X), ops.sigmoid(X), square)],
    says="|relu(x)| = relu(x), and so of what is never negative.",
)
real("relu_of_square", ops.relu(square), square, X)
reals(
    "larger_of_own_magnitude",
    [(most(X, ops.abs(X)), ops.abs(X), X), (most(X, ops.relu(X)), ops.relu(X), X)],
)
reals("smaller_of_own_magnitude", [(least(X, f(X)), X, f(X)) for f in (ops.abs, ops.relu)])

# The lattice of maxima and minima, and sums within

reals(
    "extremes_of_shared",
    [(f(g(X, Y), g(X, Z)), g(X, f(Y, Z)), f(X, g(Y, Z))) for f, g in PAIRS]
    + [(f(f(X, Y), f(X, Z)), f(X, f(Y, Z)), g(X, f(Y, Z))) for f, g in PAIRS],
    says="max(min(x, y), min(x, z)) = min(x, max(y, z)), and so of all pairs of extremes.",
)
reals("extreme_of_differences", [(f(X - Y, X - Z), X - g(Y, Z), X - f(Y, Z)) for f, g in PAIRS])
reals(
    "absorb_beside",
    [(f(f(X, Y), g(X, Z)), f(X, Y), g(X, Y)) for f, g in PAIRS]
    + [(f(X, f(Y, g(X, Z))), f(X, Y), g(X, Y)) for f, g in PAIRS],
    says="max(max(x, y), min(x, z)) = max(x, y), and so the other way.",
)
reals(
    "shift_into_extreme",
    [(X + f(Y, Z - X), f(Z, X + Y), g(Z, X + Y)) for f, g in PAIRS]
    + [(X - f(Y, X - Z), g(Z, X - Y), f(Z, X - Y)) for f, g in PAIRS]
    + [(f(X, Y + Z) - Y, f(Z, X - Y), g(Z, X - Y)) for f, g in PAIRS],
    says="x + max(y, z - x) = max(z, x + y): what is added comes off again on one side.",
)

# What cancels between sums, and between quotients

fields(
    "cancel_between_sums",
    [
        ((X - Y) - X, -Y, Y),
        ((X - Y) + (Y - Z), X - Z, X + Z),
        ((X + Y) - (X + Z), Y - Z, Y + Z),
        ((X + Y) - (X - Z), Y + Z, Y - Z),
        ((X - Y) - (X - Z), Z - Y, Y - Z),
        ((X - Y) - (Z - Y), X - Z, Z - X),
    ],
    order=46,
)
fields(
    "cancel_between_quotients",
    [
        ((X * Y) / (X * Z), Y / Z, Y * Z),
        ((X / Y) * (Y / Z), X / Z, X * Z),
        ((X / Y) / (X / Z), Z / Y, Y / Z),
        ((X / Y) / (Z / Y), X / Z, Z / X),
        (X * (Y / (X * Z)), Y / Z, Y * Z),
    ],
    order=46,
)
fields(
    "factor_over_quotient",
    [
        (X * (Y + Z / X), Z + X * Y, Z + Y),
        (X * (Y - Z / X), X * Y - Z, X * Y + Z),
        ((X + Y * Z) / Y, Z + X / Y, Z + X),
        ((X - Y * Z) / Y, X / Y - Z, X / Y + Z),
    ],
    order=47,
)
fields(
    "sign_into_difference",
    [
        (-(X * (Y - Z)), X * (Z - Y), X * (Y - Z)),
        ((-X) * (Y - Z), X * (Z - Y), X * (Y - Z)),
        (-(X / (Y - Z)), X / (Z - Y), X / (Y - Z)),
        ((-X) / (Y - Z), X / (Z - Y), X / (Y - Z)),
        (-((X - Y) / Z), (Y - X) / Z, (X - Y) / Z),
        ((X - Y) / (-Z), (Y - X) / Z, (X - Y) / Z),
    ],
    order=47,
)
field("reciprocal_over", ops.reciprocal(X) / Y, ops.reciprocal(X * Y), X / Y, phase="form")

# Comparisons with a part of oneself

reals(
    "compare_with_own_sum",
    [
        (ops.less(X, X + Y), ops.greater(Y, 0), ops.less(Y, 0)),
        (ops.less(X + Y, X), ops.less(Y, 0), ops.greater(Y, 0)),
        (ops.less(X, -X), ops.less(X, 0), ops.greater(X, 0)),
        (ops.less(-X, X), ops.greater(X, 0), ops.less(X, 0)),
    ],
)
reals(
    "compare_with_own_magnitude",
    [(ops.less(X, f(X)), ops.less(X, 0), ops.greater(X, 0)) for f in (ops.abs, ops.relu)]
    + [(ops.greater(ops.relu(X), 0), ops.greater(X, 0), ops.less(X, 0))],
)
reals(
    "compare_with_own_extreme",
    [
        (ops.less(X, most(X, Y)), ops.less(X, Y), ops.less(Y, X)),
        (ops.greater(X, least(X, Y)), ops.greater(X, Y), ops.less(X, Y)),
    ],
)
reals(
    "where_to_other_extreme",
    [
        (ops.where(ops.less(X, Y), Y, X), most(X, Y), least(X, Y)),
        (ops.where(ops.greater(X, Y), Y, X), least(X, Y), most(X, Y)),
        (ops.where(ops.less(0, X), X, 0), ops.relu(X), X),
    ],
)

# Reductions


def _samples(lower: int = 0, **shapes: str) -> list[Instance]:
    return [
        Instance(
            f"axes {a}, keepdims={k}",
            {"x": "N C H", **shapes},
            example=True,
            lower=dict.fromkeys("NCH", lower),
            sample={"reduce": {"keepdims": k}},
            values={"axes": np.array(a)},
        )
        for a in ((1,), (0, 2))
        for k in ((0, 1) if not shapes else (1,))
    ]


def _whole(m: Match) -> str | None:
    return "the reduction may be of nothing" if m.type(X).static is None or 0 in m.shape(X) else None


_reduced: dict[str, Any] = {"given": _samples(), "when": known}
fields(
    "negative_in_norm",
    [(reduce(k, -X), reduce(k, X), -reduce(k, X)) for k in ("reduce_l1", "reduce_l2", "reduce_sum_square")],
    phase="fold",
    **_reduced,
)
real("norm_of_squares", reduce("reduce_l1", square), reduce("reduce_sum_square", X), reduce("reduce_l1", X),
     **_reduced)  # fmt: skip
real(
    "exp_of_log_sum_exp",
    ops.exp(reduce("reduce_log_sum_exp", X)),
    reduce("reduce_sum", ops.exp(X)),
    reduce("reduce_sum", X),
    **_reduced,
)
real(
    "relu_behind_largest",
    reduce("reduce_max", ops.relu(X)),
    ops.relu(reduce("reduce_max", X)),
    reduce("reduce_max", X),
    given=_samples(1),
    when=lambda m: known(m) or _whole(m),
)


def _same_axis(m: Match) -> str | None:
    rank = m.type(X).rank
    if rank is None:
        return "the rank is not known"
    axes = {m.attrs[name]["axis"] % rank for name in ("inner", "outer")}
    return _whole(m) if len(axes) == 1 else "the axes differ"


real(
    "log_softmax_twice",
    ops.log_softmax(ops.log_softmax(X, attrs="inner"), attrs="outer"),
    ops.log_softmax(X, attrs="inner"),
    X,
    given=[
        Instance(f"axis {a}", {"x": "N C H"}, lower=dict.fromkeys("NCH", 1), example=True,
                 sample={"inner": {"axis": a}, "outer": {"axis": a}})
        for a in (1, 2)
    ],
    when=_same_axis,
)  # fmt: skip


def _along(m: Match) -> str | None:
    """r is the same along the axes that are reduced, which stay as ones."""
    reason = known(m) or _whole(m)
    if reason is not None:
        return reason
    rank = m.type(X).rank or 0
    axes = axes_of(m, rank) or ()
    if m.type(R).rank != rank or not m.attrs["reduce"]["keepdims"]:
        return "r is of another rank, or the axes are dropped"
    if any(m.shape(R)[axis] != 1 for axis in axes):
        return "r varies along the axes that are reduced"
    others = (axis for axis in range(rank) if axis not in axes)
    return None if all(m.shape(R)[a] in (1, m.shape(X)[a]) for a in others) else "r is larger than x"


def _beside() -> list[Instance]:
    """One instance an axis, r a one there."""
    return [
        Instance(f"axis {a}", {"x": "N C H", "r": shape}, example=True, lower=dict.fromkeys("NCH", 1),
                 sample={"reduce": {"keepdims": 1}}, values={"axes": np.array([a])})
        for a, shape in ((1, "N 1 H"), (2, "N C 1"))
    ]  # fmt: skip


fields(
    "shift_behind_reduction",
    [
        (reduce(k, X + R), reduce(k, X) + R, reduce(k, X) - R)
        for k in ("reduce_mean", "reduce_max", "reduce_min", "reduce_log_sum_exp")
    ],
    phase="fold",
    given=_beside(),
    when=_along,
    says="max(x + r) = max(x) + r, r the same along the axes; also of means and log_sum_exp.",
)
fields(
    "factor_behind_reduction",
    [(reduce(k, X * R), reduce(k, X) * R, reduce(k, X) + R) for k in ("reduce_sum", "reduce_mean")],
    order=47,
    given=_beside(),
    when=_along,
    says="sum(x * r) = sum(x) * r, r the same along the axes that are summed; also of means.",
)


def _last(m: Match, back: int) -> str | None:
    """Why a product's reduction is not over its axis number -back alone."""
    product = m.program.type(m.nodes[1].output)
    if product.rank is None or {m.type(X).rank, m.type(W).rank} != {product.rank}:
        return "a side is no matrix of the product's rank"
    axes = axes_of(m, product.rank)
    if axes != (product.rank - back,) or not m.attrs["reduce"]["keepdims"]:
        return "it is reduced over another axis, or drops it"
    empty = product.static is None or 0 in product.dims
    return "the reduction may be of nothing" if empty else None


def _products(back: int) -> list[Instance]:
    return [
        Instance(f"{i.name}, axis -{back}", {**i.shapes, "w": "*L C K"}, i.dims, lower={"N": 1, "K": 1},
                 sample={"reduce": {"keepdims": 1}}, values={"axes": np.array([-back])})
        for i in matmul_instances((0, 1))
    ]  # fmt: skip


for _kind in ("sum", "mean"):
    _name = f"reduce_{_kind}"
    field(
        f"{_kind}_of_columns_of_product",
        reduce(_name, X @ W),
        X @ reduce(_name, W),
        X @ W,
        order=47,
        given=_products(1),
        when=lambda m: _last(m, 1),
        says=f"{_kind}(x @ w, last axis) = x @ {_kind}(w, last axis): a product of a matrix and a vector.",
    )
    field(
        f"{_kind}_of_rows_of_product",
        reduce(_name, X @ W),
        reduce(_name, X) @ W,
        X @ W,
        order=47,
        given=_products(2),
        when=lambda m: _last(m, 2),
        says=f"{_kind}(x @ w, rows) = {_kind}(x, rows) @ w: a product of a vector and a matrix.",
    )


# Images


def _inside(m: Match) -> str | None:
    perm = m.attrs["turn"]["perm"]
    return None if perm is not None and tuple(perm[:2]) == (0, 1) else "it turns samples or channels"


fields(
    "global_pool_of_transpose",
    [
        (p(ops.transpose(X, attrs="turn")), p(X), p(X) * 2)
        for p in (ops.global_average_pool, ops.global_max_pool)
    ],
    phase="fold",
    given=[
        Instance("2d", {"x": "N C H W"}, sample={"turn": {"perm": (0, 1, 3, 2)}},
                 lower={"H": 1, "W": 1}, example=True)
    ],
    when=_inside,
    says="A global pool of images does not know which way they are turned.",
)  # fmt: skip
