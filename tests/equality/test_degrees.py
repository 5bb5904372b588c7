"""Sizes of polynomials: many differences at once are what they are one by one."""

from __future__ import annotations

import numpy as np
import pytest

from tensmith.equality.degrees import Degrees, PolynomialBound, Quotient, Quotients
from tensmith.equality.programs import _difference


def _random(random: np.random.Generator) -> tuple[Degrees, list[Quotient]]:
    def bound() -> PolynomialBound:
        return PolynomialBound(
            float(random.integers(9)), float(random.integers(9)), -float(random.integers(9))
        )

    degrees = Degrees()
    degrees.sites = [bound() for _ in range(6)]
    dens = [
        {int(site): int(random.integers(1, 4)) for site in random.permutation(6)[: random.integers(5)]}
        for _ in range(7)
    ]
    return degrees, [Quotient(bound(), den) for den in dens]


@pytest.mark.parametrize("seed", range(20))
def test_differences_of_many_are_those_of_each(seed: int) -> None:
    degrees, quotients = _random(np.random.default_rng(seed))
    many = Quotients(degrees, quotients)
    for first, one in enumerate(quotients):
        expected = [_difference(degrees, one, other) for other in quotients[first:]]
        rows = [(size.degree, size.high, size.low) for size in expected]
        assert many.differences(first).tolist() == [list(row) for row in rows]


def test_quotients_without_denominators() -> None:
    degrees = Degrees()
    many = Quotients(degrees, [Quotient(PolynomialBound(2, 3, 0)), Quotient(PolynomialBound(1, 4, -1))])
    assert many.differences(0).tolist() == [[2, 4, 0], [2, 5, -1]]
