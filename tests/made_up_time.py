"""Time that is made up, so that a run is the same on any machine: a latency follows from the file."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tensmith.deploy.schedule import Schedule
from tensmith.engine.compiled import NATIVE
from tensmith.engine.worker import SessionWorker
from tensmith.evaluate import latency
from tensmith.evaluate.contender import Contender


def make_up_time(patch: pytest.MonkeyPatch) -> None:
    """Memory is measured in one process for each point, which is forked and not started as a program."""
    start = Contender.start

    def start_forked(self: Contender, *given: Any, fresh: bool = False, **more: Any) -> SessionWorker:
        return start(self, *given, **more)

    def nanoseconds(timer: Any) -> float:
        worker: SessionWorker = timer.__self__
        return float(worker.path.stat().st_size) * (0.5 if worker.engine == NATIVE else 1.0)

    def take_turns(timers: Any, *_: Any, **__: Any) -> latency.Rounds:
        return latency.Rounds(np.array(8 * [[nanoseconds(timer) for timer in timers]]))

    patch.setattr(latency, "take_turns", take_turns)
    patch.setattr(latency, "watched", lambda timers, _: list(timers.values()))
    patch.setattr(Schedule, "processes", lambda *_: 1)
    patch.setattr(Contender, "start", start_forked)
