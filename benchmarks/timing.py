"""Rows of latencies: contenders that took turns, the first one ours; what their ratios come to."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from tensmith.evaluate.latency import Latency
from tensmith.evaluate.statistics import bootstrap


def geometric(ratios: Sequence[float]) -> tuple[float, float, float]:
    """The geometric mean of ratios, and its 95 % interval over them."""
    logs = np.log(ratios)
    low, high = np.exp(bootstrap(logs, lambda rows: rows.mean(axis=1)))
    return math.exp(logs.mean()), float(low), float(high)


def row(found: Mapping[str, Latency], others: tuple[str, ...] = ()) -> dict[str, Any]:
    """Milliseconds by name; how many times faster the first is than the fastest of `others`, default all.

    busy: the machine was, and the figures are of turns that waited.
    """
    first, *rest = found
    over = min(others or rest, key=lambda name: found[name].latency.value)
    times = {name: latency.latency.value for name, latency in found.items()}
    return {"ms": times, "over": over, **faster(found[over]), "busy": found[first].busy}


def faster(other: Latency) -> dict[str, float]:
    """How many times faster the baseline of a comparison is than another contender, with a 95 % interval."""
    return {"ratio": 1 / other.ratio.value, "low": 1 / other.ratio.high, "high": 1 / other.ratio.low}
