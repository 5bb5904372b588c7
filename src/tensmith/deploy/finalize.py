"""The final measurement: the front, once, on held-out data, every latency in one interleaved run."""

from __future__ import annotations

import math
import shutil
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from tensmith import cache
from tensmith.data import Subset
from tensmith.deploy.schedule import Schedule
from tensmith.engine.base import stock
from tensmith.errors import TensmithError, is_of_disk, spared
from tensmith.evaluate import size
from tensmith.evaluate.contender import Contender
from tensmith.evaluate.judge import Judge
from tensmith.evaluate.latency import Latency, compare
from tensmith.evaluate.outcome import Answers, Outcome, Score, joined
from tensmith.progress import Progress
from tensmith.report.metric import Metric, exact
from tensmith.search.builder import Builder, Built
from tensmith.search.candidate import SHOWN, Candidate
from tensmith.search.front import front, shortlist
from tensmith.search.objective import Objective
from tensmith.search.plan import UNTOUCHED
from tensmith.search.run import RunDescription

_MOST_JUDGED = 16
# The fewest bits of weights that are an engine's own int8: products of more saturate on some CPUs.
_PLAIN_BITS = 7
# Why a point is none after all.
_ELSEWHERE = "a worker built another file than this machine does"
# Why a point was not judged.
LATE, _MANY = "the time was up", "enough other points were"
# Why a point of the front is not shown.
CROWDED = "it is of the front, of which enough other points are shown"


@dataclass(frozen=True)
class Point:
    """A candidate with its final metrics, what it was built to, and the folder it was compiled to, if any."""

    candidate: Candidate
    built: Built
    compiled: Path | None


@dataclass(frozen=True)
class Finalized:
    """The front, smallest first; the status of its points says which hold every budget.

    lost: candidates of the front on the search split that others beat on held-out data, that lost too much
    there, did not run to the end, were not judged, or are CROWDED. held_out: how many samples they were
    judged on. `busy`: as in `latency.Rounds`.
    """

    points: list[Point]
    lost: list[Candidate]
    original: dict[str, Metric]
    peers: dict[str, dict[str, Metric]]
    held_out: int = 0
    busy: bool = False


def finalists(candidates: Sequence[Candidate]) -> list[Candidate]:
    """All that is measured for good: the original, unless it failed, and the shortlist."""
    original = [c for c in candidates if c.plan == UNTOUCHED and c.status != "failed"]
    return [*original, *(c for c in shortlist(candidates, judged=False) if c.plan != UNTOUCHED)]


