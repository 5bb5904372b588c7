"""Obligations are discharged by the weakest theory that suffices, and refuted by the exact one alone."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tensmith.errors import VerificationError
from tensmith.verify.obligation import Fact, Obligation, Script
from tensmith.verify.solve import ask, discharge
from tensmith.verify.theory import Prefix, axioms

SOLVERS = ("z3", "cvc5")
DECLARED = ("(declare-const x Int)", "(declare-fun tdiv (Int Int) Int)")


def script(goal: str | None, **parts: object) -> Script:
    plain = Script("QF_UFLIA", "QF_UFNIA", DECLARED, (), (), (), (), (), (), goal)
    return replace(plain, **parts)  # type: ignore[arg-type]


def obligation(found: Script | None, **parts: object) -> Obligation:
    return replace(Obligation("goal", "post", "return", "", 3, 5, found), **parts)  # type: ignore[arg-type]


@pytest.mark.parametrize("solver", SOLVERS)
def test_what_holds_with_free_functions_needs_no_definition(solver: str) -> None:
    exact = tuple(axiom.instance(["x", "7"]) for axiom in axioms("tdiv") if not axiom.weak)
    (verdict,) = discharge(
        [obligation(script("(= (+ 1 (tdiv x 7)) (+ (tdiv x 7) 1))", definitions=exact))], solver
    )
    assert (verdict.status, verdict.rung) == ("proved", "free functions")
    (verdict,) = discharge(
        [obligation(script("(=> (= x (- 8)) (= (tdiv x 7) (- 1)))", definitions=exact))], solver
    )
    assert (verdict.status, verdict.rung) == ("proved", "exact definitions")


@pytest.mark.parametrize("solver", SOLVERS)
def test_a_wrong_goal_is_refuted(solver: str) -> None:
    (verdict,) = discharge([obligation(script("(< x 10)"))], solver)
    assert verdict.status == "refuted"


def test_a_refuted_goal_shows_numbers() -> None:
    fact = Fact("(> x 41)", "requirement")
    (verdict,) = discharge([obligation(script("(distinct x 42)", facts=(fact,)))])
    assert verdict.status == "refuted" and "x = 42" in verdict.detail


@pytest.mark.parametrize("solver", SOLVERS)
def test_further_facts_come_second(solver: str) -> None:
    (verdict,) = discharge([obligation(script("(> x 0)", further=(Fact("(> x 5)", "requirement"),)))], solver)
    assert (verdict.status, verdict.rung) == ("proved", "exact definitions")


@pytest.mark.parametrize("solver", SOLVERS)
def test_a_model_is_wanted_where_sat_is_expected(solver: str) -> None:
    wanted = obligation(
        script(None, facts=(Fact("(> x 0)", "requirement"),)), expects="sat", kind="satisfiable"
    )
    assert discharge([wanted], solver)[0].status == "proved"
    never = replace(wanted, script=script(None, facts=(Fact("(and (> x 0) (< x 0))", "requirement"),)))
    assert discharge([never], solver)[0].status == "refuted"


def test_what_holds_by_its_form_asks_nobody() -> None:
    (verdict,) = discharge([obligation(None, structural="both sides are the same")])
    assert (verdict.status, verdict.rung, verdict.text) == ("proved", "structure", "")


def test_equal_questions_are_asked_once() -> None:
    first, second = discharge([obligation(script("(= x x)")), obligation(script("(= x x)"), name="again")])
    assert second.status == first.status == "proved" and second.seconds == 0.0
    assert second.obligation.name == "again"


@pytest.mark.parametrize("solver", SOLVERS)
def test_recurrences_are_part_of_the_question(solver: str) -> None:
    prefix = Prefix("fold.0", "sum", "Int", (), "k")
    declared = (*DECLARED, "(declare-fun fold.0 (Int) Int)")
    steps = (prefix.base([], "0"), prefix.step([], "0"))
    with_steps = script("(= (fold.0 1) 0)", declarations=declared, recurrences=steps)
    assert discharge([obligation(with_steps)], solver)[0].status == "proved"
    without = replace(with_steps, recurrences=())
    assert discharge([obligation(without)], solver)[0].status == "refuted"


def test_errors_say_what_to_do() -> None:
    with pytest.raises(VerificationError, match="there is no solver 'yices'; known: z3, cvc5"):
        discharge([obligation(script("true"))], "yices")


@pytest.mark.parametrize("solver", SOLVERS)
def test_a_script_that_is_no_script_is_unknown(solver: str) -> None:
    answer, why = ask("(assert (= x", solver, 1)
    assert answer == "unknown" and why.startswith(solver)
