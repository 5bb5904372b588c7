"""Reads that surely lie inside of their tensors, and reads that may not."""

from __future__ import annotations

import pytest

from tensmith.formula.expr import Choose, Formula, as_expr, compute, guard, inside, tensor, total
from tensmith.formula.poly import Poly
from tensmith.formula.reach import outside

X = tensor("x", 6)
SIZES = {"x": (6,)}
WINDOW = compute((6,), lambda i: total(3, lambda k: guard(inside(i + k - 1, 6), X[i + k - 1])))
JOINED = compute((8,), lambda i: Choose((5 - i,), X[i], X[i - 6]))
BACKWARDS = compute((6,), lambda i: X[5 - i])
REPEATED = compute((12,), lambda i: X[i // 2] + X[i % 6])
# Of both conditions of a corner one fails, and then the other subscript is inside.
CORNER = compute((8, 8), lambda i, j: Choose((i - 6, j - 6), as_expr(0), guard([5 - i], X[i])))
FOLDED = compute((3,), lambda i: X[(i * i + 1) // 2 + 3])


@pytest.mark.parametrize("formula", [WINDOW, JOINED, BACKWARDS, REPEATED, CORNER, FOLDED])
def test_what_lies_inside(formula: Formula) -> None:
    assert outside(formula, SIZES) is None


@pytest.mark.parametrize(
    "formula",
    [
        compute((7,), lambda i: X[i]),
        compute((6,), lambda i: X[i - 1]),
        compute((6,), lambda i: total(3, lambda k: guard([i + k - 1], X[i + k - 1]))),
        compute((9,), lambda i: Choose((2 - i,), as_expr(0), X[i - 2])),
        compute((8, 8), lambda i, j: Choose((i - 6, j - 6), as_expr(0), X[i])),
        compute((4,), lambda i: X[(i * i + 1) // 2 + 3]),
        compute((Poly.symbol("N"),), lambda i: X[i]),
    ],
)
def test_what_may_lie_outside(formula: Formula) -> None:
    found = outside(formula, SIZES)
    assert found is not None and found.tensor == "x"
