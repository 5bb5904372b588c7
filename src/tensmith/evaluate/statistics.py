"""Intervals: Wilson for a proportion, Tango for a paired difference, ranks for a median or another quantile,
the bootstrap for the rest.

They hold with 95% where nothing else is asked for, by the `z` of the normal distribution. All are pure
functions of their samples; the bootstrap draws from a generator with a given seed.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from statistics import NormalDist

import numpy as np

from tensmith.errors import DataError
from tensmith.formula.arith import Array

Interval = tuple[float, float]

Z_95 = 1.959963984540054
RESAMPLES = 2000
# The widest percentile interval that so many draws know: ten lie beyond either end.
_Z_DRAWN = -NormalDist().inv_cdf(10 / RESAMPLES)
_GROUPS = 32
_BISECTIONS = 60
_DRAWN_AT_ONCE = 1 << 22


def weighed(value: float, half: float, prior: float) -> float:
    """The mean of what samples say, a value give or take `half` (95 %), and of a prior, give or take as much
    as it is: of two normal distributions, by how sure either is."""
    return prior + (value - prior) * (prior / math.hypot(prior, half / Z_95)) ** 2


def wilson(successes: int, trials: int) -> Interval:
    """Score interval of a proportion (Wilson, JASA 1927)."""
    z2 = Z_95 * Z_95
    centre = (successes + z2 / 2) / (trials + z2)
    half = Z_95 / (trials + z2) * math.sqrt(successes * (trials - successes) / trials + z2 / 4)
    return max(0.0, centre - half), min(1.0, centre + half)


def tango(gained: int, lost: int, pairs: int, z: float = Z_95) -> Interval:
    """Score interval of the difference (gained - lost) / pairs of two paired proportions.

    `gained` pairs succeed only the first time, `lost` only the second. Holds its level with few discordant
    pairs, and is not empty with none (Tango, Statistics in Medicine 1998).
    """
    value = (gained - lost) / pairs

    def distance(difference: float) -> float:
        b = (2 * pairs - gained + lost) * difference - gained - lost
        c = -lost * difference * (1 - difference)
        expected = (math.sqrt(max(0.0, b * b - 8 * pairs * c)) - b) / (4 * pairs)
        variance = pairs * (2 * expected + difference * (1 - difference))
        gap = gained - lost - pairs * difference
        return abs(gap) / math.sqrt(variance) if variance > 0 else (0.0 if gap == 0 else math.inf)

    return _edge(distance, value, -1.0, z), _edge(distance, value, 1.0, z)


def _edge(distance: Callable[[float], float], inside: float, outside: float, z: float) -> float:
    """Where `distance` crosses z between a point inside the interval and one outside."""
    if distance(outside) <= z:
        return outside
    for _ in range(_BISECTIONS):
        middle = (inside + outside) / 2
        inside, outside = (middle, outside) if distance(middle) <= z else (inside, middle)
    return inside


def bootstrap(samples: Array, statistic: Callable[[Array], Array], z: float = Z_95) -> Interval:
    """Percentile interval of `statistic` over the rows of `samples` [n, ...] (Efron, Ann. Stat. 1979).

    `statistic` takes resampled rows [resamples, n, ...] and gives one value a resample.
    """
    generator = np.random.default_rng(0)
    count = len(samples)
    at_once = max(1, min(RESAMPLES, _DRAWN_AT_ONCE // max(1, samples.size)))
    values = []
    for start in range(0, RESAMPLES, at_once):
        size = (min(at_once, RESAMPLES - start), count)
        values.append(statistic(samples[generator.integers(0, count, size)]))
    tail = 100 * NormalDist().cdf(-z)
    low, high = np.percentile(np.concatenate(values), [tail, 100 - tail])
    return float(low), float(high)


def estimate(
    samples: Array, statistic: Callable[[Array], Array], z: float = Z_95
) -> tuple[float, float, float]:
    """`statistic` of the rows of `samples` [n, ...], and its interval by the bootstrap, for any `z`.

    The percentile interval is too narrow for few rows, and the draws say nothing of tails thinner than some
    of them. So it is drawn no wider than they reach, and both of its arms are stretched to where Student's t
    with n - 1 degrees of freedom has the tail (the expanded interval of Hesterberg, The American Statistician
    2015). One row has no spread: DataError.
    """
    count = len(samples)
    if count < 2:
        raise DataError("one sample does not say how far others may differ; more are needed")
    value = float(statistic(samples))
    drawn = min(z, _Z_DRAWN)
    low, high = bootstrap(samples, statistic, z=drawn)
    stretch = _student(z, count - 1) * math.sqrt(count / (count - 1)) / drawn
    return value, value - stretch * max(0.0, value - low), value + stretch * max(0.0, high - value)


def median_interval(samples: Array) -> Interval:
    """Interval of the median of `samples` [n]: of five or fewer their range, of which 5 hold it with 94%."""
    found = quantile_interval(samples, 0.5)
    return found or (float(np.min(samples)), float(np.max(samples)))


def quantile_interval(samples: Array, share: float) -> Interval | None:
    """Interval of the value that a `share` of all runs does not exceed; None where `samples` [n] are too few.

    0 < share < 1. By ranks, whatever the distribution is (David and Nagaraja, Order Statistics, 7.1): how
    many of n independent samples lie below it is binomial. Runs in a row are not quite independent.
    """
    ordered, count = np.sort(samples), len(samples)
    below = _binomial(count, share)
    tail = NormalDist().cdf(-Z_95)
    low, high = int(np.searchsorted(below, tail, "right")), int(np.searchsorted(below, 1 - tail))
    if low < 1 or high >= count:
        return None
    return float(ordered[low - 1]), float(ordered[high])


def _binomial(count: int, share: float) -> Array:
    """How likely it is that at most k of `count` trials succeed, for each k: float64 [count + 1]."""
    ways = np.concatenate([[0.0], np.cumsum(np.log(np.arange(count, 0, -1) / np.arange(1, count + 1)))])
    k = np.arange(count + 1)
    return np.cumsum(np.exp(ways + k * math.log(share) + (count - k) * math.log1p(-share)))


def jackknife(statistic: Callable[[Array], float], count: int, z: float = Z_95) -> tuple[float, float, float]:
    """`statistic` of all of `count` samples, and its interval by the delete-a-group jackknife.

    statistic: of the samples in bool [count]. Samples go in turn into 32 groups (or one each, where there are
    fewer); the spread of what it is without each group says how it varies (Kott, Journal of Official
    Statistics 2001), by Student's t where groups are few. For what is no mean and slow to resample.
    """
    value = statistic(np.ones(count, bool))
    groups = min(_GROUPS, count)
    if groups < 2:
        return value, -math.inf, math.inf
    group = np.arange(count) % groups
    without = np.array([statistic(group != left_out) for left_out in range(groups)])
    error = math.sqrt((groups - 1) / groups * float(((without - without.mean()) ** 2).sum()))
    half = _student(z, groups - 1) * error
    return value, value - half, value + half


def _student(z: float, freedom: int) -> float:
    """The quantile of Student's t that leaves as much as `z` leaves of the normal distribution.

    Peiser's expansion (Econometrica 1943) with the terms of Abramowitz and Stegun 26.7.5; its closed forms
    for 1 and 2 degrees of freedom, where that is far off.
    """
    if freedom <= 2:
        below = NormalDist().cdf(-z)
        if freedom == 1:
            return 1 / math.tan(math.pi * below)
        return (1 - 2 * below) / math.sqrt(2 * below * (1 - below))
    terms = (
        (z**3 + z) / 4,
        (5 * z**5 + 16 * z**3 + 3 * z) / 96,
        (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / 384,
    )
    return float(z + sum(term / freedom**power for power, term in enumerate(terms, start=1)))
