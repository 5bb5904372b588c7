"""Which range of an activation its 8 bits cover: four ways to choose it from a histogram.

minmax      everything seen
percentile  all but the given share of values, at each end
mse         least mean squared error of the quantized histogram
entropy     least Kullback-Leibler divergence of the quantized histogram (Migacz, GTC 2017)
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np

from tensmith.errors import ProgramError
from tensmith.formula.arith import Array
from tensmith.rewrite.calibration import Histogram

_LEVELS = 255
_FRACTIONS = np.linspace(0.2, 1.0, 65)
_SMALLEST = 1e-6

Range = tuple[float, float]


def choose_range(histogram: Histogram, params: Mapping[str, Any]) -> Range:
    """(low, high) with low <= 0 <= high and low < high, as `params["calibration"]` says."""
    method = params.get("calibration", "minmax")
    if method not in METHODS:
        raise ProgramError(f"calibration '{method}' is not one of {', '.join(METHODS)}")
    low, high = METHODS[method](histogram, params)
    low, high = min(low, 0.0), max(high, 0.0)
    return (low, high) if high - low > _SMALLEST else (low, low + _SMALLEST)


def _minmax(histogram: Histogram, params: Mapping[str, Any]) -> Range:
    return histogram.low, histogram.high


def _percentile(histogram: Histogram, params: Mapping[str, Any]) -> Range:
    kept = float(params.get("percentile", 99.99))
    if not 50 < kept <= 100:
        raise ProgramError(f"percentile is between 50 and 100, not {kept:g}")
    share = np.cumsum(histogram.counts) / max(histogram.counts.sum(), 1)
    first = int(np.searchsorted(share, 1 - kept / 100, side="right"))
    last = int(np.searchsorted(share, kept / 100, side="left"))
    width = (histogram.high - histogram.low) / len(share)
    return histogram.low + width * first, histogram.low + width * min(last + 1, len(share))


def _mse(histogram: Histogram, params: Mapping[str, Any]) -> Range:
    x, weight = histogram.centres, histogram.counts

    def error(low: float, high: float) -> float:
        return float(np.sum(weight * (_quantized(x, low, high) - x) ** 2))

    return min(_clipped(histogram), key=lambda bounds: error(*bounds))


def _entropy(histogram: Histogram, params: Mapping[str, Any]) -> Range:
    return min(_clipped(histogram), key=lambda bounds: _divergence(histogram, *bounds))


METHODS: dict[str, Callable[[Histogram, Mapping[str, Any]], Range]] = {
    "minmax": _minmax,
    "percentile": _percentile,
    "mse": _mse,
    "entropy": _entropy,
}


def _clipped(histogram: Histogram) -> Iterator[Range]:
    """The full range and narrower ones, both ends drawn in by the same factor."""
    for fraction in _FRACTIONS[::-1]:
        yield min(histogram.low, 0.0) * fraction, max(histogram.high, 0.0) * fraction


def _quantized(x: Array, low: float, high: float) -> Array:
    scale = max((high - low) / _LEVELS, _SMALLEST / _LEVELS)
    zero = np.rint(-low / scale)
    return np.asarray((np.clip(np.rint(x / scale) + zero, 0, _LEVELS) - zero) * scale)


def _divergence(histogram: Histogram, low: float, high: float) -> float:
    """KL(p || q): p the clipped counts, q what is left when each level spreads its mass over its bins."""
    x, p = np.clip(histogram.centres, low, high), histogram.counts / max(histogram.counts.sum(), 1)
    level = np.rint((x - low) / max((high - low) / _LEVELS, _SMALLEST)).astype(np.int64).clip(0, _LEVELS)
    seen = p > 0
    inside = seen & (histogram.centres >= low) & (histogram.centres <= high)
    mass = np.bincount(level[seen], weights=p[seen], minlength=_LEVELS + 1)
    bins = np.bincount(level[inside], minlength=_LEVELS + 1)
    q = (mass / np.maximum(bins, 1))[level]
    lost = float(p[seen & ~inside].sum())
    kept = inside & (q > 0)
    return float(np.sum(p[kept] * np.log(p[kept] / q[kept]))) + lost
