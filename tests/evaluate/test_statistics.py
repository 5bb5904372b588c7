"""Intervals agree with published values and cover what they promise to cover."""

from __future__ import annotations

from statistics import NormalDist
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tensmith.errors import DataError
from tensmith.evaluate.statistics import (
    _student,
    bootstrap,
    estimate,
    median_interval,
    quantile_interval,
    tango,
    wilson,
)

# Of 400 intervals at the 95% level, fewer than 366 cover with probability below 0.2% (binomial).
TRIALS, FEWEST_COVERING = 400, 366


def test_wilson_published_values() -> None:
    """Newcombe, Statistics in Medicine 1998 (two-sided intervals), table I, method 3."""
    assert wilson(81, 263) == pytest.approx((0.2553, 0.3662), abs=5e-5)
    assert wilson(15, 148) == pytest.approx((0.0624, 0.1605), abs=5e-5)
    assert wilson(0, 20) == pytest.approx((0.0, 0.1611), abs=5e-5)
    assert wilson(1, 29) == pytest.approx((0.0061, 0.1718), abs=5e-5)


def test_tango_published_values() -> None:
    """Fagerland, Lydersen, Laake, Statistics in Medicine 2014: 21 children, 1 against 7 discordant pairs."""
    assert tango(1, 7, 21) == pytest.approx((-0.517, -0.026), abs=1e-3)


def test_tango_is_not_empty_without_discordant_pairs() -> None:
    low, high = tango(0, 0, 1000)
    assert -0.005 < low < -0.003 and 0.003 < high < 0.005


@given(st.integers(0, 30), st.integers(0, 30), st.integers(1, 500))
def test_tango_is_antisymmetric_and_holds_the_estimate(gained: int, lost: int, concordant: int) -> None:
    pairs = gained + lost + concordant
    low, high = tango(gained, lost, pairs)
    mirrored = tango(lost, gained, pairs)
    assert -1 <= low <= (gained - lost) / pairs <= high <= 1
    assert mirrored == pytest.approx((-high, -low), abs=1e-9)


def test_tango_covers() -> None:
    generator = np.random.default_rng(0)
    gained, lost, pairs = 0.02, 0.035, 400
    draws = generator.multinomial(pairs, [gained, lost, 1 - gained - lost], TRIALS)
    intervals = [tango(int(g), int(b), pairs) for g, b, _ in draws]
    assert sum(low <= gained - lost <= high for low, high in intervals) >= FEWEST_COVERING


@pytest.mark.parametrize("count", [6, 9, 15, 40])
def test_the_median_s_interval_covers(count: int) -> None:
    found = [median_interval(row) for row in np.random.default_rng(1).lognormal(0, 0.2, (TRIALS, count))]
    assert sum(low <= 1.0 <= high for low, high in found) >= FEWEST_COVERING


def test_a_median_of_few_lies_between_the_least_and_the_greatest() -> None:
    assert [median_interval(np.arange(float(count))) for count in (1, 5, 9)] == [(0, 0), (0, 4), (1, 7)]


def test_the_bootstrap_is_deterministic() -> None:
    samples = np.random.default_rng(2).standard_normal(30)
    first, second = (bootstrap(samples, lambda rows: rows.mean(axis=1)) for _ in range(2))
    assert first == second


def test_a_quantile_s_interval_covers_and_needs_enough_samples() -> None:
    generator = np.random.default_rng(3)
    truth = -np.log(1 - 0.99)  # of the exponential distribution
    found = [quantile_interval(row, 0.99) for row in generator.exponential(size=(400, 1000))]
    assert sum(low <= truth <= high for low, high in found if found) >= FEWEST_COVERING
    assert quantile_interval(np.arange(300.0), 0.99) is None
    assert quantile_interval(np.arange(400.0), 0.99) == (391.0, 399.0)


def test_the_bootstrap_of_a_mean_is_the_normal_interval() -> None:
    samples = np.random.default_rng(3).standard_normal(2000)
    low, high = bootstrap(samples, lambda rows: rows.mean(axis=1))
    half = 1.96 * samples.std() / np.sqrt(len(samples))
    # 2000 resamples know a 2.5% quantile to about 4% of the half-width (one sigma).
    assert (low, high) == pytest.approx((samples.mean() - half, samples.mean() + half), abs=0.15 * half)


def _mean(rows: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    mean: np.ndarray[Any, Any] = rows.mean(axis=-1)
    return mean


@pytest.mark.parametrize("count", [5, 10, 40])
def test_an_estimate_s_interval_covers_with_few_rows_too(count: int) -> None:
    generator = np.random.default_rng(4)
    found = [estimate(row, _mean) for row in generator.standard_normal((TRIALS, count))]
    assert sum(low <= 0 <= high for _, low, high in found) >= FEWEST_COVERING


def test_an_estimate_knows_thin_tails() -> None:
    """A tail of 0.016 % is beyond what 2,000 draws hold: the bound of a first stage out of six."""
    samples = np.random.default_rng(3).standard_normal(2000)
    value, low, high = estimate(samples, _mean, z=3.6)
    half = 3.6 * samples.std() / np.sqrt(len(samples))
    assert (low, high) == pytest.approx((value - half, value + half), abs=0.15 * half)


def test_one_row_has_no_spread() -> None:
    with pytest.raises(DataError, match="more are needed"):
        estimate(np.ones(1), _mean)


def test_student_s_t_by_table() -> None:
    """Abramowitz and Stegun, table 26.10."""
    found = [_student(NormalDist().inv_cdf(0.975), freedom) for freedom in (1, 2, 4, 10, 30)]
    assert found == pytest.approx([12.706, 4.303, 2.776, 2.228, 2.042], abs=0.02)
