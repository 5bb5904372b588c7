"""A formula's value: in floats, in whole numbers and fractions, and in a prime field."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tensmith.errors import ProgramError
from tensmith.formula.arith import Floats, PrimeField
from tensmith.formula.evaluate import evaluate
from tensmith.formula.expr import (
    Choose,
    Formula,
    Num,
    Pow,
    call,
    compute,
    guard,
    inside,
    reduce,
    tensor,
    total,
)
from tensmith.formula.poly import Poly

P = 2097143
N = Poly.symbol("N")
FIELD = PrimeField(P, seed=1)


def product(n: Poly | int = N) -> Formula:
    a, b = tensor("a", n, n), tensor("b", n, n)
    return compute((n, n), lambda i, j: total(n, lambda k: a[i, k] * b[k, j]))


@given(st.integers(0, 4), st.integers(0, 2**31))
def test_matmul_in_every_arithmetic(n: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    a, b = rng.integers(0, P, (2, n, n))
    given_ = {"a": a, "b": b}
    whole = evaluate(product(), given_, {"N": n}, Floats())
    assert np.array_equal(whole, a @ b)
    assert np.array_equal(evaluate(product(), given_, {"N": n}, FIELD), FIELD.matmul(a, b))


def test_fractions_stay_exact() -> None:
    x = np.array([Fraction(1, 3), Fraction(2, 7)], dtype=object)
    t = tensor("x", 2)
    formula = compute((2,), lambda i: 1 / (t[i] + Fraction(1, 3)))
    value = evaluate(formula, {"x": x}, {}, Floats())
    assert list(value) == [Fraction(3, 2), Fraction(21, 13)]


def test_padding_reads_zero_outside() -> None:
    x = np.arange(4.0)
    t = tensor("x", 4)
    shifted = compute((6,), lambda i: guard(inside(i - 1, 4), t[i - 1]))
    assert list(evaluate(shifted, {"x": x}, {}, Floats())) == [0, 0, 1, 2, 3, 0]


def test_a_choice_reads_one_side_only() -> None:
    t = tensor("x", 4)
    there_and_back = compute((6,), lambda i: Choose((3 - i,), t[i], t[5 - i]))
    assert list(evaluate(there_and_back, {"x": np.arange(4.0)}, {}, Floats())) == [0, 1, 2, 3, 1, 0]


def test_reading_outside_without_a_guard_is_an_error() -> None:
    t = tensor("x", 4)
    shifted = compute((5,), lambda i: t[i])
    with pytest.raises(ProgramError, match="reads axis 0 of size 4"):
        evaluate(shifted, {"x": np.arange(4.0)}, {}, Floats())


@pytest.mark.parametrize(("kind", "wanted"), [("sum", 4.0), ("prod", -4.0), ("max", 4.0), ("min", -1.0)])
def test_reductions(kind: str, wanted: float) -> None:
    t = tensor("x", 3)
    formula = compute((), lambda: reduce(kind, (3,), lambda k: t[k]))
    assert evaluate(formula, {"x": np.array([-1.0, 4.0, 1.0])}, {}, Floats()) == wanted


def test_a_reduction_of_what_does_not_vary_counts() -> None:
    formula = compute((2,), lambda i: total(N, lambda k: i + 1))
    assert list(evaluate(formula, {}, {"N": 5}, Floats())) == [5, 10]


def test_powers() -> None:
    t = tensor("x", 1)
    x = np.array([4.0])
    for exponent, wanted in [(Fraction(3), 64), (Fraction(-1, 2), 0.5), (Fraction(1, 4), 4**0.25)]:
        formula = compute((1,), lambda i, e=exponent: Pow(t[i], e))
        assert evaluate(formula, {"x": x}, {}, Floats())[0] == pytest.approx(wanted)


@given(st.fractions())
def test_every_fraction_is_a_residue(value: Fraction) -> None:
    if value.denominator % P:
        formula = compute((), lambda: Num(value))
        wanted = value.numerator * pow(value.denominator, -1, P) % P
        assert evaluate(formula, {}, {}, FIELD) == wanted


def test_comparisons_and_selection() -> None:
    t = tensor("x", 3)
    formula = compute((3,), lambda i: call("where", call("less", t[i], 0), -t[i], t[i]))
    assert list(evaluate(formula, {"x": np.array([-1.0, 0.0, 2.0])}, {}, Floats())) == [1, 0, 2]


def test_different_formulas_differ_in_the_field() -> None:
    x = FIELD.random("x", (4,))
    t = tensor("x", 4)
    square = compute((4,), lambda i: t[i] * t[i])
    double = compute((4,), lambda i: t[i] * 2)
    assert not np.array_equal(evaluate(square, {"x": x}, {}, FIELD), evaluate(double, {"x": x}, {}, FIELD))
