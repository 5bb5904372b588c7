"""Where an engine's time goes: the steps of one inference, as the engine itself counts them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Protocol, runtime_checkable

from tensmith.engine.base import ENGINES, Arrays
from tensmith.engine.module_worker import WorkerEnded
from tensmith.engine.worker import serving
from tensmith.errors import EngineError, TensmithError

_LONGEST_SECONDS = 900.0


@dataclass(frozen=True)
class StepTime:
    """What an engine does in one go: the operator or kernel as it calls it, the values of the model that come
    out, as far as it tells, and the mean seconds of an inference spent on it."""

    name: str
    kind: str
    values: tuple[str, ...]
    seconds: float


@runtime_checkable
class Profiled(Protocol):
    """An engine that tells its steps."""

    def profile(
        self, path: Path, threads: int, inputs: Arrays, seconds: float, **settings: str
    ) -> list[StepTime]:
        """The steps of an inference on these inputs, in order, over as many inferences as `seconds` allow;
        `settings` as in `Engine.prepare`."""


def profile(
    engine: str, path: Path, threads: int, inputs: Arrays, seconds: float, **settings: str
) -> list[StepTime]:
    """The steps of `engine` on the model at `path`, in a process of their own; EngineError if it fails.

    An engine that crashes there ends nothing else, and counting slows down nobody who is timed.
    """
    if not isinstance(ENGINES[engine], Profiled):
        raise EngineError(f"engine '{engine}' does not tell where its time goes")
    request = {"do": "profile", "path": str(path.absolute()), "threads": threads, "seconds": seconds,
               "settings": settings}  # fmt: skip
    try:
        with serving(engine, _LONGEST_SECONDS) as worker:
            answer, _ = worker.ask(request, inputs)
    except TensmithError as error:
        reason = str(error)
        if isinstance(error, WorkerEnded):
            died = error.last or f"it died ({error.ending})"
            reason = f"it took over {_LONGEST_SECONDS:g} s" if error.expired else died
        raise EngineError(f"{engine} cannot be profiled on {path}: {reason}") from error
    return [StepTime(**row | {"values": tuple(row["values"])}) for row in answer["steps"]]


def mean_steps(runs: Sequence[Iterable[StepTime]]) -> list[StepTime]:
    """The mean over inferences, by name and kind, in the order in which they come."""
    seconds: dict[StepTime, float] = {}
    for steps in runs:
        for step in steps:
            key = replace(step, seconds=0.0)
            seconds[key] = seconds.get(key, 0.0) + step.seconds
    return [replace(key, seconds=total / len(runs)) for key, total in seconds.items()]
