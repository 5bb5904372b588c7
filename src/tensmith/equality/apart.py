"""How far arrays of numbers are apart."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np


class Apart(NamedTuple):
    """How far two values are apart at most, and the largest number of the first."""

    most: float
    largest: float

    @property
    def share(self) -> float:
        """Of the largest number; 0 where the values are equal."""
        return self.most / (self.largest or 1.0)


def distance(left: np.ndarray[Any, Any], right: np.ndarray[Any, Any]) -> Apart:
    """Infinite where shapes differ, or one is a number where the other is none."""
    if left.shape != right.shape:
        return Apart(np.inf, 0.0)
    ours, theirs = left.astype(np.float64), right.astype(np.float64)
    with np.errstate(all="ignore"):
        same = (ours == theirs) | (np.isnan(ours) & np.isnan(theirs))
        apart = np.nan_to_num(np.where(same, 0.0, np.abs(ours - theirs)), nan=np.inf, posinf=np.inf)
    largest = float(np.max(np.abs(ours), where=np.isfinite(ours), initial=0.0))
    return Apart(float(apart.max(initial=0.0)), largest)


def farthest(expected: Mapping[str, Any], found: Mapping[str, Any]) -> float:
    """The largest share (see `Apart`) of all outputs; infinite where one is missing."""
    if not expected.keys() <= found.keys():
        return float("inf")
    return max((distance(array, found[name]).share for name, array in expected.items()), default=0.0)
