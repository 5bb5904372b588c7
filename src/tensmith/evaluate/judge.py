"""What a file answers: in a process of its own, or in those of workers, on any samples, for a task."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from functools import cache

from tensmith.data import Subset
from tensmith.engine.base import Arrays, Session
from tensmith.evaluate.accuracy import MOST_SAMPLES
from tensmith.evaluate.contender import Contender
from tensmith.evaluate.outcome import Answers, Outcome
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

    @property
    def at_once(self) -> int:
        """Samples that are judged in about the time of one: a batch, or one for each worker."""
        return MOST_SAMPLES if self.sharing is None else max(MOST_SAMPLES, self.sharing.at_once)

    def outcome(self, contender: Contender, view: Subset, original: Outcome | None = None) -> Outcome:
        """What a contender answers; `original` is that of the original. EngineError if it cannot run."""
        return self.task.judged(self.answers(contender, view), original)

    def answers(self, contender: Contender, view: Subset) -> Answers:
        """What a contender answers. EngineError if it cannot run."""
        with self.answering(contender) as answers:
            return answers(view)

    @contextmanager
    def answering(self, contender: Contender) -> Iterator[Callable[[Subset], Answers]]:
        """What a contender answers, on one view after the other: it is loaded once.

        EngineError if it cannot run.
        """
        # That is no part of a start, which later ones will take as well.
        contender.compiled(self.example, self.threads)
        seconds, samples = 0.0, 0
        with ExitStack() as stack:

            @cache
            def worker() -> Session:
                with self.pace.timed(START):
                    started = contender.to_judge(self.example, self.threads, self.judging_threads)
                session = stack.enter_context(started)
                return self.task.session(session, contender.engine, contender.path)

            def answers(view: Subset) -> Answers:
                nonlocal seconds, samples
                began = time.monotonic()
                found = self._shared(contender, view)
                if found is None:
                    session, began = worker(), time.monotonic()
                    found = self.task.answers(session, view)
                seconds, samples = seconds + time.monotonic() - began, samples + len(view)
                return found

            if self.sharing is None:
                worker()
            yield answers
        if samples:
            self.pace.note(SAMPLE, seconds / samples)

    def _shared(self, contender: Contender, view: Subset) -> Answers | None:
        """The answers of workers, where there are any and they can."""
        if self.sharing is None:
            return None
        sizes, threads = contender.judging(self.example, self.threads, 1)
        found = self.sharing.answers(contender, view, sizes, threads)
        if found is None:
            return None
        answers, loading = found
        self.pace.note(START, loading)
        return answers
