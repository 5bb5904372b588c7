"""The final measurement: the front, once, on held-out data, every latency in one interleaved run."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from tensmith.data import Subset
from tensmith.deploy.schedule import Schedule
from tensmith.engine.compiled import stock
from tensmith.errors import EngineError
from tensmith.evaluate import size
from tensmith.evaluate.contender import Contender
from tensmith.evaluate.energy import Counter, contender_energy, program_energy
from tensmith.evaluate.judge import Judge
from tensmith.evaluate.latency import Latency, compare
from tensmith.evaluate.memory import measure_memory
from tensmith.evaluate.outcome import Outcome
from tensmith.report.metric import Metric, exact
from tensmith.search.builder import Builder, Built
from tensmith.search.candidate import Candidate
from tensmith.search.front import front, without_near_ties
from tensmith.search.plan import UNTOUCHED
from tensmith.search.run import RunDescription

MOST_POINTS = 8
_MOST_JUDGED = 12
# Why a point was not judged.
LATE, _MANY = "the time was up", "enough other points were"

Progress = Callable[[str], None]


@dataclass(frozen=True)
class Point:
    """A candidate with its final metrics, what it was built to, and the folder it was compiled to, if any."""

    candidate: Candidate
    built: Built
    compiled: Path | None


@dataclass(frozen=True)
class Finalized:
    """The front, smallest first; `drops` by candidate id, on held-out data.

    lost: candidates of the front on the search split that broke the budget on held-out data, or were not
    judged there. `busy`: as in `latency.Rounds`.
    """

    points: list[Point]
    drops: dict[str, Metric]
    lost: list[Candidate]
    original: dict[str, Metric]
    peers: dict[str, dict[str, Metric]]
    busy: bool = False


def shortlist(candidates: Sequence[Candidate], most: int = MOST_POINTS) -> list[Candidate]:
    """The front, thinned to `most` points: both ends stay, then those with the best size x latency."""
    points = front(candidates)
    if len(points) <= most:
        return points
    ends = [points[0], points[-1]]
    middle = sorted(points[1:-1], key=_product)[: most - 2]
    return sorted([*ends, *middle], key=lambda c: (c.bytes, c.latency))


def finalists(candidates: Sequence[Candidate]) -> list[Candidate]:
    """All that is measured for good: the original, unless it failed, and the shortlist."""
    original = [c for c in candidates if c.plan == UNTOUCHED and c.status != "failed"]
    return [*original, *(c for c in shortlist(candidates) if c.plan != UNTOUCHED)]


def _product(candidate: Candidate) -> float:
    return candidate.bytes * candidate.latency


def finalize(
    run: RunDescription,
    builder: Builder,
    judge: Judge,
    candidates: Sequence[Candidate],
    held_out: Subset,
    progress: Progress,
    schedule: Schedule,
    counter: Counter | None = None,
) -> Finalized:
    """Measures the front's points, the original and each engine's plain int8 for good.

    A point that breaks the drop budget on held-out data leaves the front, and what it had hidden may take its
    place: held-out data is a gate here and never a guide, and few points ever stand before it. Budgets of
    memory and energy are gates too, met here alone. The original stays where no point holds every budget.
    Energy is measured with `counter`, if there is one, else estimated for the target. What is repeated for
    certainty alone (rounds, processes, replacements) is repeated as the schedule allows.
    """
    untouched = next(c for c in candidates if c.plan == UNTOUCHED)
    progress("accuracy of the original on held-out data")
    hearing = Hearing(judge, held_out, run.baseline)
    until = schedule.judged_by(finalists(candidates))
    drops, kept, lost = _through_the_gate(
        builder, hearing, candidates, run.objective.max_drop, progress, until
    )
    peers = _judged_peers(run, builder, hearing, candidates, progress, until)
    standing = {_contender(builder, c): c for c in [untouched, *kept]}
    timed = _timed(run, standing, peers, progress, schedule)
    progress("memory and energy of all points")
    processes = schedule.processes(list(standing.values()))
    measured: list[Point] = []
    for contender, candidate in standing.items():
        built, compiled = builder.built(candidate.plan), contender.compiled(run.example, run.threads)
        energy = (
            program_energy(built.program, run.target, run.sizes)
            if counter is None
            else contender_energy(counter, contender, run.example, run.threads, schedule.a_contender)
        )
        metrics = {
            "accuracy": hearing.outcome(contender).metric(),
            **{name: candidate.metrics[name] for name in ("file_bytes", "packed_bytes", "weight_bytes")},
            "peak_bytes": measure_memory(contender, run.example, run.threads, processes).running,
            "latency_ms": timed[contender].latency,
            "speedup": timed[contender].ratio,
            "size_ratio": _size_ratio(untouched, candidate),
            "energy_mj": energy,
            **({"native_bytes": size.native_bytes(contender.engine, compiled)} if compiled else {}),
        }
        measured.append(Point(replace(candidate, metrics=metrics), built, compiled))
    over = {p.candidate.id: run.objective.over_budget(p.candidate.metrics, None) for p in measured}
    lost += [
        replace(p.candidate, status="rejected", reason=reason)
        for p in measured
        if (reason := over[p.candidate.id])
    ]
    best = without_near_ties(front(p.candidate for p in measured if not over[p.candidate.id]))
    points = {p.candidate.id: p for p in measured}
    peer_metrics = {
        peer.name: {
            **peer.candidate.metrics,
            "accuracy": hearing.outcome(peer.contender).metric(),
            "size_ratio": _size_ratio(untouched, peer.candidate),
            "latency_ms": timed[peer.contender].latency,
            "speedup": timed[peer.contender].ratio,
        }
        for peer in peers
    }
    return Finalized(
        [points[candidate.id] for candidate in best] or measured[:1],
        {**drops, untouched.id: hearing.drop(run.baseline)},
        lost,
        _as_delivered(measured[0].candidate.metrics),
        peer_metrics,
        any(latency.busy for latency in timed.values()),
    )


@dataclass
class Hearing:
    """Held-out data, and what was answered on it: each contender is judged once, the original before all."""

    judge: Judge
    view: Subset
    baseline: Contender
    heard: dict[Contender, Outcome] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.outcome(self.baseline)

    def outcome(self, contender: Contender) -> Outcome:
        """What a contender answers. EngineError if it cannot run."""
        if contender not in self.heard:
            original = self.heard.get(self.baseline)
            self.heard[contender] = self.judge.outcome(contender, self.view, original)
        return self.heard[contender]

    def drop(self, contender: Contender) -> Metric:
        """What a contender loses against the original."""
        return self.outcome(contender).drop(self.heard[self.baseline])


def _through_the_gate(
    builder: Builder,
    hearing: Hearing,
    candidates: Sequence[Candidate],
    max_drop: float,
    progress: Progress,
    until: float,
) -> tuple[dict[str, Metric], list[Candidate], list[Candidate]]:
    """(drops by id, points within the budget, other points), judging as few points as possible.

    The best products of size and latency come first. After `until` (time.monotonic) no further point is
    judged, unless none is within the budget yet.
    """
    drops: dict[str, Metric] = {}
    kept: list[Candidate] = []
    lost: list[Candidate] = []

    def standing() -> list[Candidate]:
        gone = {candidate.id for candidate in lost}
        return [candidate for candidate in candidates if candidate.id not in gone]

    def unjudged(points: Sequence[Candidate]) -> list[Candidate]:
        return [point for point in points if point.plan != UNTOUCHED and point.id not in drops]

    def late() -> bool:
        return bool(kept) and time.monotonic() > until

    while len(drops) < _MOST_JUDGED and not late():
        waiting = sorted(unjudged(shortlist(standing())), key=_product)
        if not waiting:
            break
        for candidate in waiting[: _MOST_JUDGED - len(drops)]:
            if late():
                break
            progress(f"accuracy of {candidate.id} on held-out data")
            drop = hearing.drop(_contender(builder, candidate))
            drops[candidate.id] = drop
            if drop.value <= max_drop:
                kept.append(candidate)
            else:
                reason = f"loses {drop.value:.2f} {drop.unit} on held-out data"
                lost.append(replace(candidate, status="rejected", reason=reason))
    why = LATE if late() else _MANY
    lost += [replace(point, status="not judged", reason=why) for point in unjudged(front(standing()))]
    return drops, kept, lost


def _contender(builder: Builder, candidate: Candidate) -> Contender:
    return Contender(candidate.engine, builder.file(candidate.plan), candidate.plan.engine_settings)


def _size_ratio(untouched: Candidate, candidate: Candidate) -> Metric:
    return exact(untouched.metrics["file_bytes"].value / candidate.bytes, "x")


def _as_delivered(metrics: Mapping[str, Metric]) -> dict[str, Metric]:
    """The original's own figures: it ships as the file it came as, not packed."""
    return {**metrics, "packed_bytes": metrics["file_bytes"], "size_ratio": exact(1.0, "x")}


