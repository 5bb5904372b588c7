"""What a resumed run takes over: everything, unless an engine has changed since, or the processor.

There latencies are others, and what failed may run; this machine's bandwidth is measured anew. Accuracies on
the search split are kept: they only guide the search, and the front is judged again in the end.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from tensmith.engine.base import BASELINE_ENGINE, ENGINES
from tensmith.hardware import Target, detect_cpu
from tensmith.hardware.target import HOST
from tensmith.search.candidate import Candidate
from tensmith.search.checkpoint import Checkpoint
from tensmith.search.race import RACED, RACES

# What each process measures of this machine, or reads of its clock, and the fact that holds it.
_MEASURED = {"bandwidth_gbs", "core_bandwidth_gbs", "frequency_ghz", "peak_gflops"}
_MACHINE = "this machine"


def engine_versions(names: Iterable[str]) -> dict[str, str]:
    """Versions of the engines of a run, the baseline's among them, and the processor that they run on."""
    versions = {name: ENGINES[name].version() for name in sorted({*names, BASELINE_ENGINE})}
    cpu = detect_cpu()
    processor = f"{cpu.model} ({cpu.cores} cores, {' '.join(sorted(cpu.features))})"
    return {**versions, "processor": processor}


def with_earlier(tried: Sequence[Candidate], checkpoint: Checkpoint) -> list[Candidate]:
    """What this start tried, and after it what an earlier one measured and this one did not come to."""
    known, measured = {candidate.plan.key for candidate in tried}, RACED | {"accuracy"}
    earlier = (each for each in checkpoint.candidates() if each.plan.key not in known)
    return [*tried, *(each for each in earlier if each.metrics.keys() >= measured)]


def as_first_measured(target: Target, checkpoint: Checkpoint) -> Target:
    """This machine as the run's first start measured it, so that a search estimates as it did, and walks the
    same way; any other target as it is."""
    if target.name != HOST:
        return target
    return target.model_copy(update=checkpoint.settled(_MACHINE, target.model_dump(include=_MEASURED)))


def as_measured(target: Target, checkpoint: Checkpoint) -> Target | None:
    """What `as_first_measured` gave a run, for who only reads; None where that is not known."""
    if target.name != HOST:
        return target
    known = checkpoint.fact(_MACHINE)
    if known is None:
        return None
    try:
        return Target.model_validate({**target.model_dump(), **{name: known[name] for name in _MEASURED}})
    except (LookupError, TypeError, ValueError) as error:
        raise checkpoint.damaged(error) from error


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
            kept = {name: metric for name, metric in candidate.metrics.items() if name not in RACED}
            checkpoint.add(replace(candidate, metrics=kept))
    if before != versions:
        checkpoint.forget(RACES)
        checkpoint.forget(_MACHINE)
    checkpoint.note("engines", versions)
    if not candidates:
        return None
    changed = ", ".join(
        f"{name} was {before.get(name, 'unknown')} and is {versions.get(name, 'gone')}"
        for name in sorted({*before, *versions})
        if before.get(name) != versions.get(name)
    )
    return (
        f"this is not what the run began with ({changed}): latencies were measured again, "
        "and failed candidates tried again"
    )