def finalize(
    run: RunDescription,
    builder: Builder,
    judge: Judge,
    candidates: Sequence[Candidate],
    samples: int,
    progress: Progress,
    schedule: Schedule,
) -> Finalized:
    """Measures the front's points, the original and each engine's plain int8 for good.

    A point that breaks the drop budget on held-out data is beyond it from then on, or leaves where it loses
    more than is looked at, and what it had hidden may take its place: held-out data is a gate here and never
    a guide, and few points ever stand before it. Those that surely hold the budget come first; of those that
    may, it says which do. No point comes back within the budget there. The original stays where no point
    holds every budget. What is repeated for certainty alone (rounds, processes, replacements) is repeated as
    the schedule allows.

    samples: of the held-out split, to begin with; what time is left after measuring goes into more of them.
    """
    untouched = replace(next(c for c in candidates if c.plan == UNTOUCHED), status="accepted", reason="")
    progress("accuracy of the original on held-out data")
    hearing = Hearing(judge, run.splits.held_out, samples, run.baseline)

    def until(points: Sequence[Candidate]) -> float:
        return schedule.judged_by([untouched, *points])

    kept, lost = _through_the_gate(builder, hearing, candidates, run.objective, progress, until)
    peers = _judged_peers(run, builder, hearing, candidates, progress, until(kept))
    standing = _settled(run, builder, [untouched, *kept], lost)
    timed, refused = _timed(run, standing, peers, progress, schedule)
    progress("memory and energy of all points")
    processes = schedule.processes(list(standing.values()))
    taken: dict[Contender, tuple[Built, dict[str, Metric]]] = {}
    for contender, candidate in standing.items():
        if contender in refused:
            lost.append(_fallen(candidate, refused[contender]))
            continue
        try:
            built = builder.built(candidate.plan)
            sizes = built.sizes()
            figures = run.taken(contender, built.program, processes, schedule.a_contender)
        except TensmithError as error:
            if candidate.plan == UNTOUCHED or is_of_disk(error):
                raise
            lost.append(_fallen(candidate, str(error)))
            continue
        taken[contender] = built, figures
        # A plan that was built anew may have become another file, with other libraries for instance.
        standing[contender] = replace(candidate, metrics={**candidate.metrics, **sizes})
    left = [standing[contender] for contender in taken]
    if more := schedule.more(left, hearing.samples, len(hearing.whole)):
        progress(f"accuracy of all points on {more} more held-out samples")
        answering = [*taken, *(peer.contender for peer in peers)]
        hearing.more(more, [each for each in answering if each in timed])

    def judged(contender: Contender, candidate: Candidate) -> dict[str, Metric]:
        return {
            "accuracy": hearing.outcome(contender).metric(),
            "accuracy_drop": hearing.drop(contender),
            **_sizes(candidate),
            "latency_ms": timed[contender].latency,
            "speedup": timed[contender].ratio,
            "size_ratio": size_ratio(untouched.metrics, candidate),
        }

    measured: list[Point] = []
    for contender, (built, figures) in taken.items():
        candidate, compiled = standing[contender], contender.folder
        if more and candidate.plan != UNTOUCHED:
            candidate = _gated(candidate, hearing.drop(contender), run.objective)
            if candidate.status == "rejected":
                lost.append(candidate)
                continue
        native = {"native_bytes": size.native_bytes(contender.engine, compiled)} if compiled else {}
        metrics = judged(contender, candidate) | figures | native
        final = replace(candidate, metrics=metrics, drop=metrics["accuracy_drop"])
        measured.append(Point(_weighed(final, run.objective), built, compiled))
    best, others = shown_and_not([p.candidate for p in measured])
    points = [p for p in measured if p.candidate in best]
    lost += others
    if not any(candidate.status == "accepted" for candidate in best):
        points.insert(0, measured[0])
    return Finalized(
        sorted(points, key=lambda p: (p.candidate.bytes, p.candidate.latency)),
        lost,
        _as_delivered(measured[0].candidate.metrics),
        {each.name: judged(each.contender, each.candidate) for each in peers if each.contender in timed},
        hearing.samples,
        any(latency.busy for latency in timed.values()),
    )


def shown_and_not(candidates: Sequence[Candidate]) -> tuple[list[Candidate], list[Candidate]]:
    """The shortlist of measured candidates, and the others; those of the front say that it is CROWDED.

    What is beyond the budget says what it loses.
    """
    best = shortlist(candidates)
    crowded = [each for each in front(candidates) if each.status != "beyond"]
    others = (each for each in candidates if each not in best)
    return best, [replace(each, reason=CROWDED) if each in crowded else each for each in others]


def _settled(
    run: RunDescription, builder: Builder, candidates: Iterable[Candidate], lost: list[Candidate]
) -> dict[Contender, Candidate]:
    """Candidates by what is measured and shipped of them; those that cannot be compiled are lost."""
    found: dict[Contender, Candidate] = {}
    for candidate in candidates:
        contender = _contender(builder, candidate)
        try:
            compiled = contender.compiled(run.example, run.threads)
            found[replace(contender, folder=_kept(compiled, run.folder / candidate.id))] = candidate
        except TensmithError as error:
            if candidate.plan == UNTOUCHED or is_of_disk(error):
                raise
            lost.append(_fallen(candidate, str(error)))
    return found


def _kept(compiled: Path | None, place: Path) -> Path | None:
    """What was compiled, where it stays as it is: others make room in the user's cache, empty it, or time
    kernels, after which it would be compiled anew.
    """
    if compiled is None:
        return None
    place.mkdir()
    for file in cache.files_of(compiled):
        try:
            (place / file.name).hardlink_to(file)
        except OSError:  # on another file system, or one without links
            shutil.copy2(file, place / file.name)
    return place


