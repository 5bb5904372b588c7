"""The end of a run fits the time that is left: what is repeated is cut before what is needed."""

from __future__ import annotations

import contextlib
import time
from dataclasses import replace

import pytest

from tensmith.deploy.schedule import Schedule
from tensmith.evaluate.latency import least_seconds
from tensmith.evaluate.memory import PROCESSES
from tensmith.evaluate.pace import BUILD, CHECK, SAMPLE, START, Pace
from tensmith.report.metric import exact
from tensmith.rewrite.rule import Step
from tensmith.search.candidate import Candidate
from tensmith.search.plan import Plan

SECONDS = {START: 1.0, SAMPLE: 0.01, BUILD: 2.0, CHECK: 5.0}


class Fixed(Pace):
    """A machine that always takes the same."""

    def longest(self, part: str) -> float:
        return SECONDS[part]

    usual = longest


def points(count: int, *steps: Step) -> list[Candidate]:
    metrics = {"latency_ms": exact(1.0, "ms"), "packed_bytes": exact(1e6, "bytes")}
    return [Candidate(f"c{number}", Plan(steps), "accepted", "", "e", metrics) for number in range(count)]


def schedule(left: float, budget: float = 600.0, metered: bool = False) -> Schedule:
    return Schedule(Fixed(), budget, time.monotonic() + left, 2, metered)


def test_the_search_leaves_more_for_more_points_and_more_samples() -> None:
    made = schedule(600.0)
    assert made.least(points(1)) < made.reserve(points(1), 1000) < made.reserve(points(4), 1000)
    assert made.reserve(points(4), 1000) < made.reserve(points(4), 2000)
    assert made.reserve(points(4), 10**6) == pytest.approx(200.0)  # its share of all the time
    assert schedule(600.0, metered=True).reserve(points(4), 1000) > made.reserve(points(4), 1000)


def test_the_least_is_left_even_where_it_is_more_than_the_share() -> None:
    made = schedule(30.0, budget=30.0)
    assert made.reserve(points(8), 10**6) == made.least(points(8)) > 15.0


def test_an_exact_beginning_of_its_own_is_checked_once() -> None:
    made = schedule(600.0)
    assert made.least(points(2, Step("some_exact_rule"))) == pytest.approx(
        made.least(points(2)) + SECONDS[CHECK]
    )


def test_held_out_samples_fill_the_time_that_the_rest_leaves() -> None:
    made = schedule(200.0)
    samples = made.samples(points(4))
    assert made.reserve(points(4), samples) == pytest.approx(200.0, abs=1.0)
    assert schedule(0.0).samples(points(4)) == 500


@pytest.mark.parametrize(
    ("sample", "budget", "judged"), [(0.1, 600.0, 100), (0.1, 3600.0, 490), (0.03, 600.0, 272)]
)
def test_as_many_as_tell_something_are_judged_in_any_case_where_they_take_little_of_the_budget(
    sample: float, budget: float, judged: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(SECONDS, SAMPLE, sample)
    assert schedule(0.0, budget).samples(points(4)) == judged


def test_as_many_are_judged_as_take_no_longer_than_a_start(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(SECONDS, SAMPLE, 0.0005)
    assert schedule(0.0).samples(points(4)) == 2000


def test_a_slow_original_takes_its_own_time() -> None:
    slow = replace(points(1)[0], metrics={**points(1)[0].metrics, "latency_ms": exact(2000.0, "ms")})
    alone = Schedule(Fixed(), 600.0, time.monotonic(), 0)
    (point,) = points(1)
    for_both = least_seconds(2000.0) + least_seconds(1.0) + 2 * SECONDS[START]
    assert alone._timing([slow, point], 0.0) == pytest.approx(for_both)


def test_what_is_late_is_repeated_less() -> None:
    assert schedule(300.0).processes(points(4)) == PROCESSES
    assert schedule(0.0).processes(points(4)) == 1
    assert schedule(0.0).timed_within(points(4)) == 0.0
    assert schedule(100.0).judged_by(points(4)) < time.monotonic() + 100.0


def test_the_longest_of_the_last_few_counts() -> None:
    pace = Pace()
    assert pace.longest(START) == 0.0
    pace._seconds[START].extend([9.0, *[1.0] * 4])
    assert pace.longest(START) == 9.0
    assert pace.usual(START) == pytest.approx(13 / 5)
    assert pace.several(START, 3) == pytest.approx(9.0 + 2 * 13 / 5)  # not thrice the slowest
    assert pace.several(START, 0) == 0.0
    with pace.timed(START):
        pass
    assert pace.longest(START) == 1.0


def test_what_fails_says_nothing_about_time() -> None:
    pace = Pace()
    with contextlib.suppress(ValueError), pace.timed(START):
        raise ValueError
    assert pace.longest(START) == 0.0


def test_time_that_timing_left_goes_into_more_samples() -> None:
    four = points(4)
    assert schedule(0.0).more(four, 100, 500) == 0
    assert schedule(10000.0).more(four, 100, 500) == 400
    some = [schedule(seconds).more(four, 100, 10**6) for seconds in (100.0, 200.0)]
    assert 0 < some[0] < some[1]
    assert schedule(200.0).more(four, 10**6 - 1, 10**6) == 1
    assert schedule(200.0).more(four, 10 * some[1], 10**6) == 0  # not worth starting anew for
