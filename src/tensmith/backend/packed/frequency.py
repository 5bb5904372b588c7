"""Probability tables out of 2^15, from few parameters.

Both sides must build the same table to the last bit on every machine. So densities are made of single
additions, products and quotients of float32, which IEEE 754 rounds alike everywhere, with no sum of a product
that a compiler could round once, and the rest is integer arithmetic.
"""

from __future__ import annotations

import math
from functools import cache, lru_cache
from typing import Any

import numpy as np

from tensmith.backend.packed.elements import Integers
from tensmith.backend.packed.rans import PRECISION, TOTAL

DEGREES = (1, 3, 5, 9, 15, 31)  # of freedom: from Cauchy to nearly Gaussian
MIN_LEVEL, MAX_LEVEL = -12, 40  # scale 2^(level / 4): from 1/8 to 1024
LEVELS = MAX_LEVEL - MIN_LEVEL + 1
# A context is a level and a mean: the mean in thirds of a spread, three spreads at most.
PARTS, FARTHEST = 3, 9
MEANS = 2 * FARTHEST + 1
CONTEXTS = LEVELS * MEANS
MAX_CORRECTION = 48  # quarter octaves, either way
_UNIT = 20  # fixed-point bits of a density

Floats = np.ndarray[Any, np.dtype[np.float32]]


@lru_cache(maxsize=4096)
def octaves(code: int, halvings: int) -> int:
    """floor(2^(16 + code / 2^halvings)), exactly."""
    value = 1 << ((16 << halvings) + code)
    for _ in range(halvings):
        value = math.isqrt(value)
    return value


@cache
def context_shifts() -> Integers:
    """Of each context, its mean in 256ths; of the one in the middle of each level, 0."""
    levels, means = np.divmod(np.arange(CONTEXTS), MEANS)
    scales = np.array([octaves(level + MIN_LEVEL, 2) for level in range(LEVELS)], np.int64)
    return (means - FARTHEST) * scales[levels] // (PARTS << 8)


def normalise(weights: Integers) -> Integers:
    """Scales each row of weights (0 <= weight <= 2^20) [contexts, alphabet] to sum to 2^15, no entry below 1.

    What rounding leaves goes to a row's largest entry. With at most 2048 symbols that stays positive: where
    entries of less than 1 are raised, the others share what is left, and hold more than is missing.
    """
    total = np.maximum(weights.sum(axis=1, keepdims=True), 1)
    rare = np.count_nonzero(weights << PRECISION < total, axis=1, keepdims=True)
    share = np.minimum(((TOTAL - rare) << 32) // total, (1 << 32) - 1)
    table: Integers = np.maximum(weights * share >> 32, 1)
    table[np.arange(len(table)), table.argmax(axis=1)] += TOTAL - table.sum(axis=1)
    return table


@lru_cache
def magnitude_bins(low: int, high: int) -> Integers:
    """The bin of |k| for each k in low..high: 0, 1, 2, 3, then two an octave, and one for the largest."""
    magnitude = np.abs(np.arange(low, high + 1, dtype=np.int64))
    starts = [0, 1, *(step << shift for shift in range(11) for step in (2, 3))]
    bins: Integers = np.searchsorted(starts, magnitude, side="right") - 1
    bins[magnitude == magnitude.max()] = bins.max() + 1
    return bins


@lru_cache
def squared_spreads(degrees: int) -> Floats:
    """Of each level, degrees s^2, s = 2^(level / 4) in 256ths."""
    levels = range(MIN_LEVEL, MAX_LEVEL + 1)
    return np.array([degrees * octaves(level, 1) for level in levels], np.int64).astype(np.float32)


@lru_cache
def correction_factors(corrections: tuple[int, ...], low: int, high: int) -> Floats:
    """For each integer low..high, 2^20 times 2^(correction / 4) over the largest; none: as all alike."""
    if not corrections:
        return np.full(high - low + 1, 1 << _UNIT, np.float32)
    top = max(corrections)
    exponents = [max(code - top, -4 * _UNIT) + 4 * (_UNIT - 16) for code in corrections]
    factors = np.array([octaves(exponent, 2) for exponent in exponents], np.int64)
    return factors[magnitude_bins(low, high)].astype(np.float32)


def of_quantizers(factors: Floats, low: int) -> Floats:
    """Factors of the integers from `low` on, 0 of those that a quantizer has not: [2, alphabet]."""
    integers = np.arange(low, low + factors.size)
    odd = integers % 2 != 0
    return np.where(np.stack([~odd, odd | (integers == 0)]), factors, np.float32(0))


def student(
    levels: Integers,
    degrees: int,
    low: int,
    high: int,
    corrections: tuple[int, ...] = (),
    shifts: Integers | None = None,
    odd: Integers | None = None,
) -> Integers:
    """Frequencies [levels, high - low + 1] of the integers low..high (low <= 0 <= high, |k| < 2048).

    Student's t density with odd `degrees`: (1 + k^2 / (degrees s^2))^-((degrees + 1) / 2), s = 2^(level / 4),
    k counted from shifts / 256 (|shift| < 2^20; default: 0), times 2^(corrections[b] / 4) in magnitude bin b:
    pruning puts mass at 0 and takes it from around 0, and
    symmetric quantization puts every channel's largest weight at an end. odd: 0 or 1, where only the integers
    of that quantizer are possible.
    """
    values = np.arange(low, high + 1, dtype=np.int64) << 8
    away = (values - (0 if shifts is None else shifts[:, None])).astype(np.float32)
    ratio = 1 / (1 + away * away / squared_spreads(degrees)[levels - MIN_LEVEL, None])
    density = ratio
    for _ in range((degrees + 1) // 2 - 1):
        density = density * ratio
    factors = correction_factors(corrections, low, high)
    if odd is not None:
        factors = of_quantizers(factors, low)[odd]
    return normalise((density * factors).astype(np.int64))


def histogram_codes(counts: Integers) -> bytes:
    """A byte for each symbol: 0 when it never occurs, else 1 + its count in eighths of an octave."""
    logs = np.rint(8 * np.log2(np.maximum(counts, 1)))
    return np.where(counts > 0, 1 + np.minimum(logs, 254), 0).astype(np.uint8).tobytes()


def histogram_weights(codes: bytes) -> Integers:
    """Weights [alphabet] from `histogram_codes`: of the most frequent symbol 2^16, of others 1 at least."""
    found = np.frombuffer(codes, np.uint8)
    weights: Integers = np.where(found > 0, _halvings()[found.max(initial=0) - found], 0)
    return weights


@cache
def _halvings() -> Integers:
    """2^16 less so many eighths of an octave."""
    return np.array([octaves(-min(eighths, 128), 3) for eighths in range(256)], np.int64)
