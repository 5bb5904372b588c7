"""Probability tables out of 2^15, from few parameters, by integer arithmetic only.

Both sides must build the same table to the last bit on every machine, so no floating point enters here.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache

import numpy as np

from tensmith.backend.packed.elements import Integers
from tensmith.backend.packed.rans import TOTAL

DEGREES = (1, 3, 5, 9, 15, 31)  # of freedom: from Cauchy to nearly Gaussian
MIN_LEVEL, MAX_LEVEL = -12, 40  # scale 2^(level / 4): from 1/8 to 1024
MAX_CORRECTION = 48  # quarter octaves, either way
_UNIT = 30  # fixed-point bits of a density


@lru_cache(maxsize=4096)
def octaves(code: int, halvings: int) -> int:
    """floor(2^(16 + code / 2^halvings)), exactly."""
    value = 1 << ((16 << halvings) + code)
    for _ in range(halvings):
        value = math.isqrt(value)
    return value


def normalise(weights: Integers) -> Integers:
    """Scales each row of non-negative weights [contexts, alphabet] to sum to 2^15, no entry below 1.

    Rows must not be all zero and the alphabet must be at most 2^15 symbols.
    """
    spare_bits = max(0, int(weights.sum(axis=1).max()).bit_length() - 46)
    weights = weights >> spare_bits
    total = np.maximum(weights.sum(axis=1, keepdims=True), 1)
    reserve = np.zeros_like(total)
    while True:
        table: Integers = np.maximum(weights * (TOTAL - reserve) // total, 1)
        excess = table.sum(axis=1, keepdims=True) - TOTAL
        if (excess <= 0).all():
            break
        reserve += np.maximum(excess, 0)
    rows = np.arange(len(table))
    table[rows, table.argmax(axis=1)] -= excess[:, 0]
    return table


def magnitude_bins(low: int, high: int) -> Integers:
    """The bin of |k| for each k in low..high: 0, 1, 2, 3, then two an octave, and one for the largest."""
    magnitude = np.abs(np.arange(low, high + 1, dtype=np.int64))
    starts = [0, 1, *(step << shift for shift in range(11) for step in (2, 3))]
    bins: Integers = np.searchsorted(starts, magnitude, side="right") - 1
    bins[magnitude == magnitude.max()] = bins.max() + 1
    return bins


def student(
    levels: Integers,
    degrees: int,
    low: int,
    high: int,
    corrections: Sequence[int] = (),
    shifts: Integers | None = None,
) -> Integers:
    """Frequencies [levels, high - low + 1] of the integers low..high (low <= 0 <= high, |k| < 4096).

    Student's t density with odd `degrees`: (1 + k^2 / (degrees s^2))^-((degrees + 1) / 2), s = 2^(level / 4),
    k counted from shifts / 256 (|shift| < 2^20; default: 0), times 2^(corrections[b] / 4) in magnitude bin b:
    pruning puts mass at 0 and takes it from around 0, and
    symmetric quantization puts every channel's largest weight at an end.
    """
    values = np.arange(low, high + 1, dtype=np.int64)
    squared = np.array([degrees * octaves(int(level), 1) for level in levels], np.int64)[:, None]
    away = values << 8 if shifts is None else (values << 8) - shifts[:, None]
    ratio = ((squared << 20) // (squared + away * away)) << (_UNIT - 20)
    weights = ratio.copy()
    for _ in range((degrees + 1) // 2 - 1):
        weights = weights * ratio >> _UNIT
    if any(corrections):
        factors = np.array([octaves(code, 2) for code in corrections], np.int64)
        weights = weights * factors[magnitude_bins(low, high)] >> 16
    return normalise(weights)


def histogram_codes(counts: Integers) -> bytes:
    """A byte for each symbol: 0 when it never occurs, else 1 + its count in eighths of an octave."""
    logs = np.rint(8 * np.log2(np.maximum(counts, 1)))
    return np.where(counts > 0, 1 + np.minimum(logs, 254), 0).astype(np.uint8).tobytes()


def histogram(codes: bytes) -> Integers:
    """Frequencies [1, alphabet] from `histogram_codes`."""
    weights = [octaves(code - 1, 3) if code else 0 for code in codes]
    return normalise(np.array([weights], np.int64))
