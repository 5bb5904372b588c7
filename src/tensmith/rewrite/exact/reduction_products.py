"""Reductions as products: weighted sums, rows and columns of matrix products."""

from __future__ import annotations

import numpy as np

from tensmith.rewrite.exact.reductions import LINEAR, NOT_KEPT, axes_of, reduce
from tensmith.rewrite.given import Instance
from tensmith.rewrite.law import family, floating, law
from tensmith.rewrite.match import Match
from tensmith.rewrite.term import Bindings, Term, Var, later, ops

X, Y = Var("x"), Var("y")
W = Var("w", static=True)


def _last(m: Match) -> str | None:
    rank = m.type(X).rank
    axes = None if rank is None or rank < 2 else axes_of(m, rank)
    if axes is None or axes != ((rank or 0) - 1,) or m.attrs["reduce"]["keepdims"] or floating(m) is not None:
        return "not over the last axis"
    return None


_WEIGHTED = [
    Instance(
        f"rank {2 + n}",
        {"x": "*L N C", "w": "C"},
        n,
        sample={"reduce": NOT_KEPT},
        values={"axes": np.array([-1])},
    )
    for n in (0, 1)
]
law(
    "weighted_sum",
    reduce("reduce_sum", X * W),
    X @ W,
    X @ (W * 2),
    given=_WEIGHTED,
    w="C",
    when=_last,
    order=46,
    says="sum(x * w) over the last axis = x @ w.",
)
law(
    "sum_of_products",
    reduce("reduce_sum", X * Y),
    ops.einsum(X, Y, attrs={"equation": "ij,ij->i"}),
    ops.einsum(X, Y, attrs={"equation": "ij,ij->j"}),
    phase="form",
    x="N N",
    y="N N",
    given=[
        Instance(
            "matrix",
            {"x": "N N", "y": "N N"},
            lower={"N": 1},
            sample={"reduce": NOT_KEPT},
            values={"axes": np.array([1])},
        )
    ],
    when=_last,
    says="sum(x * y) over rows = einsum(ij,ij->i).",
)


def _over(m: Match, axis: int) -> str | None:
    """None if x by a matrix is reduced along one axis, counted from the end."""
    rank = m.type(X).rank
    axes = None if rank is None or rank < 2 else axes_of(m, rank)
    alone = axes == ((rank or 0) + axis,) and len(m.shape(W)) == 2
    return None if alone else f"not over the {'rows' if axis == -2 else 'columns'}"


@later("{0}(x, rows) @ w")
def _reduced_rows(m: Bindings, kind: str, scale: float) -> Term:
    """The rows of x reduced, and kept as one row where the result keeps it."""
    row = reduce(kind, X, np.array([-2]), attrs={"keepdims": m.attrs["reduce"]["keepdims"]})
    return row @ (W * scale) if scale != 1 else row @ W


def _of_products(axis: int) -> list[Instance]:
    return [
        Instance(
            f"rank {2 + n}, keepdims={k}",
            {"x": "*L N C", "w": "C K"},
            n,
            sample={"reduce": {"keepdims": k}},
            values={"axes": np.array([axis])},
            lower={"N": 1, "K": 1},
        )
        for n in (0, 1)
        for k in (0, 1)
    ]


family(
    "reduced_rows",
    [(reduce(k, X @ W), _reduced_rows(k, 1), _reduced_rows(k, 2)) for k in LINEAR],
    given=_of_products(-2),
    when=lambda m: _over(m, -2),
    w="C K",
    order=30,
    says="mean(x @ w, rows) = mean(x, rows) @ w: one row is multiplied in place of all.",
)


@later("x @ {0}(w, columns)")
def _reduced_columns(m: Bindings, kind: str) -> Term:
    keep = m.attrs["reduce"]["keepdims"]
    return X @ reduce(kind, W, np.array([1]), attrs={"keepdims": keep})


family(
    "reduced_columns",
    [(reduce(k, X @ W), _reduced_columns(k), X @ (_reduced_columns(k) * 2)) for k in LINEAR],
    given=_of_products(-1),
    when=lambda m: _over(m, -1),
    w="C K",
    order=30,
    says="sum(x @ w, columns) = x @ sum(w, columns).",
)
law(
    "sum_of_product",
    reduce("reduce_sum", X @ Y, None),
    reduce("reduce_sum", X, np.array([0]), NOT_KEPT) @ reduce("reduce_sum", Y, np.array([1]), NOT_KEPT),
    reduce("reduce_sum", X, np.array([0]), NOT_KEPT) @ reduce("reduce_sum", Y, np.array([0]), NOT_KEPT),
    given=[Instance("matrices", {"x": "N C", "y": "C K"}, sample={"reduce": NOT_KEPT})],
    twin=[Instance("square", {"x": "N N", "y": "N N"}, sample={"reduce": NOT_KEPT})],
    x="N C",
    y="C K",
    order=30,
    when=lambda m: "axes stay" if m.attrs["reduce"]["keepdims"] else None,
    says="The sum of all elements of x @ y = sum(x, rows) @ sum(y, columns).",
)