@dataclass
class Hearing:
    """Held-out data, so many samples of it, and what was answered on these, by the original before all."""

    judge: Judge
    whole: Subset
    samples: int
    baseline: Contender
    heard: dict[Contender, Answers] = field(default_factory=dict)
    _outcomes: dict[Contender, Outcome] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.outcome(self.baseline)

    def outcome(self, contender: Contender) -> Outcome:
        """What a contender answers. EngineError if it cannot run."""
        if contender not in self.heard:
            self.heard[contender] = self.judge.answers(contender, self.whole.take(self.samples))
        if contender not in self._outcomes:
            original = self._outcomes.get(self.baseline)
            self._outcomes[contender] = self.judge.task.judged(self.heard[contender], original)
        return self._outcomes[contender]

    def drop(self, contender: Contender) -> Metric:
        """What a contender loses against the original; the original against itself nothing, for sure."""
        drop = self.outcome(contender).drop(self.outcome(self.baseline))
        return exact(0.0, drop.unit) if contender == self.baseline else drop

    def more(self, samples: int, contenders: Iterable[Contender]) -> None:
        """So many more samples for some contenders and the original; none where one cannot answer them."""
        if isinstance(self.heard[self.baseline], Score):  # it is of all samples at once
            return
        indices = self.whole.indices[self.samples : self.samples + samples]
        rest = replace(self.whole, indices=indices)
        found: dict[Contender, Answers] = {}
        with spared():
            found = {
                each: joined([self.heard[each], self.judge.answers(each, rest)])
                for each in dict.fromkeys((self.baseline, *contenders))
            }
        if found:
            self.samples, self.heard, self._outcomes = self.samples + len(indices), found, {}
            self.outcome(self.baseline)


def _through_the_gate(
    builder: Builder,
    hearing: Hearing,
    candidates: Sequence[Candidate],
    objective: Objective,
    progress: Progress,
    until: Callable[[Sequence[Candidate]], float],
) -> tuple[list[Candidate], list[Candidate]]:
    """(points that stay, points that leave), judging as few as possible.

    Those surely within the budget come first, then those that may be, then what is exact, the best products
    of size and latency before others; but when points fell and none of the lossy ones stands yet, the safest
    is next. `until` (of time.monotonic) says when judging ends so that all of some points can be measured;
    one more after that is judged only where none is within the budget yet.
    """
    judged: dict[str, Candidate] = {}

    def standing() -> list[Candidate]:
        return [judged.get(candidate.id, candidate) for candidate in candidates]

    def unjudged(points: Sequence[Candidate]) -> list[Candidate]:
        return [point for point in points if point.plan != UNTOUCHED and point.id not in judged]

    def late(one_more: Candidate) -> bool:
        staying = [point for point in judged.values() if point.status != "rejected"]
        found = any(point.status == "accepted" for point in staying)
        return found and time.monotonic() > until([*staying, one_more])

    def empty_handed() -> bool:
        lossy = [point.status for point in judged.values() if not point.plan.is_exact]
        return bool(lossy) and "accepted" not in lossy

    why = _MANY
    while len(judged) < _MOST_JUDGED and (waiting := unjudged(shortlist(standing(), judged=False))):
        candidate = min(waiting, key=_safety if empty_handed() else _turn)
        if late(candidate):
            why = LATE
            break
        progress(f"accuracy of {candidate.id} on held-out data")
        try:
            if not builder.confirmed(candidate.plan):
                judged[candidate.id] = replace(candidate, status="rejected", reason=_ELSEWHERE)
                continue
            judged[candidate.id] = _gated(candidate, hearing.drop(_contender(builder, candidate)), objective)
        except TensmithError as error:
            if is_of_disk(error):
                raise
            judged[candidate.id] = _fallen(candidate, str(error))
    lost = [point for point in judged.values() if point.status == "rejected"]
    lost += [replace(point, status="not judged", reason=why) for point in unjudged(front(standing()))]
    return [point for point in judged.values() if point.status != "rejected"], lost


