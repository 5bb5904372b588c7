"""Steps of accumulations under casts, choices and folds; and what only looks like one."""

from __future__ import annotations

from fractions import Fraction

import pytest

from tensmith.formula.poly import Poly
from tensmith.lifting.loops import BOOL, F32, F64, I32, Scalar
from tensmith.lifting.summarize.algebra import Algebra
from tensmith.lifting.summarize.recurrence import Recurrence, Step
from tensmith.lifting.summarize.scope import Scope
from tensmith.lifting.terms import Argument, Cases, Fold, Number, Op, Term

U8 = Scalar("int", 8, False)
v, e, start = Argument("v", I32), Argument("e", I32), Number(Fraction(5), I32)
c = Op("lt", (Argument("x", I32), Argument("y", I32)), BOOL)
ZERO, ONE = Number(Fraction(0), I32), Number(Fraction(1), I32)


def op(operator: str, *arguments: Term, type: Scalar = I32) -> Op:
    return Op(operator, arguments, type)


def step(term: Term, first: Term = start) -> Step | None:
    return Recurrence("v", first, Algebra({}), Scope(frozenset({"n"}))).step(term)


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
        (Cases((((Poly.symbol("n"),), op("add", v, e)),), v, I32), "sum", e),
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
    found = step(op("cast", inner, type=F32), Number(Fraction(0), F32))
    assert found is not None and (found.type, found.wrap) == (F64, F32)


def test_a_fold_that_starts_at_the_variable_is_a_step() -> None:
    fold = Fold("sum", "k%9", Poly.symbol("n"), e, v, I32)
    found = step(fold)
    assert found is not None and isinstance(found.term, Fold) and found.term.start == ZERO
    largest = step(Fold("max", "k%9", Poly.symbol("n"), e, v, I32))
    assert largest is not None and isinstance(largest.term, Fold) and largest.term.start == start
