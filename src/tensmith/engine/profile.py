"""Where an engine's time goes: the steps of one inference, as the engine itself counts them.

`python -m tensmith.engine.profile` is the process that a profile is taken in: an engine that crashes ends
nothing else, and counting slows down nobody who is timed.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Protocol, runtime_checkable

import numpy as np

from tensmith.children import run
from tensmith.engine.base import ENGINES, Arrays, first_line
from tensmith.errors import EngineError, TensmithError
from tensmith.files import TemporaryFolder

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

    def profile(self, path: Path, threads: int, inputs: Arrays, seconds: float) -> list[StepTime]:
        """The steps of an inference on these inputs, in order, over as many inferences as `seconds` allow."""


def profile(engine: str, path: Path, threads: int, inputs: Arrays, seconds: float) -> list[StepTime]:
    """The steps of `engine` on the model at `path`, in a process of their own; EngineError if it fails."""
    if not isinstance(ENGINES[engine], Profiled):
        raise EngineError(f"engine '{engine}' does not tell where its time goes")
    with TemporaryFolder() as folder:
        arrays = Path(folder) / "inputs.npz"
        np.savez(arrays, allow_pickle=False, **inputs)
        words = (engine, str(path), str(threads), str(seconds), str(arrays))
        try:
            done = run([sys.executable, "-m", __name__, *words], _LONGEST_SECONDS)
        except subprocess.TimeoutExpired as error:
            raise EngineError(f"{engine} took over {_LONGEST_SECONDS:g} s with {path}") from error
    if done.code != 0:
        reason = first_line(RuntimeError(done.stderr)) if done.stderr else f"it {done.ending}"
        raise EngineError(f"{engine} cannot be profiled on {path}: {reason}")
    return [StepTime(**row | {"values": tuple(row["values"])}) for row in json.loads(done.stdout)]


def mean_steps(runs: Sequence[Iterable[StepTime]]) -> list[StepTime]:
    """The mean over inferences, by name and kind, in the order in which they come."""
    seconds: dict[StepTime, float] = {}
    for steps in runs:
        for step in steps:
            key = replace(step, seconds=0.0)
            seconds[key] = seconds.get(key, 0.0) + step.seconds
    return [replace(key, seconds=total / len(runs)) for key, total in seconds.items()]


def main(engine: str, path: str, threads: str, seconds: str, arrays: str) -> int:
    """The process: rows of JSON, or one sentence on standard error."""
    chosen = ENGINES[engine]
    assert isinstance(chosen, Profiled)
    inputs: Mapping[str, np.ndarray] = dict(np.load(arrays, allow_pickle=False))
    try:
        steps = chosen.profile(Path(path), int(threads), inputs, float(seconds))
    except TensmithError as error:
        print(error, file=sys.stderr)
        return 1
    print(json.dumps([asdict(step) for step in steps]))
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
