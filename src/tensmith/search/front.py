"""The Pareto front of accuracy lost, size, latency, memory and energy: what nobody beats in all of them."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable, Sequence
from typing import TypeVar

from tensmith.report.metric import exact
from tensmith.search.candidate import SHOWN, Candidate
from tensmith.search.objective import PREFERENCES
from tensmith.search.plan import UNTOUCHED

T = TypeVar("T")

# Points of a front that are measured for good; where many surely hold the budgets, still some that may.
MOST_POINTS, FEWEST_UNSURE, MOST_BEYOND = 8, 3, 3

# What is to be small, beside the accuracy lost; compared by ratios.
TAKEN = ("packed_bytes", "latency_ms", "peak_bytes", "energy_mj")
# Ratios of a hundredth apart are the same. So are losses a tenth of their interval apart: it speaks of other
# samples, and on these the two were paired.
_SAME_RATIO, _SAME_LOSS = 0.01, 0.1


def pareto(items: Iterable[T], cost: Callable[[T], tuple[float, ...]]) -> list[T]:
    """Items that no other is at least as good as in every cost and better in one; of equals the first."""
    kept: list[tuple[T, tuple[float, ...]]] = []
    for item in items:
        mine = cost(item)
        if not any(_covers(theirs, mine) for _, theirs in kept):
            kept = [(other, theirs) for other, theirs in kept if not _covers(mine, theirs)] + [(item, mine)]
    return [item for item, _ in kept]


def _covers(left: tuple[float, ...], right: tuple[float, ...]) -> bool:
    return all(a <= b for a, b in zip(left, right))


def costs(candidate: Candidate) -> tuple[float, ...]:
    """Accuracy that may be lost, then the logarithms of what it takes; 0 where that is not known.

    What may be lost is the loss and half of its interval: who changed no answer is surer than who lost as
    many as it gained. Accuracy gained on some samples is no loss avoided on others.
    """
    drop = candidate.drop or exact(0.0, "")
    lost = max(drop.value, 0.0) + (drop.high - drop.low) / 2
    known = (candidate.metrics.get(name) for name in TAKEN)
    return lost, *(math.log(max(metric.value, 1e-9)) if metric else 0.0 for metric in known)


def _same(candidate: Candidate) -> tuple[float, ...]:
    """How far apart each cost of another may be and still count as the same.

    That is what measurement tells apart; intervals of estimates are alike for all, and hide nothing.
    """
    lost = _SAME_LOSS * (candidate.drop.high - candidate.drop.low) / 2 if candidate.drop else 0.0
    known = (candidate.metrics.get(name) for name in TAKEN)
    widths = (
        math.log(max(metric.high, 1e-9) / max(metric.low, 1e-9)) / 2
        if metric and metric.evidence == "measured"
        else 0.0
        for metric in known
    )
    return lost, *(max(width, _SAME_RATIO) for width in widths)


def front(candidates: Iterable[Candidate]) -> list[Candidate]:
    """The candidates nobody beats in every cost, smallest first.

    Who holds all budgets is beaten only by those who do, and who surely does by those who surely do.
    Near ties are merged: who gains nothing that measurement tells apart on another one leaves.
    """
    found, rivals = list(candidates), []
    kept: list[Candidate] = []
    for status in SHOWN:
        rivals += [c for c in found if c.status == status]
        points = (c for c in pareto(rivals, costs) if c.status == status)
        for point in sorted(points, key=_merit):
            if not any(_gains_nothing(point, other) for other in kept):
                kept.append(point)
    return sorted(kept, key=lambda c: (c.bytes, c.latency))


def _merit(candidate: Candidate) -> float:
    return sum(costs(candidate))


def _gains_nothing(mine: Candidate, other: Candidate) -> bool:
    """Whether it is in no cost clearly less than the other one."""
    rows = zip(costs(mine), costs(other), _same(mine), _same(other))
    return all(ours >= theirs - max(near) for ours, theirs, *near in rows)


def spread(points: Sequence[Candidate], most: int, stay: Collection[Candidate] = ()) -> list[Candidate]:
    """At most `most` of a front's points: one by one the most crowded leaves, unless it is to stay."""
    kept = list(points)
    while len(kept) > max(most, len(stay)):
        room = crowding([costs(point) for point in kept])
        del kept[min((i for i, point in enumerate(kept) if point not in stay), key=room.__getitem__)]
    return kept


def crowding(points: Sequence[tuple[float, ...]]) -> list[float]:
    """How far apart the neighbours of each point are, summed over the costs; ends have all the room.

    Deb et al., IEEE TEC 6(2), 2002.
    """
    room = [0.0] * len(points)
    for found in zip(*points):
        order = sorted(range(len(points)), key=lambda i: found[i])
        width = found[order[-1]] - found[order[0]]
        room[order[0]] = room[order[-1]] = float("inf")
        for before, here, after in zip(order, order[1:], order[2:]):
            room[here] += (found[after] - found[before]) / width if width else 0.0
    return room


def knee(points: Sequence[Candidate]) -> Candidate | None:
    """Where a front bends: the point farthest from the plane through its ends, towards what is best in all.

    That is the least sum of the costs, each scaled to the front's range (after Das, Structural Optimization
    18, 1999). None of fewer than three points.
    """
    if len(points) < 3:
        return None
    scaled = []
    for found in zip(*map(costs, points)):
        low, width = min(found), max(found) - min(found)
        scaled.append([(cost - low) / width if width > _SAME_RATIO else 0.0 for cost in found])
    sums = [sum(row) for row in zip(*scaled)]
    return points[sums.index(min(sums))]


def best(candidates: Sequence[Candidate], prefer: str) -> Candidate:
    """The candidate to deploy: the smallest, the fastest, or the one with the best product of both.

    It is one of those that hold every budget; where there is none, the original.
    """
    within = [c for c in candidates if c.status == "accepted"]
    return _preferred(within or [c for c in candidates if c.plan == UNTOUCHED], prefer)


def _preferred(candidates: Iterable[Candidate], prefer: str) -> Candidate:
    return min(candidates, key=lambda c: PREFERENCES[prefer](c.bytes, c.latency))


def shortlist(candidates: Iterable[Candidate], judged: bool = True) -> list[Candidate]:
    """The front, thinned by how crowded it is: MOST_POINTS within the budgets, and a few beyond the drop's.

    What may be preferred stays, and what loses least; beyond the budget the best of what was trained, and the
    ends: held-out data may think better of it than the few samples of a search. Until all are `judged` by
    that, what only trained ones beat stays too: they were chosen by those few samples again and again.
    """
    found = list(candidates)
    points = front(found)
    if not judged:
        plain = front(c for c in found if not c.plan.is_trained)
        points = sorted({c.id: c for c in (*points, *plain)}.values(), key=lambda c: (c.bytes, c.latency))
    sure, unsure, beyond = ([point for point in points if point.status == status] for status in SHOWN)
    trained = [point for point in beyond if point.plan.is_trained]
    kept = spread(beyond, MOST_BEYOND, [_preferred(trained, "balanced")] if trained else ())
    for within, room in ((sure, MOST_POINTS), (unsure, max(FEWEST_UNSURE, MOST_POINTS - len(sure)))):
        untrained = [] if judged else [point for point in within if not point.plan.is_trained]
        stay = [_preferred(those, prefer) for prefer in PREFERENCES for those in (within, untrained) if those]
        stay += [min(within, key=lambda c: costs(c)[0])] if within else []
        stay = [*{point.id: point for point in stay}.values()]
        kept += spread(within, room, stay)
    return [point for point in points if point in kept]
