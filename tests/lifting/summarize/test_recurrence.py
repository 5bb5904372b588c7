"""Steps of accumulations under casts, choices and folds; and what only looks like one."""

from __future__ import annotations

from fractions import Fraction

import pytest

from tensmith.formula.expr import Call, Choose, Num, Read, Reduce
from tensmith.formula.poly import Poly
from tensmith.formula.types import BOOL, F32, F64, I32, MachineType
from tensmith.lifting.summarize.algebra import SizeAlgebra
from tensmith.lifting.summarize.recurrence import Recurrence, RecurrenceStep
from tensmith.lifting.summarize.scope import Scope
from tensmith.lifting.summary import Term

U8 = MachineType("u8")
v, e, start = Read("v", (), I32), Read("e", (), I32), Num(Fraction(5), I32)
c = Call("less", (Read("x", (), I32), Read("y", (), I32)), BOOL)
ZERO, ONE = Num(Fraction(0), I32), Num(Fraction(1), I32)


def op(operator: str, *arguments: Term, type: MachineType = I32) -> Call:
    return Call(operator, arguments, type)


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
        (op("maximum", v, e), "max", e),
        (op("where", c, op("add", v, e), v), "sum", op("where", c, e, ZERO)),
        (op("where", c, v, op("mul", v, e)), "prod", op("where", c, ONE, e)),
        (op("where", c, op("minimum", v, e), v), "min", op("where", c, e, start)),
        (op("where", op("less", v, e, type=BOOL), e, v), "max", e),
        (op("where", op("less", e, v, type=BOOL), e, v), "min", e),
        (op("where", op("less_equal", v, e, type=BOOL), v, e), "min", e),
        (Choose((Poly.symbol("n"),), op("add", v, e), v, I32), "sum", e),
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
        op("where", c, op("add", v, e), op("mul", v, e)),
        op("where", c, op("add", v, e), e),
        op("where", op("less", v, e, type=BOOL), op("add", v, e), v),
        op("div", v, e),
    ],
)
def test_what_is_no_step_is_left_alone(term: Term) -> None:
    assert step(term) is None


def test_a_narrow_accumulator_wraps_at_the_end() -> None:
    narrow = Read("v", (), U8)
    found = step(op("cast", op("add", op("cast", narrow), e), type=U8))
    assert found is not None and (found.kind, found.term, found.type, found.wrap) == ("sum", e, I32, U8)


def test_a_float_accumulator_of_an_integer_variable_is_no_sum() -> None:
    inner = op("add", op("cast", v, type=F64), Read("f", (), F64), type=F64)
    assert step(op("cast", inner)) is None


def test_a_float_kept_in_single_precision_is_a_sum_in_double() -> None:
    single = Read("v", (), F32)
    inner = op("add", op("cast", single, type=F64), Read("f", (), F64), type=F64)
    found = step(op("cast", inner, type=F32), Num(Fraction(0), F32))
    assert found is not None and (found.type, found.wrap) == (F64, F32)


def test_a_fold_that_starts_at_the_variable_is_a_step() -> None:
    fold = Reduce("sum", "k%9", Poly.symbol("n"), e, I32, start=v)
    found = step(fold)
    assert found is not None and isinstance(found.term, Reduce) and found.term.start == ZERO
    largest = step(Reduce("max", "k%9", Poly.symbol("n"), e, I32, start=v))
    assert largest is not None and isinstance(largest.term, Reduce) and largest.term.start == start


# Flags


def truth(value: int, type: MachineType) -> Num:
    return Num(Fraction(value), type)


B, TRUE, FALSE = Read("v", (), BOOL), Num(Fraction(1), BOOL), Num(Fraction(0), BOOL)
BIT = op("cast", c, type=U8)
AS_INT = op("cast", c, type=I32)


@pytest.mark.parametrize(
    ("term", "first", "kind"),
    [
        (op("and", B, c, type=BOOL), TRUE, "min"),
        (op("and", B, c, type=BOOL), Read("given", (), BOOL), "min"),
        (op("or", c, B, type=BOOL), FALSE, "max"),
        (op("where", B, c, FALSE, type=BOOL), TRUE, "min"),
        (op("where", B, TRUE, c, type=BOOL), FALSE, "max"),
        (op("bitwise_and", v, AS_INT), ONE, "min"),
        (op("bitwise_or", v, AS_INT), ZERO, "max"),
        (op("cast", op("and", op("not_equal", v, ZERO, type=BOOL), c, type=BOOL)), ONE, "min"),
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
        (op("bitwise_and", v, AS_INT), start),  # it begins as 5
        (op("bitwise_and", v, e), ONE),
        (op("not_equal", B, c, type=BOOL), FALSE),
        (op("add", op("cast", op("not_equal", v, ZERO, type=BOOL)), op("cast", c)), ZERO),
    ],
)
def test_what_is_no_flag(term: Term, first: Term) -> None:
    assert step(term, first) is None


def test_a_constant_that_is_set_stays() -> None:
    nine = truth(9, I32)
    for term in (op("where", c, nine, v), op("where", op("not", c, type=BOOL), v, nine)):
        found = step(term)
        assert found is not None and (found.kind, found.term, found.once) == ("max", BIT, nine)
    assert step(op("where", op("less", v, e, type=BOOL), nine, v)) is None
