"""What a resumed run takes over: everything, unless an engine has changed since.

Another version of an engine has other latencies, and may run what failed. Accuracies on the search split are
kept: they only guide the search, and the front is judged again in the end.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from tensmith.engine.base import ENGINES
from tensmith.errors import TensmithError
from tensmith.search.candidate import Candidate, Status
from tensmith.search.checkpoint import Checkpoint
from tensmith.search.workshop import BASELINE_ENGINE, Workshop

# How the workshop names the facts in which it keeps what it timed.
_LATENCIES = "latency/"
_TIMED = ("latency_ms", "speedup")


def engine_versions(names: Iterable[str]) -> dict[str, str]:
    """Versions of the engines of a run, the baseline's among them."""
    return {name: ENGINES[name].version() for name in sorted({*names, BASELINE_ENGINE})}


def forget_other_engines(checkpoint: Checkpoint, versions: dict[str, str]) -> str | None:
    """Forgets what other versions of engines took or failed at, and says so in a sentence; None if nothing.

    Stopped half-way it does the same again next time: the versions are noted last.
    """
    before = checkpoint.fact("engines") or {}
    candidates = list(checkpoint.candidates()) if before != versions else []
    for candidate in candidates:
        if candidate.status == "failed":
            checkpoint.remove(candidate)
        else:
            kept = {name: metric for name, metric in candidate.metrics.items() if name not in _TIMED}
            checkpoint.add(replace(candidate, metrics=kept))
    if before != versions:
        checkpoint.forget(_LATENCIES)
    checkpoint.note("engines", versions)
    if not candidates:
        return None
    changed = ", ".join(
        f"{name} was {before.get(name, 'unknown')} and is {versions.get(name, 'gone')}"
        for name in sorted({*before, *versions})
        if before.get(name) != versions.get(name)
    )
    return (
        f"engines have changed since the run began ({changed}): latencies were measured again, "
        "and failed candidates tried again"
    )


def known_candidate(workshop: Workshop, stored: Candidate) -> Candidate:
    """A candidate of the checkpoint, with the latency measured again if that was forgotten."""
    if "accuracy" not in stored.metrics or "latency_ms" in stored.metrics:
        return stored
    try:
        path = workshop.rebuild(stored)
        program = workshop.build(stored.plan).program
        engine, latency, speedup = workshop.timing(stored.plan, program, path)
    except TensmithError:
        return workshop.try_plan(stored.plan)  # which says why it fails
    if engine != stored.engine:
        return workshop.try_plan(stored.plan)  # its accuracy is that of another engine
    metrics = {**stored.metrics, "latency_ms": latency, "speedup": speedup}
    reason = workshop.objective.over_budget(metrics, stored.drop)
    status: Status = "rejected" if reason else "accepted"
    again = replace(stored, metrics=metrics, status=status, reason=reason or "")
    workshop.checkpoint.add(again)
    return again
