"""The search for the fastest kernel of each problem: the best guess first, then what near shapes preferred.

What near shapes preferred is known from this machine's timings, those of the same search among them, and from
those of a machine of its kind (kernel.shipped), where the nearest shape may be the problem itself. The others
follow by their estimates, corrected by what all timings of the search teach (tune.learned). Every
result is stored when it is known, so a search can stop at any time and go on later, and several at a time
share their work. Time goes where most of the network's does: the next trial is the problem's whose share,
divided by its trials, is the largest. A problem is settled when several trials in a row have brought nothing;
its best few then take turns. Where a trial failed, which may be the machine's fault, it is settled for this
search alone.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass, field

from tensmith.errors import EngineError
from tensmith.kernel.algorithm import Kernel
from tensmith.kernel.problem import ConvolutionProblem
from tensmith.kernel.shipped import ShippedTable
from tensmith.kernel.timings import Timings
from tensmith.progress import Progress, silent
from tensmith.report.quantity import significant
from tensmith.tune.learned import FEWEST, Correction, learned

# Says what a call of a kernel takes: (kernel, memory of its weights, seconds to measure for) -> seconds.
Measure = Callable[[Kernel, int, float], float]

_GLANCE_SECONDS, _LOOK_SECONDS = 0.06, 0.12
_TURNS, _MOST_FINALISTS = 2, 3
# Trials in a row without a gain that end a search; what counts as a gain; what still is near the best.
_PATIENCE, _GAIN, _NEAR = 8, 0.99, 1.06
# So many failures in a row are the machine's, as of one without memory.
_MOST_FAILURES = 20


@dataclass(frozen=True)
class Budget:
    """Seconds and trials that may be spent; None: any number of trials."""

    seconds: float
    trials: int | None = None

    def at_most(self, trials: int) -> Budget:
        """This budget, but no more than so many trials of it."""
        return Budget(self.seconds, trials if self.trials is None else min(self.trials, trials))

    def rest(self, end: float, trials: int) -> Budget:
        """What is left until `end` (of time.monotonic) when so many trials are spent."""
        left = None if self.trials is None else self.trials - trials
        return Budget(end - time.monotonic(), left)


@dataclass
class TuningTask:
    """One problem of a network, `count` layers of it, and what was found. `kernels`: the best guess first."""

    problem: ConvolutionProblem
    count: int
    kernels: list[Kernel]
    guesses: dict[Kernel, float]
    seconds: dict[Kernel, float] = field(default_factory=dict)
    queue: list[Kernel] = field(default_factory=list)
    trials: int = 0
    stale: int = 0
    settled: bool = False

    @property
    def guess(self) -> Kernel:
        """What is taken untuned."""
        return self.kernels[0]

    @property
    def best(self) -> Kernel:
        """The fastest one timed; the guess while there is none."""
        return min(self.seconds, key=self.seconds.__getitem__, default=self.guess)

    @property
    def share(self) -> float:
        """Seconds that the network spends on it, as far as is known."""
        least = min(self.seconds.values(), default=math.inf)
        return self.count * (least if math.isfinite(least) else self.guesses[self.guess])


@dataclass
class TuningSearch:
    """The tasks of one network, whose weights come from `memory` (backend.native.choose.choosers).

    `table` has the kernels that were best elsewhere, if there is one.
    """

    tasks: list[TuningTask]
    memory: int
    timings: Timings
    measure: Measure
    tell: Progress = silent
    table: ShippedTable | None = None
    trials: int = 0
    failures: list[str] = field(default_factory=list)
    _failed: int = 0
    _correction: Correction | None = None
    _taught: int = 0

    @property
    def timed(self) -> dict[Kernel, float]:
        """Seconds of all kernels of all problems, as far as they are known."""
        return {kernel: seconds for task in self.tasks for kernel, seconds in task.seconds.items()}

    def run(self, budget: Budget, stopped: Callable[[], bool] = lambda: False) -> None:
        """Trials until all is settled, the budget is spent, `stopped` says so, or all of a row fail."""
        deadline = time.monotonic() + budget.seconds
        for task in self.tasks:
            self._begin(task)
        while time.monotonic() < deadline and self._failed < _MOST_FAILURES and not stopped():
            waiting = [task for task in self.tasks if not task.settled]
            if not waiting or (budget.trials is not None and self.trials >= budget.trials):
                return
            task = max(waiting, key=_urgency)
            if task.queue and task.stale < self._patience(task):
                self._try(task, self._next(task), stopped)
            else:
                self._play_off(task, stopped)

    def _begin(self, task: TuningTask) -> None:
        """Takes over what is known already."""
        task.seconds = self.timings.known(task.kernels, self.memory)
        task.queue = [kernel for kernel in task.kernels if kernel not in task.seconds]
        task.settled = not task.queue or self.timings.settled(task.problem, task.kernels, self.memory)

    def _patience(self, task: TuningTask) -> int:
        """Half as much where what the table says of the problem holds here, too."""
        known = self.table.ratios(task.problem, self.memory) if self.table is not None else {}
        return _PATIENCE // 2 if task.best == next(iter(known), None) else _PATIENCE

    def _next(self, task: TuningTask) -> Kernel:
        """Takes from the queue the guess; then what was best at near shapes; then each algorithm's first."""
        hints = [str(task.guess)] if task.guess in task.queue else self._near(task)
        places = {name: place for place, name in enumerate(hints)}
        firsts = {kernel.name: kernel for kernel in reversed(task.kernels)}.values()
        correction = self._learned()
        likely = correction.seconds(task.queue) if correction is not None else {}

        def rank(kernel: Kernel) -> tuple[int, bool, float]:
            place = places.get(str(kernel), len(places))
            return place, not likely and kernel not in firsts, likely.get(kernel, 0.0)

        kernel = min(task.queue, key=rank)
        task.queue.remove(kernel)
        return kernel

    def _learned(self) -> Correction | None:
        """What timings teach: again whenever they have become a quarter more."""
        known = sum(len(task.seconds) for task in self.tasks)
        if known >= max(FEWEST, 1.25 * self._taught):
            self._correction, self._taught = learned(self.timed), known
        return self._correction

    def _near(self, task: TuningTask) -> list[str]:
        """Kernels that were best at the nearest shapes, as far as is known by now."""
        near = self.timings.near(task.problem, task.guess.isa, self.memory)
        if self.table is not None:
            near += self.table.near(task.problem, self.memory)
        near.sort(key=lambda found: found[0])  # of equally near shapes, those timed here come first
        return list(dict.fromkeys(name for _, name in near))

    def _try(self, task: TuningTask, kernel: Kernel, stopped: Callable[[], bool]) -> None:
        before = min(task.seconds.values(), default=math.inf)
        task.trials += 1
        if known := self.timings.known([kernel], self.memory):  # another process has timed it meanwhile
            seconds = task.seconds[kernel] = known[kernel]
        else:
            seconds = self._time(task, kernel, stopped)
        task.stale = 0 if seconds < _GAIN * before else task.stale + 1
        settled = sum(task.settled for task in self.tasks)
        self.tell(
            f"trial {self.trials}, {settled} of {len(self.tasks)} problems settled: "
            f"{significant(1e6 * min(before, seconds))} us for a {task.problem}"
        )

    def _time(self, task: TuningTask, kernel: Kernel, stopped: Callable[[], bool]) -> float:
        """Seconds of a kernel, which are noted; infinity if it fails."""
        self.trials += 1
        try:
            seconds = self.measure(kernel, self.memory, _GLANCE_SECONDS)
        except EngineError as error:
            if not stopped():  # Ctrl-C ends a compiler too: that is not the kernel's fault
                self.failures.append(str(error))
                task.seconds[kernel] = math.inf  # not stored: a busy machine may be the reason
                self._failed += 1
            return math.inf
        self._failed = 0
        self._store(task, kernel, seconds)
        return seconds

    def _play_off(self, task: TuningTask, stopped: Callable[[], bool]) -> None:
        """The best few in turns: what disturbed one of them before shall not decide."""
        limit = _NEAR * min(task.seconds.values(), default=math.inf)
        ranked = sorted(task.seconds, key=task.seconds.__getitem__)
        finalists = [k for k in ranked if task.seconds[k] < limit][:_MOST_FINALISTS]
        for _ in range(_TURNS if len(finalists) > 1 else 0):
            for kernel in finalists:
                if stopped():
                    return
                try:
                    seconds = self.measure(kernel, self.memory, _LOOK_SECONDS)
                except EngineError:  # it ran before: the machine's fault, and the earlier figure stands
                    continue
                self._store(task, kernel, min(seconds, task.seconds[kernel]))
        if all(map(math.isfinite, task.seconds.values())):
            self.timings.settle(task.problem, task.kernels, self.memory)
        task.settled = True

    def _store(self, task: TuningTask, kernel: Kernel, seconds: float) -> None:
        task.seconds[kernel] = seconds
        self.timings.add(kernel, self.memory, seconds)


def _urgency(task: TuningTask) -> tuple[bool, float]:
    """Guesses first, then the largest share of the network's time for the fewest trials."""
    return task.guess not in task.seconds, task.share / (1 + task.trials)
