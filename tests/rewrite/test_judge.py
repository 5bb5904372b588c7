"""Every exact rule is proved for all sizes, and its wrong twins are refuted by an example."""

from __future__ import annotations

import pytest

from tensmith.formula.expr import call, compute, tensor, total
from tensmith.formula.poly import Poly
from tensmith.rewrite.judge import judge, judged, without_unit_loops
from tensmith.rewrite.rule import EXACT, FormulaObligation

N, C = Poly.symbol("N"), Poly.symbol("C")
X = tensor("x", N, C)


@pytest.mark.parametrize("name", list(EXACT))
def test_a_rule_is_proved_and_its_wrong_twins_refuted_or_it_changes_no_formula(name: str) -> None:
    rule = EXACT[name]
    claims = next(iter(rule.obligations()), None), next(iter(rule.twins()), None)
    assert (claims[0] is None) if rule.structural else (None not in claims)
    assert judged(rule).problems == ()


def verdict(left: object, right: object) -> str:
    return judge(FormulaObligation("test", left, right)).verdict  # type: ignore[arg-type]


def test_equal_formulas_are_proved_and_different_ones_refuted() -> None:
    doubled = compute((N, C), lambda i, j: X[i, j] + X[i, j])
    assert verdict(doubled, compute((N, C), lambda i, j: X[i, j] * 2)) == "proved"
    assert verdict(doubled, compute((N, C), lambda i, j: X[i, j] * 3)) == "refuted"


def test_different_shapes_are_refuted() -> None:
    assert verdict(X, tensor("x", N, C + 1)) == "refuted"


def test_what_holds_only_in_an_ordered_field_goes_to_the_solver() -> None:
    def clipped(first: str, low: int, second: str, high: int) -> object:
        return compute((N, C), lambda i, j: call(second, call(first, X[i, j], low), high))

    inside = clipped("maximum", 0, "minimum", 6)
    assert verdict(inside, clipped("minimum", 6, "maximum", 0)) == "proved"
    assert verdict(clipped("maximum", 6, "minimum", 0), clipped("minimum", 0, "maximum", 6)) == "refuted"


def test_a_loop_over_one_element_is_that_element() -> None:
    once = compute((N,), lambda i: total(1, lambda k: X[i, k] + X[i, k]))
    assert verdict(once, compute((N,), lambda i: X[i, 0] * 2)) == "proved"
    assert "Reduce" not in repr(without_unit_loops(once).body)
    assert verdict(once, compute((N,), lambda i: X[i, 0])) == "refuted"
