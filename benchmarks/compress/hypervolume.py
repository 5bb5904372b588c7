"""How much of a plane a front dominates."""

from __future__ import annotations

from collections.abc import Sequence


def hypervolume(points: Sequence[tuple[float, float]], reference: tuple[float, float]) -> float:
    """Area dominated by `points` (both coordinates smaller is better) within `reference`.

    Zitzler and Thiele, IEEE TEC 3(4), 1999. Points outside the reference add nothing.
    """
    area, last = 0.0, reference[1]
    for x, y in sorted(points):
        if x < reference[0] and y < last:
            area += (reference[0] - x) * (last - y)
            last = y
    return area
