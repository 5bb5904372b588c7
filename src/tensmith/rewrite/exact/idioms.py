"""What array programs write where fewer operations would do: powers, outer products, diagonals, sums.

Measure: calls of pow, then multiply-adds, then elements.
"""

from __future__ import annotations

from functools import partial

import numpy as np

from tensmith.formula.expr import Expr, as_expr, guard
from tensmith.formula.poly import Poly
from tensmith.rewrite.exact.reductions import axes_of, reduce
from tensmith.rewrite.given import Instance
from tensmith.rewrite.law import family, floating, law
from tensmith.rewrite.match import Match
from tensmith.rewrite.term import Term, Use, Var, ops

X, Y, Z, V = Var("x"), Var("y"), Var("z"), Var("v")
E = Var("e", static=True)

# Powers

_forms = partial(family, when=floating, phase="form")
_SQUARE = X * X
_CUBE = _SQUARE * X
_forms(
    "small_powers",
    [
        (X**4, _SQUARE * _SQUARE, _SQUARE * X),
        (X**5, (_SQUARE * _SQUARE) * X, _SQUARE * _SQUARE),
        (X**6, _CUBE * _CUBE, _CUBE),
        (X**7, (_CUBE * _CUBE) * X, _CUBE * _CUBE),
        (X**8, (_SQUARE * _SQUARE) * (_SQUARE * _SQUARE), _SQUARE * _SQUARE),
        (X**9, (_CUBE * _CUBE) * _CUBE, _CUBE * _CUBE),
        (X**10, (_CUBE * _CUBE) * (_SQUARE * _SQUARE), _CUBE * _CUBE),
        (X**12, (_CUBE * _CUBE) * (_CUBE * _CUBE), _CUBE * _CUBE),
        (X**-2, ops.reciprocal(_SQUARE), ops.reciprocal(X)),
        (X**-3, ops.reciprocal(_SQUARE * X), ops.reciprocal(X)),
        (X**1.5, X * ops.sqrt(X), ops.sqrt(X)),
        (X**-0.5, ops.reciprocal(ops.sqrt(X)), ops.sqrt(X)),
        (X**-1.5, ops.reciprocal(X * ops.sqrt(X)), ops.sqrt(X)),
    ],
    says="x ** 4 = (x * x) * (x * x), and so of 5 to 10, 12, -2, -3, 3/2, -1/2 and -3/2.",
)

# Factors that do not vary along what is summed


law(
    "sum_of_outer_product",
    reduce("reduce_sum", X * Y, None),
    reduce("reduce_sum", X, None) * reduce("reduce_sum", Y, None),
    reduce("reduce_sum", X, None) + reduce("reduce_sum", Y, None),
    given=[Instance("outer", {"x": "N 1", "y": "1 M"}, sample={"reduce": {"keepdims": 0}})],
    x="N 1",
    y="1 M",
    when=lambda m: "axes stay" if m.attrs["reduce"]["keepdims"] else floating(m),
    order=45,
    says="The sum of all x[i] * y[j] = sum(x) * sum(y).",
)


def _columns(keep: int) -> list[Instance]:
    of, attrs = {"x": "N M", "y": "N 1"}, {"reduce": {"keepdims": keep}}
    values, least = {"axes": np.array([1])}, {"M": 1}  # a sum of no terms is 0, and 0 / 0 no number
    return [Instance(f"columns, keepdims={keep}", of, sample=attrs, values=values, lower=least)]


def _of_columns(m: Match, keep: int) -> str | None:
    if m.attrs["reduce"]["keepdims"] != keep:
        return "axes go" if keep else "axes stay"
    return floating(m) if axes_of(m, 2) == (1,) else "not the columns are summed"


_COLUMN = ops.reshape(Y, np.array([-1]))
for _name, _keep, _factor in (
    ("row_factor_behind_sum", 1, Y),
    ("row_factor_behind_flat_sum", 0, _COLUMN),
):
    _total = reduce("reduce_sum", X)
    family(
        _name,
        [
            (reduce("reduce_sum", X * Y), _total * _factor, _total + _factor),
            (reduce("reduce_sum", X / Y), _total / _factor, _total * _factor),
        ],
        given=_columns(_keep),
        x="N M",
        y="N 1",
        when=lambda m, keep=_keep: _of_columns(m, keep),
        order=45,
        says="sum(x * y, columns) = sum(x, columns) * y, y one number a row; also x / y.",
    )


