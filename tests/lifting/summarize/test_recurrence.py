"""Steps of accumulations under casts, choices and folds; and what only looks like one."""

from __future__ import annotations

from fractions import Fraction

import pytest

from tensmith.formula.poly import Poly
from tensmith.lifting.loops import BOOL, F32, F64, I32, Scalar
from tensmith.lifting.summarize.algebra import SizeAlgebra
from tensmith.lifting.summarize.recurrence import Recurrence, RecurrenceStep
from tensmith.lifting.summarize.scope import Scope
from tensmith.lifting.terms import Argument, Fold, Operation, Term, TermChoose, TermNumber

U8 = Scalar("int", 8, False)
v, e, start = Argument("v", I32), Argument("e", I32), TermNumber(Fraction(5), I32)
c = Operation("lt", (Argument("x", I32), Argument("y", I32)), BOOL)
ZERO, ONE = TermNumber(Fraction(0), I32), TermNumber(Fraction(1), I32)


def op(operator: str, *arguments: Term, type: Scalar = I32) -> Operation:
    return Operation(operator, arguments, type)


def step(term: Term, first: Term = start) -> RecurrenceStep | None:
    return Recurrence("v", first, SizeAlgebra({}), Scope(frozenset({"n"}))).step(term)


@pytest.mark.parametrize(
    ("term", "kind", "operand"),
    [
        (op("add", v, e), "sum", e),
        (op("add", e, v), "sum", e),
        (op("sub", v, e), "sum", op("neg", e)),
        (op("add", op("add", v, e), e), "sum", op("add", e, e)),
        (op("mul", e, v), "prod", e),
        (op("max", v, e), "max", e),
        (op("select", c, op("add", v, e), v), "sum", op("select", c, e, ZERO)),
        (op("select", c, v, op("mul", v, e)), "prod", op("select", c, ONE, e)),
        (op("select", c, op("min", v, e), v), "min", op("select", c, e, start)),
        (op("select", op("lt", v, e, type=BOOL), e, v), "max", e),
        (op("select", op("lt", e, v, type=BOOL), e, v), "min", e),
        (op("select", op("le", v, e, type=BOOL), v, e), "min", e),
        (TermChoose((Poly.symbol("n"),), op("add", v, e), v, I32), "sum", e),
    ],
)
def test_a_step_is_recognised(term: Term, kind: str, operand: Term) -> None:
    found = step(term)
    assert found is not None and (found.kind, found.term) == (kind, operand)


@pytest.mark.parametrize(
    "term",
    [
        op("sub", e, v),
        op("mul", v, v),
        op("add", op("mul", v, e), e),
        op("select", c, op("add", v, e), op("mul", v, e)),
        op("select", c, op("add", v, e), e),
        op("select", op("lt", v, e, type=BOOL), op("add", v, e), v),
        op("tdiv", v, e),
    ],
)
def test_what_is_no_step_is_left_alone(term: Term) -> None:
    assert step(term) is None


def test_a_narrow_accumulator_wraps_at_the_end() -> None:
    narrow = Argument("v", U8)
    found = step(op("cast", op("add", op("cast", narrow), e), type=U8))
    assert found is not None and (found.kind, found.term, found.type, found.wrap) == ("sum", e, I32, U8)


def test_a_float_accumulator_of_an_integer_variable_is_no_sum() -> None:
    inner = op("add", op("cast", v, type=F64), Argument("f", F64), type=F64)
    assert step(op("cast", inner)) is None


def test_a_float_kept_in_single_precision_is_a_sum_in_double() -> None:
    single = Argument("v", F32)
    inner = op("add", op("cast", single, type=F64), Argument("f", F64), type=F64)
    found = step(op("cast", inner, type=F32), TermNumber(Fraction(0), F32))
    assert found is not None and (found.type, found.wrap) == (F64, F32)


def test_a_fold_that_starts_at_the_variable_is_a_step() -> None:
    fold = Fold("sum", "k%9", Poly.symbol("n"), e, v, I32)
    found = step(fold)
    assert found is not None and isinstance(found.term, Fold) and found.term.start == ZERO
    largest = step(Fold("max", "k%9", Poly.symbol("n"), e, v, I32))
    assert largest is not None and isinstance(largest.term, Fold) and largest.term.start == start


# Flags


def truth(value: int, type: Scalar) -> TermNumber:
    return TermNumber(Fraction(value), type)


B, TRUE, FALSE = Argument("v", BOOL), TermNumber(Fraction(1), BOOL), TermNumber(Fraction(0), BOOL)
BIT = op("cast", c, type=U8)
AS_INT = op("cast", c, type=I32)


@pytest.mark.parametrize(
    ("term", "first", "kind"),
    [
        (op("and", B, c, type=BOOL), TRUE, "min"),
        (op("and", B, c, type=BOOL), Argument("given", BOOL), "min"),
        (op("or", c, B, type=BOOL), FALSE, "max"),
        (op("select", B, c, FALSE, type=BOOL), TRUE, "min"),
        (op("select", B, TRUE, c, type=BOOL), FALSE, "max"),
        (op("band", v, AS_INT), ONE, "min"),
        (op("bor", v, AS_INT), ZERO, "max"),
        (op("cast", op("and", op("ne", v, ZERO, type=BOOL), c, type=BOOL)), ONE, "min"),
    ],
)
def test_a_flag_is_the_least_or_largest_of_bits(term: Term, first: Term, kind: str) -> None:
    found = step(term, first)
    assert found is not None
    assert (found.kind, found.term, found.type, found.truth) == (kind, BIT, U8, term.type)


def test_a_flag_that_both_values_of_which_stay_is_unchanged() -> None:
    assert step(op("mul", v, v), ONE) == RecurrenceStep("", None, I32)


@pytest.mark.parametrize(
    ("term", "first"),
    [
        (op("band", v, AS_INT), start),  # it begins as 5
        (op("band", v, e), ONE),
        (op("ne", B, c, type=BOOL), FALSE),
        (op("add", op("cast", op("ne", v, ZERO, type=BOOL)), op("cast", c)), ZERO),
    ],
)
def test_what_is_no_flag(term: Term, first: Term) -> None:
    assert step(term, first) is None


def test_a_constant_that_is_set_stays() -> None:
    nine = truth(9, I32)
    for term in (op("select", c, nine, v), op("select", op("not", c, type=BOOL), v, nine)):
        found = step(term)
        assert found is not None and (found.kind, found.term, found.once) == ("max", BIT, nine)
    assert step(op("select", op("lt", v, e, type=BOOL), nine, v)) is None
