"""Jobs done by several workers at once, wherever these are.

What comes of a job follows from its description alone, so anybody may do it, and again where a worker was
lost. `Workers.map` comes back when all jobs are done: what is timed after it runs beside none of them.
"""

from __future__ import annotations

import heapq
import threading
from abc import abstractmethod
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tensmith.children import Ending
from tensmith.engine.frame import Answer, Array
from tensmith.engine.module_worker import WorkerEnded
from tensmith.errors import EngineError, TensmithError, first_line

# So often whoever waits for workers listens for Ctrl-C.
_GLANCE_SECONDS = 0.2
# A worker that takes longer for a job counts as lost.
PATIENCE_SECONDS = 1800.0
# A job whose worker died so often is to blame itself.
_ATTEMPTS = 3


class WorkersLost(TensmithError):
    """No worker is left, and work is."""


class WorkerGone(Exception):
    """A worker gave no answer, and never will again."""


@dataclass(frozen=True)
class Job:
    """`runner` is "MODULE:CLASS", an object of which answers it; see serve.Desk.

    request: of JSON. files: what it reads, all in one folder; the runner is told where.
    """

    runner: str
    request: Mapping[str, Any]
    arrays: Mapping[str, Array] = field(default_factory=dict)
    files: tuple[Path, ...] = ()


class Worker(Ending):
    """Does one job at a time."""

    name: str

    @abstractmethod
    def ask(self, job: Job) -> Answer:
        """What a desk answers, or raises.

        WorkerEnded if nothing comes back, and it starts anew when it is asked again; or WorkerGone.
        """

    @abstractmethod
    def kill(self) -> None:
        """Ends what it is doing at once, from another thread."""


class Workers(Ending):
    """Some workers. Use as a context: they end with it."""

    def __init__(self, workers: Iterable[Worker]) -> None:
        self._workers = list(workers)

    def __len__(self) -> int:
        return len(self._workers)

    def end(self) -> None:
        self._each(lambda worker: worker.end())

    def map(self, jobs: Sequence[Job]) -> list[Answer]:
        """What comes of each job, in their order, whoever does them and in whichever order they end.

        A job is done again where its worker is lost. Raises what the first of the jobs that fail raises;
        WorkersLost when nobody is left to do them.
        """
        queue = _Queue(jobs)
        self._each(lambda worker: self._serve(worker, queue), queue.stop)
        return queue.answers()

    def admit(self, job: Job, expected: Mapping[str, Any]) -> list[str]:
        """Keeps the workers that answer a job with what is expected; says of each other one what it lacks."""
        reasons: dict[Worker, str] = {}

        def examine(worker: Worker) -> None:
            try:
                found, _ = worker.ask(job)
            except Exception as error:  # of whatever kind: who has not answered is not admitted
                reasons[worker] = first_line(error)
            else:
                other = [name for name, value in expected.items() if found.get(name) != value]
                if other:
                    reasons[worker] = f"another {' and another '.join(other)} than here"

        self._each(examine)
        left_out = [worker for worker in self._workers if worker in reasons]
        for worker in left_out:
            self._workers.remove(worker)
            worker.end()
        return [f"{worker.name} ({reasons[worker]})" for worker in left_out]

    def _serve(self, worker: Worker, queue: _Queue) -> None:
        while (number := queue.take()) is not None:
            try:
                queue.done(number, worker.ask(queue.jobs[number]))
            except WorkerEnded as error:
                queue.lost(number, error)
            except WorkerGone:
                self._workers.remove(worker)
                queue.give_back(number)
                return
            except BaseException as error:
                queue.failed(number, error)

    def _each(self, work: Callable[[Worker], object], stop: Callable[[], None] = lambda: None) -> None:
        """Calls `work` with each worker at once; who interrupts that stops them all."""
        threads = [threading.Thread(target=work, args=(worker,)) for worker in self._workers]
        try:
            for thread in threads:
                thread.start()
            _wait(threads)
        except BaseException:
            stop()
            _wait(threads, lambda: [worker.kill() for worker in list(self._workers)])
            for worker in self._workers:
                worker.end()  # what was killed between two jobs is not the next one's loss
            raise


def _wait(threads: Sequence[threading.Thread], meanwhile: Callable[[], object] = lambda: None) -> None:
    """Until threads that were started have ended; calls `meanwhile` again and again."""
    for thread in threads:
        while thread.is_alive():  # a library may have made waiting deaf to signals (SA_RESTART)
            meanwhile()
            thread.join(_GLANCE_SECONDS)


class _Queue:
    """Jobs that wait, handed out in order; none after one that failed."""

    def __init__(self, jobs: Sequence[Job]) -> None:
        self.jobs = jobs
        self._waiting = list(range(len(jobs)))
        self._working = 0
        self._losses: Counter[int] = Counter()
        self._answers: dict[int, Answer] = {}
        self._errors: dict[int, BaseException] = {}
        self._changed = threading.Condition()

    def take(self) -> int | None:
        """The number of the next job; None when nothing is left to do."""
        with self._changed:
            self._changed.wait_for(lambda: self._next is not None or not self._working)
            number = self._next
            if number is not None:
                heapq.heappop(self._waiting)
                self._working += 1
            return number

    @property
    def _next(self) -> int | None:
        number = self._waiting[0] if self._waiting else len(self.jobs)
        return number if number < min(self._errors, default=len(self.jobs)) else None

    def done(self, number: int, answer: Answer) -> None:
        """A job was answered."""
        self._answers[number] = answer
        self._returned()

    def failed(self, number: int, error: BaseException) -> None:
        """A job raised an error, which is its answer."""
        self._errors[number] = error
        self._returned()

    def lost(self, number: int, how: WorkerEnded) -> None:
        """The worker of a job was lost: it waits again, unless that happens all the time."""
        self._losses[number] += 1
        if self._losses[number] < _ATTEMPTS:
            self.give_back(number)
        else:
            self.failed(number, EngineError(f"its worker {how}, {_ATTEMPTS} times{how.last_words}"))

    def give_back(self, number: int) -> None:
        """A job was not done, and that was not its fault."""
        with self._changed:
            heapq.heappush(self._waiting, number)
        self._returned()

    def stop(self) -> None:
        """Nothing more is handed out."""
        with self._changed:
            self._errors[-1] = KeyboardInterrupt()
            self._changed.notify_all()

    def _returned(self) -> None:
        with self._changed:
            self._working -= 1
            self._changed.notify_all()

    def answers(self) -> list[Answer]:
        """All of them in order, when nobody works any more; raises the first error."""
        if self._errors:
            raise self._errors[min(self._errors)]
        if len(self._answers) < len(self.jobs):
            raise WorkersLost("all workers are lost")
        return [self._answers[number] for number in range(len(self.jobs))]