def _turn(candidate: Candidate) -> tuple[bool, bool, int, float]:
    """Whose turn it is: the exact needs the gate least, and what is beyond the budget only its figures."""
    beyond, proved = candidate.status == "beyond", candidate.plan.is_exact
    return beyond, proved, SHOWN.index(candidate.status), candidate.bytes * candidate.latency


def _safety(candidate: Candidate) -> tuple[bool, bool, float]:
    """The turn of what is least likely to lose much."""
    most = math.inf if candidate.at_most is None else candidate.at_most
    return candidate.status == "beyond", candidate.plan.is_exact, most


def _gated(candidate: Candidate, drop: Metric, objective: Objective) -> Candidate:
    """Where a candidate stands by what it loses on held-out data: as before, no longer unsure, or worse."""
    status, reason = objective.standing({}, drop)
    if status == "accepted":
        return replace(candidate, status=status, reason="") if candidate.status == "unsure" else candidate
    return replace(candidate, status=status, reason=f"{reason}, on held-out data")


def _fallen(candidate: Candidate, reason: str) -> Candidate:
    """A candidate that did not run to the end, which costs the run this one point."""
    return replace(candidate, status="rejected", reason=f"{reason}, when measured for good")


def _weighed(candidate: Candidate, objective: Objective) -> Candidate:
    """Where a point stands by its final figures, but for the drop."""
    reason = objective.over_budget(candidate.metrics)
    return replace(candidate, status="rejected", reason=reason) if reason else candidate


def _contender(builder: Builder, candidate: Candidate) -> Contender:
    return Contender(candidate.engine, builder.file(candidate.plan), candidate.plan.engine_settings)


def _sizes(candidate: Candidate) -> dict[str, Metric]:
    return {name: candidate.metrics[name] for name in ("file_bytes", "packed_bytes", "weight_bytes")}


def size_ratio(original: Mapping[str, Metric], candidate: Candidate) -> Metric:
    """The original's file over what a candidate ships."""
    return exact(original["file_bytes"].value / candidate.bytes, "x")


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
        with spared():  # a reference must not cost the run
            contender = replace(_contender(builder, candidate), engine=engine)
            if contender not in hearing.heard and time.monotonic() < until:
                progress(f"accuracy of {name} on held-out data")
                hearing.outcome(contender)
            if contender in hearing.heard:
                peers.append(_Peer(name, candidate, contender))
    return peers


def _is_plain_int8(candidate: Candidate) -> bool:
    """Whether it is int8 of all layers, with min-max calibration and nothing else, and was measured."""
    if len(candidate.plan.steps) != 1 or "latency_ms" not in candidate.metrics:
        return False
    (step,) = candidate.plan.steps
    told = {"default_bits": 8, **step.params}
    plain = told.keys() == {"calibration", "default_bits"} and told["calibration"] == "minmax"
    return step.rule == "int8" and plain and told["default_bits"] >= _PLAIN_BITS


def _timed(
    run: RunDescription,
    standing: Mapping[Contender, Candidate],
    peers: Sequence[_Peer],
    progress: Progress,
    schedule: Schedule,
) -> tuple[dict[Contender, Latency], dict[Contender, str]]:
    """Latency and speed-up of each point and peer, in one run that takes turns, the baseline first; and why
    some have none.
    """
    progress("latency of all points, taking turns")
    contenders = list(dict.fromkeys((run.baseline, *standing, *(peer.contender for peer in peers))))
    limit = schedule.timed_within(list(standing.values()))
    seconds = min(schedule.a_contender * len(contenders), limit)
    refused: dict[Contender, str] = {}
    results = compare(contenders, run.example, run.threads, seconds, limit, refusals=refused)
    if not results:  # nothing but the baseline runs
        results = compare(contenders[:1], run.example, run.threads, seconds, limit)
    return {latency.contender: latency for latency in results}, refused
