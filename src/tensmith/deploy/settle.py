"""The final measurement: the front, once, on held-out data, every latency in one interleaved run."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from tensmith.backend.mixed import folder as mixed
from tensmith.backend.native.emit import loader
from tensmith.data import View
from tensmith.deploy.schedule import Schedule
from tensmith.engine.compiled import COMPILING, MIXED, NATIVE
from tensmith.errors import EngineError
from tensmith.evaluate import size
from tensmith.evaluate.energy import Counter, contender_energy, program_energy
from tensmith.evaluate.latency import Contender, Latency, compare
from tensmith.evaluate.memory import measure_memory
from tensmith.evaluate.metric import Metric, exact
from tensmith.evaluate.outcome import Outcome
from tensmith.hardware import Target
from tensmith.search.candidate import Candidate
from tensmith.search.front import front, without_near_ties
from tensmith.search.workshop import BASELINE_ENGINE, UNTOUCHED, Workshop, engine_settings

MOST_POINTS = 8
_MOST_JUDGED = 12
# Why a point was not judged.
LATE, _MANY = "the time was up", "enough other points were"


@dataclass(frozen=True)
class Settled:
    """The front with its final metrics, smallest first; `drops` by candidate id, on held-out data.

    lost: candidates of the front on the search split that broke the budget on held-out data, or were not
    judged there. `busy`: as in `latency.Rounds`.
    """

    points: list[Candidate]
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


def settle(
    workshop: Workshop,
    candidates: Sequence[Candidate],
    held_out: View,
    target: Target,
    progress: Callable[[str], None],
    schedule: Schedule,
    counter: Counter | None = None,
) -> Settled:
    """Measures the front's points, the original and each engine's plain int8 for good.

    A point that breaks the drop budget on held-out data leaves the front, and what it had hidden may take its
    place: held-out data is a gate here and never a guide, and few points ever stand before it. The original
    always stays. Energy is measured with `counter`, if there is one, else estimated for `target`. What is
    repeated for certainty alone (rounds, processes, replacements) is repeated as the schedule allows.
    """

    def energy(candidate: Candidate) -> Metric:
        if counter is None:
            program = workshop.build(candidate.plan).program
            return program_energy(program, target, sizes_of_example(workshop))
        contender, seconds = contender_of(workshop, candidate), schedule.a_contender
        return contender_energy(counter, contender, workshop.example, workshop.threads, seconds)

    untouched = next(c for c in candidates if c.plan == UNTOUCHED)
    progress("accuracy of the original on held-out data")
    reference = workshop.judge(workshop.model, BASELINE_ENGINE, {}, held_out, None)
    until = schedule.judged_by(finalists(candidates))
    outcomes, kept, lost = _through_the_gate(workshop, candidates, held_out, reference, progress, until)
    known = {contender_of(workshop, c): outcomes[c.id] for c in candidates if c.id in outcomes}
    peers = _judged_peers(workshop, candidates, held_out, reference, known, progress, until)
    timed = _timed(workshop, [untouched, *kept], peers, progress, schedule)
    progress("memory and energy of all points")
    processes = schedule.processes([untouched, *kept])
    measured = [
        replace(c, metrics=_metrics(workshop, c, outcomes.get(c.id, reference), timed, energy(c), processes))
        for c in [untouched, *kept]
    ]
    over = {c.id: workshop.objective.over_budget(c.metrics, None) for c in measured[1:]}
    lost += [replace(c, status="rejected", reason=over[c.id] or "") for c in measured[1:] if over[c.id]]
    points = without_near_ties(front(c for c in measured if not over.get(c.id))) or measured[:1]
    drops = {identifier: outcome.drop(reference) for identifier, outcome in outcomes.items()}
    drops[untouched.id] = reference.drop(reference)
    original = size.file_bytes(workshop.model).value
    peer_metrics = {
        peer.name: {
            **peer.candidate.metrics,
            "accuracy": peer.outcome.metric(),
            "size_ratio": exact(original / peer.candidate.bytes, "x"),
            "latency_ms": timed[peer.contender].latency,
            "speedup": timed[peer.contender].ratio,
        }
        for peer in peers
    }
    busy = any(latency.busy for latency in timed.values())
    return Settled(points, drops, lost, _as_delivered(measured[0].metrics), peer_metrics, busy)


def _through_the_gate(
    workshop: Workshop,
    candidates: Sequence[Candidate],
    held_out: View,
    reference: Outcome,
    progress: Callable[[str], None],
    until: float,
) -> tuple[dict[str, Outcome], list[Candidate], list[Candidate]]:
    """(outcomes by id, points within the budget, other points), judging as few points as possible.

    The best products of size and latency come first. After `until` (time.monotonic) no further point is
    judged, unless none is within the budget yet.
    """
    outcomes: dict[str, Outcome] = {}
    kept: list[Candidate] = []
    lost: list[Candidate] = []

    def standing() -> list[Candidate]:
        gone = {candidate.id for candidate in lost}
        return [candidate for candidate in candidates if candidate.id not in gone]

    def unjudged(points: Sequence[Candidate]) -> list[Candidate]:
        return [point for point in points if point.plan != UNTOUCHED and point.id not in outcomes]

    def late() -> bool:
        return bool(kept) and time.monotonic() > until

    while len(outcomes) < _MOST_JUDGED and not late():
        waiting = sorted(unjudged(shortlist(standing())), key=_product)
        if not waiting:
            break
        for candidate in waiting[: _MOST_JUDGED - len(outcomes)]:
            if late():
                break
            progress(f"accuracy of {candidate.id} on held-out data")
            path, settings = workshop.rebuild(candidate), candidate.plan.settings
            outcome = workshop.judge(path, candidate.engine, settings, held_out, reference)
            outcomes[candidate.id] = outcome
            drop = outcome.drop(reference)
            if drop.value <= workshop.objective.max_drop:
                kept.append(candidate)
            else:
                reason = f"loses {drop.value:.2f} {drop.unit} on held-out data"
                lost.append(replace(candidate, status="rejected", reason=reason))
    why = LATE if late() else _MANY
    lost += [replace(point, status="not judged", reason=why) for point in unjudged(front(standing()))]
    return outcomes, kept, lost


def _as_delivered(metrics: Mapping[str, Metric]) -> dict[str, Metric]:
    """The original's own figures: it ships as the file it came as, not packed."""
    return {**metrics, "packed_bytes": metrics["file_bytes"], "size_ratio": exact(1.0, "x")}


