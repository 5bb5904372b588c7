"""What a file answers: in a process of its own, or in those of workers, on any samples, for a task."""

from __future__ import annotations

import time
from dataclasses import dataclass, field

from tensmith.data import Subset
from tensmith.engine.base import Arrays
from tensmith.evaluate.contender import Contender
from tensmith.evaluate.outcome import Outcome
from tensmith.evaluate.pace import SAMPLE, START, Pace
from tensmith.evaluate.sharing import Sharing
from tensmith.evaluate.task import Task


@dataclass(frozen=True)
class Judge:
    """Judges for one task, on `judging_threads` where the engine lets it.

    example, threads: what native code is compiled for. sharing: with whom it is shared, if with anybody.
    """

    task: Task
    example: Arrays
    threads: int
    judging_threads: int
    sharing: Sharing | None = None
    pace: Pace = field(default_factory=Pace)

    def outcome(self, contender: Contender, view: Subset, original: Outcome | None = None) -> Outcome:
        """What a contender answers; `original` is that of the original. EngineError if it cannot run."""
        # That is no part of a start, which later ones will take as well.
        contender.compiled(self.example, self.threads)
        if self.sharing is not None:
            began, sizes_and_threads = time.monotonic(), contender.judging(self.example, self.threads, 1)
            if found := self.sharing.answers(contender, view, *sizes_and_threads):
                answers, loading = found
                self.pace.note(START, loading)
                self.pace.note(SAMPLE, (time.monotonic() - began) / len(view))
                return self.task.judged(answers, original)
        with self.pace.timed(START):
            worker = contender.to_judge(self.example, self.threads, self.judging_threads)
        with worker, self.pace.timed(SAMPLE, len(view)):
            return self.task.outcome(worker, view, original)