# Products with factors of rows and columns

_forms(
    "row_factor_behind_product",
    [((Y * X) @ Z, Y * (X @ Z), X @ Z), ((X / Y) @ Z, (X @ Z) / Y, X @ Z)],
    given=[Instance("matrix", {"x": "N C", "y": "N 1", "z": "C K"}, lower={"C": 1})],  # no 0 / 0 of no terms
    x="N C",
    y="N 1",
    z="C K",
    says="(y * x) @ z = y * (x @ z), y one number a row of x; also x / y.",
)
_factors = partial(law, order=32, when=floating)
for _name, _rows, _z, _says in (
    ("outer_product_associated", Y, "C K", "outer(y, x) @ z = outer(y, x @ z)."),
    ("outer_product_of_vector", _COLUMN, "C", "outer(y, x) @ z = y * (x @ z), z a vector."),
):
    _factors(_name, (Y * X) @ Z, _rows * (X @ Z), _rows + (X @ Z), x="1 C", y="N 1", z=_z, says=_says)
_factors(
    "column_factor_into_vector",
    (X * V) @ Z,
    X @ (V * Z),
    X @ (V + Z),
    x="N C",
    v="C",
    z="C",
    says="(x * v) @ z = x @ (v * z), v one number a column of x, z a vector.",
)


def _varies(m: Match) -> str | None:
    """None where no product of constants is taken apart."""
    constant = all(m.values[name] in m.program.static_values for name in "xy")
    return "both are constant" if constant else floating(m)


_applied = partial(law, order=30, when=_varies)
_applied(
    "products_applied",
    (X @ Y) @ Z,
    X @ (Y @ Z),
    X @ (Y @ (Z * 2)),
    x="N C",
    y="C K",
    z="K",
    says="(x @ y) @ z = x @ (y @ z), z a vector.",
)
_applied(
    "products_behind_vector",
    Z @ (X @ Y),
    (Z @ X) @ Y,
    ((Z * 2) @ X) @ Y,
    x="N C",
    y="C K",
    z="N",
    says="z @ (x @ y) = (z @ x) @ y, z a vector.",
)

# Diagonal matrices: the identity times a vector


def _one(i: Poly, j: Poly) -> Expr:
    return guard((i - j, j - i), as_expr(1))


_VALUES = {"e": _one}


def _identity(m: Match) -> str | None:
    value = m.value(E)
    if value is None or value.ndim != 2 or value.dtype.kind != "f" or len(value) < 2:
        return "no matrix is known"
    return None if np.array_equal(value, np.eye(len(value))) else "the constant is not the identity"


def _column(x: Term) -> Use:
    return ops.reshape(x, np.array([-1, 1]))


def _diagonal(name: str, *, left: Term, right: Term, wrong: Term, z: str) -> None:
    law(
        name,
        left,
        right,
        wrong,
        given=[Instance("matrices", {"e": "C+2 C+2", "v": "C+2", "z": z}, elements=_VALUES, example=True)],
        when=lambda m: _identity(m) or (None if len(m.shape(V)) == 1 else "no vector") or _rank(m, z),
        order=31,
    )


def _rank(m: Match, z: str) -> str | None:
    return None if len(m.shape(Z)) == len(z.split()) else "of another rank"


_diagonal("diagonal_before", left=(E * V) @ Z, right=_column(V) * Z, wrong=V * Z, z="C+2 C+2")
_diagonal("diagonal_behind", left=Z @ (E * V), right=Z * V, wrong=Z + V, z="N C+2")
_diagonal("diagonal_of_vector", left=(E * V) @ Z, right=V * Z, wrong=V + Z, z="C+2")
law(
    "diagonal_of_diagonal",
    ops.einsum(E * V, attrs={"equation": "ii->i"}),
    ops.identity(V),
    V * 2,
    given=[Instance("square", {"e": "C+2 C+2", "v": "C+2"}, elements=_VALUES, example=True)],
    when=lambda m: _identity(m) or (None if len(m.shape(V)) == 1 else "no vector"),
    order=31,
)