@dataclass(frozen=True)
class _Peer:
    """A model measured for comparison alone: a candidate's file in one engine."""

    name: str
    candidate: Candidate
    contender: Contender


def _judged_peers(
    run: RunDescription,
    builder: Builder,
    hearing: Hearing,
    candidates: Sequence[Candidate],
    progress: Progress,
    until: float,
) -> list[_Peer]:
    """Plain int8 on each stock engine, as far as it was judged before the time was up and did not fail."""
    peers: list[_Peer] = []
    candidate = next(filter(_is_plain_int8, candidates), None)
    for engine in stock(run.engines) if candidate else ():
        assert candidate is not None
        name = f"int8, min-max ({engine})"
        contender = replace(_contender(builder, candidate), engine=engine)
        if contender not in hearing.heard and time.monotonic() < until:
            progress(f"accuracy of {name} on held-out data")
            with contextlib.suppress(EngineError):  # a reference must not cost the run
                hearing.outcome(contender)
        if contender in hearing.heard:
            peers.append(_Peer(name, candidate, contender))
    return peers


def _is_plain_int8(candidate: Candidate) -> bool:
    """Whether it is int8 with min-max calibration and nothing else, and was measured."""
    if len(candidate.plan.steps) != 1 or "latency_ms" not in candidate.metrics:
        return False
    (step,) = candidate.plan.steps
    return step.rule == "int8" and step.params.get("calibration") == "minmax" and "bits" not in step.params


def _timed(
    run: RunDescription,
    standing: Mapping[Contender, Candidate],
    peers: list[_Peer],
    progress: Progress,
    schedule: Schedule,
) -> dict[Contender, Latency]:
    """Latency and speed-up of each point and peer, in one run that takes turns; the baseline leads."""
    progress("latency of all points, taking turns")
    contenders = list(dict.fromkeys((run.baseline, *standing, *(peer.contender for peer in peers))))
    limit = schedule.timed_within(list(standing.values()))
    seconds = min(schedule.a_contender * len(contenders), limit)
    try:
        results = compare(contenders, run.example, run.threads, seconds, run.seed, limit)
    except EngineError:
        if not peers:
            raise
        peers.clear()  # a reference that one engine cannot run must not cost the run
        return _timed(run, standing, peers, progress, schedule)
    return {latency.contender: latency for latency in results}
