"""What a file answers: each in a process of its own, on any samples, for a task."""

from __future__ import annotations

from dataclasses import dataclass, field

from tensmith.data import Subset
from tensmith.engine.base import Arrays
from tensmith.evaluate.contender import Contender
from tensmith.evaluate.outcome import Outcome
from tensmith.evaluate.pace import SAMPLE, START, Pace
from tensmith.evaluate.task import Task


@dataclass(frozen=True)
class Judge:
    """Judges for one task, on `judging_threads` where the engine lets it.

    example, threads: what native code is compiled for.
    """

    task: Task
    example: Arrays
    threads: int
    judging_threads: int
    pace: Pace = field(default_factory=Pace)

    def outcome(self, contender: Contender, view: Subset, original: Outcome | None = None) -> Outcome:
        """What a contender answers; `original` is that of the original. EngineError if it cannot run."""
        # That is no part of a start, which later ones will take as well.
        contender.compiled(self.example, self.threads)
        with self.pace.timed(START):
            worker = contender.to_judge(self.example, self.threads, self.judging_threads)
        with worker, self.pace.timed(SAMPLE, len(view)):
            return self.task.outcome(worker, view, original)
