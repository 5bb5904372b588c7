"""How the end of a run fits its time: what it takes, by what the search took, and what is cut short."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass

from tensmith.evaluate.latency import least_seconds
from tensmith.evaluate.memory import PROCESSES
from tensmith.evaluate.pace import BUILD, CHECK, SAMPLE, START, Pace
from tensmith.search.candidate import Candidate
from tensmith.search.front import MOST_BEYOND, MOST_POINTS
from tensmith.search.plan import Plan

# Timing a contender for good: at most so long, and at most this share of the time budget.
_SECONDS_A_CONTENDER, _TIMING_SHARE = 3.0, 0.005
# The end takes at most this share of the time budget, or the least that it can take.
_MOST_SHARE = 1 / 3
# Held-out samples that are judged in any case; more, up to what says something of a point or two of accuracy,
# where judging these takes no larger share of the time budget.
_FEWEST_SAMPLES, _TELLING_SAMPLES, _JUDGING_SHARE = 100, 500, 0.15
# Of the time that is left for more samples, what is planned with; how many more are worth starting anew for.
_CAUTION, _NOTICEABLE = 0.7, 0.25


@dataclass(frozen=True)
class Schedule:
    """The end of a run of `budget` seconds, which is to be over at `deadline` (of time.monotonic).

    peers: how many models are judged and timed for comparison alone. metered: whether energy is measured.
    `points` are everywhere all that is measured for good, the original among them. All figures are seconds.
    """

    pace: Pace
    budget: float
    deadline: float
    peers: int = 0
    metered: bool = False

    @property
    def left(self) -> float:
        """Until the deadline."""
        return max(0.0, self.deadline - time.monotonic())

    @property
    def a_contender(self) -> float:
        """Timing one contender for good."""
        return min(_SECONDS_A_CONTENDER, _TIMING_SHARE * self.budget)

    def reserve(self, points: Sequence[Candidate], samples: int) -> float:
        """What the search leaves: all of the end, or as much as the end may take at most."""
        share = _MOST_SHARE * self.budget
        return max(min(self._end(points, samples), share), self.least(points))

    def least(self, points: Sequence[Candidate]) -> float:
        """The end at its shortest."""
        return self._end(points, self.fewest, 0.0, 1)

    @property
    def fewest(self) -> int:
        """Held-out samples that are judged in any case: at least as many as take no longer than a start."""
        sample = max(self.pace.usual(SAMPLE), 1e-6)
        affordable = int(_JUDGING_SHARE * self.budget / (MOST_POINTS + MOST_BEYOND) / sample)
        as_a_start = int(self.pace.usual(START) / sample)
        return max(_FEWEST_SAMPLES, as_a_start, min(_TELLING_SAMPLES, affordable))

    def samples(self, points: Sequence[Candidate]) -> int:
        """Held-out samples that can be judged if everything after it takes what it should."""
        left = self.left - self._timing(points, self.a_contender) - self._after_timing(points, PROCESSES)
        return max(self.fewest, self._judged_in(left, points))

    def more(self, points: Sequence[Candidate], judged: int, whole: int) -> int:
        """Held-out samples that can be judged after measuring, beyond those that were: none where these would
        be few beside them."""
        left = _CAUTION * (self.left - self._writing(points))
        more = min(whole - judged, self._judged_in(left, points))
        return more if more >= min(whole - judged, _NOTICEABLE * judged) else 0

    def judged_by(self, points: Sequence[Candidate]) -> float:
        """The time (of time.monotonic) at which judging has to end."""
        return self.deadline - self._timing(points, 0.0) - self._after_timing(points, 1)

    def timed_within(self, points: Sequence[Candidate]) -> float:
        """The seconds that timing all contenders may take, once they are loaded."""
        loading = self.pace.several(START, len(points) + self.peers)
        return max(0.0, self.left - loading - self._after_timing(points, 1))

    def processes(self, points: Sequence[Candidate]) -> int:
        """How many processes memory can be measured in for each point."""
        left = self.left - self._after_timing(points, 0)
        affordable = left / max(self.pace.several(START, len(points)), 1e-9)
        return max(1, min(PROCESSES, int(affordable)))

    def _judged_in(self, seconds: float, points: Sequence[Candidate]) -> int:
        """Samples that all points and peers can be judged on; below 0 where not even a start fits."""
        each = seconds / (len(points) + self.peers)
        return int((each - self.pace.usual(START)) / max(self.pace.usual(SAMPLE), 1e-9))

    def _end(
        self,
        points: Sequence[Candidate],
        samples: int,
        a_contender: float | None = None,
        processes: int = PROCESSES,
    ) -> float:
        a_contender = self.a_contender if a_contender is None else a_contender
        a_model = self.pace.usual(START) + samples * self.pace.usual(SAMPLE)
        judging = (len(points) + self.peers) * a_model
        return judging + self._timing(points, a_contender) + self._after_timing(points, processes)

    def _timing(self, points: Sequence[Candidate], a_contender: float) -> float:
        """The points and the peers, each of these taken for as slow as the slowest point."""
        shortest = [least_seconds(point.latency) for point in points]
        others = self.peers * [max(shortest, default=0.0)]
        timing = sum(max(a_contender, seconds) for seconds in shortest + others)
        return self.pace.several(START, len(points) + self.peers) + timing

    def _after_timing(self, points: Sequence[Candidate], processes: int) -> float:
        """Memory and energy; programs are built again for their certificates, and written."""
        starts = len(points) * (processes + self.metered)
        energy = len(points) * self.a_contender if self.metered else 0.0
        measuring = self.pace.several(START, starts) + energy + self.pace.several(BUILD, len(points))
        return measuring + self._writing(points)

    def _writing(self, points: Sequence[Candidate]) -> float:
        """Exact beginnings of their own are checked."""
        exact = [tuple(s for s in point.plan.steps if s.kind == "exact") for point in points]
        unchecked = {Plan(steps) for steps in exact if steps}
        return self.pace.several(CHECK, len(unchecked))
