"""95% intervals: Wilson for a proportion, Tango for a paired difference, the bootstrap for the rest.

All are pure functions of their samples; the bootstrap draws from a generator with a given seed.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]
Interval = tuple[float, float]

Z_95 = 1.959963984540054
RESAMPLES = 2000
_BISECTIONS = 60
_DRAWN_AT_ONCE = 1 << 22


def wilson(successes: int, trials: int) -> Interval:
    """Score interval of a proportion (Wilson, JASA 1927)."""
    z2 = Z_95 * Z_95
    centre = (successes + z2 / 2) / (trials + z2)
    half = Z_95 / (trials + z2) * math.sqrt(successes * (trials - successes) / trials + z2 / 4)
    return max(0.0, centre - half), min(1.0, centre + half)


def tango(gained: int, lost: int, pairs: int) -> Interval:
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

    return _edge(distance, value, -1.0), _edge(distance, value, 1.0)


def _edge(distance: Callable[[float], float], inside: float, outside: float) -> float:
    """Where `distance` crosses z between a point inside the interval and one outside."""
    if distance(outside) <= Z_95:
        return outside
    for _ in range(_BISECTIONS):
        middle = (inside + outside) / 2
        inside, outside = (middle, outside) if distance(middle) <= Z_95 else (inside, middle)
    return inside


def bootstrap(samples: Array, statistic: Callable[[Array], Array], seed: int = 0) -> Interval:
    """Percentile interval of `statistic` over the rows of `samples` [n, ...] (Efron, Ann. Stat. 1979).

    `statistic` takes resampled rows [resamples, n, ...] and gives one value a resample.
    """
    generator = np.random.default_rng(seed)
    count = len(samples)
    at_once = max(1, min(RESAMPLES, _DRAWN_AT_ONCE // max(1, samples.size)))
    values = []
    for start in range(0, RESAMPLES, at_once):
        size = (min(at_once, RESAMPLES - start), count)
        values.append(statistic(samples[generator.integers(0, count, size)]))
    low, high = np.percentile(np.concatenate(values), [2.5, 97.5])
    return float(low), float(high)


def median_interval(samples: Array, seed: int = 0) -> Interval:
    """Bootstrap interval of the median of `samples` [n]."""
    return bootstrap(samples, lambda rows: np.median(rows, axis=1), seed)