@dataclass(frozen=True)
class _Peer:
    """A model measured for comparison alone: a candidate's file in one engine."""

    name: str
    candidate: Candidate
    contender: Contender
    outcome: Outcome


def _judged_peers(
    workshop: Workshop,
    candidates: Sequence[Candidate],
    held_out: View,
    reference: Outcome,
    known: Mapping[Contender, Outcome],
    progress: Callable[[str], None],
    until: float,
) -> list[_Peer]:
    """Plain int8 on each stock engine, judged unless it is `known`, or time is up, or the engine fails."""
    peers: list[_Peer] = []
    candidate = next(filter(_is_plain_int8, candidates), None)
    for engine in stock_engines(workshop) if candidate else ():
        assert candidate is not None
        name, contender = f"int8, min-max ({engine})", Contender(engine, workshop.rebuild(candidate))
        outcome = known.get(contender)
        if outcome is None and time.monotonic() < until:
            progress(f"accuracy of {name} on held-out data")
            with contextlib.suppress(EngineError):  # a reference must not cost the run
                outcome = workshop.judge(contender.path, engine, {}, held_out, reference)
        if outcome is not None:
            peers.append(_Peer(name, candidate, contender, outcome))
    return peers


def stock_engines(workshop: Workshop) -> tuple[str, ...]:
    """The engines that are not our own: plain int8 on each is a peer of the front."""
    return tuple(engine for engine in workshop.engines if engine not in COMPILING)


def _is_plain_int8(candidate: Candidate) -> bool:
    """Whether it is int8 with min-max calibration and nothing else, and was measured."""
    if len(candidate.plan.steps) != 1 or "latency_ms" not in candidate.metrics:
        return False
    (step,) = candidate.plan.steps
    return step.rule == "int8" and step.params.get("calibration") == "minmax" and "bits" not in step.params


def _timed(
    workshop: Workshop,
    candidates: Sequence[Candidate],
    peers: list[_Peer],
    progress: Callable[[str], None],
    schedule: Schedule,
) -> dict[Contender, Latency]:
    """Latency and speed-up of each candidate and peer, in one run that takes turns; the baseline leads."""
    progress("latency of all points, taking turns")
    baseline = Contender(BASELINE_ENGINE, workshop.model)
    wanted = [*(contender_of(workshop, c) for c in candidates), *(peer.contender for peer in peers)]
    contenders = list(dict.fromkeys((baseline, *wanted)))
    limit = schedule.timed_within(candidates)
    seconds = min(schedule.a_contender * len(contenders), limit)
    try:
        results = compare(contenders, workshop.example, workshop.threads, seconds, workshop.seed, limit)
    except EngineError:
        if not peers:
            raise
        peers.clear()  # a reference that one engine cannot run must not cost the run
        return _timed(workshop, candidates, peers, progress, schedule)
    return {latency.contender: latency for latency in results}


def contender_of(workshop: Workshop, candidate: Candidate) -> Contender:
    """The file of a candidate in its engine, with the settings it is meant for."""
    settings = tuple(sorted(engine_settings(candidate.plan.settings).items()))
    return Contender(candidate.engine, workshop.rebuild(candidate), settings)


def _metrics(
    workshop: Workshop,
    candidate: Candidate,
    outcome: Outcome,
    timed: Mapping[Contender, Latency],
    energy: Metric,
    processes: int,
) -> dict[str, Metric]:
    contender = contender_of(workshop, candidate)
    memory = measure_memory(contender, workshop.example, workshop.threads, processes)
    original = size.file_bytes(workshop.model).value
    packed = candidate.metrics["packed_bytes"]
    return {
        "accuracy": outcome.metric(),
        "file_bytes": size.file_bytes(contender.path),
        "packed_bytes": packed,
        "weight_bytes": size.weight_bytes(contender.path),
        "peak_bytes": memory.running,
        "latency_ms": timed[contender].latency,
        "speedup": timed[contender].ratio,
        "size_ratio": exact(original / packed.value, "x"),
        "energy_mj": energy,
        **({"native_bytes": _native_bytes(workshop, contender)} if candidate.engine in COMPILING else {}),
    }


def _native_bytes(workshop: Workshop, contender: Contender) -> Metric:
    """What a device needs of a compiled model to run it: library, and weights and manifest or model."""
    needed = {
        NATIVE: (loader.LIBRARY, loader.WEIGHTS, loader.MANIFEST),
        MIXED: (mixed.LIBRARY, mixed.MODEL),
    }
    folder = workshop.compiled(contender)
    return exact(sum((folder / name).stat().st_size for name in needed[contender.engine]), "bytes")


def sizes_of_example(workshop: Workshop) -> dict[str, int]:
    """The sizes that the model's symbols take for the sample that latency is measured on."""
    sizes: dict[str, int] = {}
    for name, type_ in workshop.program.inputs.items():
        for dim, actual in zip(type_.dims, workshop.example[name].shape):
            sizes.update({str(dim): actual} if not isinstance(dim, int) else {})
    return sizes
