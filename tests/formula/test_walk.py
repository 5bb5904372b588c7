"""What walks over expressions see."""

from __future__ import annotations

from fractions import Fraction

from tensmith.formula.expr import Num, Read, as_expr, call, compute, guard, rebuilt, tensor, total
from tensmith.formula.poly import Poly
from tensmith.formula.walk import free_variables, parts, reads

AT, N = Poly.symbol("i"), Poly.symbol("N")
X, W = tensor("x", N), tensor("w", 3)
WINDOW = total(3, lambda k: guard([AT + k - 1], X[AT + k - 1]) * W[k])


def test_a_sum_depends_on_what_it_does_not_bind() -> None:
    assert free_variables(WINDOW) == {"i"}
    assert free_variables(total(N, lambda k: X[k])) == {"N"}
    assert free_variables(as_expr(AT * N)) == {"i", "N"}


def test_reads_are_found_from_the_left() -> None:
    expr = call("exp", X[AT] + W[2]) / X[AT - 1] ** 2
    assert [(read.tensor, read.indices[0]) for read in reads(expr)] == [("x", AT), ("w", 2), ("x", AT - 1)]


def test_rebuilding_by_nothing_changes_nothing() -> None:
    for expr in (WINDOW, call("where", X[AT], 1, AT), compute((3,), lambda i: W[i] ** Fraction(1, 2)).body):
        assert rebuilt(expr, lambda part: part) == expr


def test_rebuilding_replaces_what_is_directly_inside() -> None:
    one = Num(Fraction(1))
    assert parts(rebuilt(X[AT] + W[0] + 2, lambda part: one)) == (one, one)
    assert rebuilt(Read("x", (AT,)), lambda part: one) == Read("x", (AT,))
