"""The front holds what nobody beats, and the hypervolume measures it."""

from dataclasses import replace

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from tensmith.report.metric import exact
from tensmith.search.candidate import Candidate
from tensmith.search.front import best, front, hypervolume, pareto, without_near_ties
from tensmith.search.plan import Plan

costs = st.lists(st.tuples(st.integers(1, 20), st.integers(1, 20)), min_size=1, max_size=30)


def candidate(size: float, latency: float, status: str = "accepted") -> Candidate:
    metrics = {"packed_bytes": exact(size, "bytes"), "latency_ms": exact(latency, "ms")}
    return Candidate(f"{size}-{latency}", Plan(), status, metrics=metrics)  # type: ignore[arg-type]


@given(costs)
def test_nobody_on_the_front_is_covered_and_everybody_else_is(points: list[tuple[int, int]]) -> None:
    kept = pareto(points, lambda p: (float(p[0]), float(p[1])))
    for p in kept:
        assert not any(q != p and q[0] <= p[0] and q[1] <= p[1] for q in points)
    for p in points:
        assert any(q[0] <= p[0] and q[1] <= p[1] for q in kept)


def test_rejected_candidates_are_never_on_the_front() -> None:
    good, cheating = candidate(10, 10), candidate(1, 1, "rejected")
    assert front([cheating, good]) == [good]


def test_of_points_that_are_alike_the_one_that_loses_least_stays() -> None:
    one, other, smaller = candidate(1000, 10.0), candidate(1004, 9.95), candidate(500, 20.0)
    found = [
        replace(point, drop=exact(lost, "pp")) for point, lost in ((one, 0.4), (other, 0.3), (smaller, 0.5))
    ]
    assert without_near_ties([found[2], *found[:2]]) == [found[2], found[1]]


def test_what_gains_a_hundredth_and_loses_more_otherwise_goes() -> None:
    good, tied = candidate(1000, 10.0), candidate(999, 11.0)
    assert without_near_ties([tied, good]) == [good]


@given(costs)
def test_hypervolume_is_the_share_of_cells_that_are_dominated(points: list[tuple[int, int]]) -> None:
    grid = np.indices((21, 21)).reshape(2, -1).T
    dominated = sum(any(x >= p[0] and y >= p[1] for p in points) for x, y in grid if x < 21 and y < 21)
    inside = [(float(x), float(y)) for x, y in points]
    assert hypervolume(inside, (21.0, 21.0)) == dominated


def test_a_point_outside_the_reference_adds_nothing() -> None:
    assert hypervolume([(0.5, 2.0)], (1.0, 1.0)) == 0
    assert hypervolume([(0.5, 0.5), (0.25, 0.75)], (1.0, 1.0)) == 0.25 + 0.0625


def test_the_preference_picks_an_end_or_the_best_product() -> None:
    small, fast, both = candidate(1, 100), candidate(100, 1), candidate(5, 5)
    assert [best([small, fast, both], p) for p in ("size", "latency", "balanced")] == [small, fast, both]
