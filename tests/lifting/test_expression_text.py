"""Expressions as users read them: operands in parentheses, comparisons as they were written."""

from __future__ import annotations

import pytest

from tensmith.formula.expr import Call, Expr, Num, Size, variable
from tensmith.formula.poly import Poly
from tensmith.formula.types import BOOL, F32, I32
from tensmith.lifting.loops import Load
from tensmith.lifting.text import bare, text

N, X, Y = (variable(name, I32) for name in "nxy")
BEFORE = Size(Poly.symbol("n") - 1, I32)


@pytest.mark.parametrize(
    ("expr", "shown"),
    [
        (Call("mul", (BEFORE, X), I32), "(n - 1) * x"),
        (Call("neg", (Num(-1, I32),), I32), "-(-1)"),
        (Call("less", (Num(0, I32), N), BOOL), "n > 0"),
        (Call("less_equal", (X, Num(3, I32)), BOOL), "x <= 3"),
        (Call("mul", (Call("add", (X, Y), I32), N), I32), "(x + y) * n"),
        (Call("cast", (Load("a", (X,), I32),), F32), "f32(a[x])"),
        (Call("not", (Call("equal", (X, Y), BOOL),), BOOL), "not (x == y)"),
    ],
)
def test_expressions_in_one_line(expr: Expr, shown: str) -> None:
    assert text(expr) == shown


def test_conversions_are_left_out_of_subscripts_too() -> None:
    inner = Call("cast", (Call("add", (X, Num(1, I32)), I32),), F32)
    assert text(bare(Load("a", (inner,), I32))) == "a[x + 1]"
