"""The Pareto front of size and latency, and the area it dominates."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TypeVar

from tensmith.search.candidate import Candidate

T = TypeVar("T")


def pareto(items: Iterable[T], cost: Callable[[T], tuple[float, ...]]) -> list[T]:
    """Items that no other is at least as good as in every cost and better in one; of equals the first."""
    kept: list[T] = []
    for item in items:
        mine = cost(item)
        if any(_covers(cost(other), mine) for other in kept):
            continue
        kept = [other for other in kept if not _covers(mine, cost(other))] + [item]
    return kept


def _covers(left: tuple[float, ...], right: tuple[float, ...]) -> bool:
    return all(a <= b for a, b in zip(left, right))


def front(candidates: Iterable[Candidate]) -> list[Candidate]:
    """The accepted candidates nobody beats in both size and latency, smallest first."""
    accepted = [c for c in candidates if c.status == "accepted"]
    return sorted(pareto(accepted, lambda c: (c.bytes, c.latency)), key=lambda c: (c.bytes, c.latency))


def without_near_ties(
    points: Sequence[Candidate], same: float = 1.01, better: float = 0.98
) -> list[Candidate]:
    """A front without points that gain a hundredth on another one and lose clearly more otherwise.

    Of points that are a hundredth apart in both, the one that loses least stays.
    """

    def ratios(mine: Candidate, other: Candidate) -> tuple[float, float]:
        return other.bytes / mine.bytes, other.latency / mine.latency

    def beaten(mine: Candidate, other: Candidate) -> bool:
        return max(ratios(mine, other)) <= same and min(ratios(mine, other)) <= better

    def alike(mine: Candidate, other: Candidate) -> bool:
        return max(*ratios(mine, other), *ratios(other, mine)) <= same

    kept: list[Candidate] = []
    for point in sorted(points, key=lambda c: c.drop.value if c.drop is not None else 0.0):
        if not any(beaten(point, other) for other in points if other is not point):
            kept += [] if any(alike(point, other) for other in kept) else [point]
    return [point for point in points if point in kept]


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


def best(candidates: Sequence[Candidate], prefer: str) -> Candidate:
    """The candidate to deploy: the smallest, the fastest, or the one with the best product of both."""
    keys: dict[str, Callable[[Candidate], float]] = {
        "size": lambda c: c.bytes,
        "latency": lambda c: c.latency,
        "balanced": lambda c: c.bytes * c.latency,
    }
    return min(candidates, key=keys[prefer])
