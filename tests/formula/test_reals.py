"""Facts of real functions hold where both sides are defined, and no further."""

from __future__ import annotations

import pytest

from tensmith.rewrite.judge import judge
from tensmith.rewrite.law import lemma
from tensmith.rewrite.term import Term, Var, ops

X, Y, Z = Var("x"), Var("y"), Var("z")

TRUE: dict[str, tuple[Term, Term]] = {
    "logarithms are those of positive numbers": (ops.log(X) - ops.log(Y), ops.log(X / Y)),
    "roots are those of positive numbers": (ops.sqrt(X) * ops.sqrt(Y), ops.sqrt(X * Y)),
    "a root squared": (ops.sqrt(X) * ops.sqrt(X), ops.identity(X)),
    "the root of a square": (ops.sqrt(X * X), ops.abs(X)),
}
FALSE: dict[str, tuple[Term, Term]] = {
    "a number leaves two roots": (ops.sqrt(X * Y) * ops.sqrt(X * Z), X * ops.sqrt(Y * Z)),
    "the root of a square has a sign": (ops.sqrt(X * X), ops.identity(X)),
    "a square leaves a root": (ops.sqrt(X * X * Y), X * ops.sqrt(Y)),
    "the logarithm of a square": (ops.log(X * X), 2 * ops.log(X)),
    "a number leaves two logarithms": (ops.log(X * Y) + ops.log(X * Z), 2 * ops.log(X) + ops.log(Y * Z)),
    "the root of a product needs roots of both": (ops.sqrt(X * Y), ops.sqrt(X) * ops.sqrt(Y)),
}


@pytest.mark.parametrize("name", TRUE)
def test_what_holds_where_both_sides_are_defined_is_proved(name: str) -> None:
    left, right = TRUE[name]
    assert {judge(o).verdict for o in lemma(name, left, right, 0).obligations()} == {"proved"}


@pytest.mark.parametrize("name", FALSE)
def test_what_fails_for_some_signs_is_not(name: str) -> None:
    left, right = FALSE[name]
    assert "proved" not in {judge(o).verdict for o in lemma(name, left, right, 0).obligations()}
