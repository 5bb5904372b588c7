"""MetaSchedule for the problems of a network, as one more way to tune them: its kernels beside ours.

Each problem gets the share of the time that the network spends on it. A kernel whose search has ended is
timed like ours and compared with one of them, and kept if it passes; what was kept before is not searched
for again.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass, field

from tensmith.children import Ending
from tensmith.engine.module_worker import ModuleWorker
from tensmith.errors import EngineError
from tensmith.kernel.scheduled import Scheduled, keep, scheduled
from tensmith.progress import Progress
from tensmith.tune.agreement import check_agreement
from tensmith.tune.search import Budget, TuningSearch, TuningTask
from tensmith.tune.timer import Timer
from tensmith.tune.tvm.definition import definition, shapes, target
from tensmith.tune.tvm.packages import check_packages

_PATIENCE_SECONDS = 600.0
_LOOK_SECONDS = 0.12
# Generations in a row without a gain that end a search, and what counts as a gain.
_PATIENCE, _GAIN = 4, 0.99
_GENERATION, _MOST_TRIALS, _SEED = 16, 1 << 20, 1


@dataclass
class MetaSchedule(Ending):
    """Use as a context: it ends its processes. `trials` and `failures` are of this time."""

    trials: int = 0
    failures: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        check_packages()
        self._worker = ModuleWorker(("tensmith.tune.tvm.schedule",), _PATIENCE_SECONDS)
        self._timer = Timer()

    def end(self) -> None:
        """Ends the processes."""
        self._worker.end()
        self._timer.end()

    def run(self, search: TuningSearch, budget: Budget, stopped: Callable[[], bool]) -> None:
        """Searches kernels for the tasks that have none, the largest share of the network's time first."""
        deadline = time.monotonic() + budget.seconds
        able = [t for t in search.tasks if Scheduled.refuses(t.problem, t.guess.isa) is None]
        waiting = [task for task in able if scheduled_seconds(task, search) is None]
        waiting.sort(key=lambda task: task.share, reverse=True)
        for place, task in enumerate(waiting):
            left, rest = deadline - time.monotonic(), sum(other.share for other in waiting[place:])
            trials = _MOST_TRIALS if budget.trials is None else budget.trials - self.trials
            if left <= 0 or trials <= 0 or stopped():
                return
            end = time.monotonic() + left * task.share / rest
            most = max(1, math.floor(trials * task.share / rest))
            try:
                kernel = self._searched(task, end, most, search.tell, stopped)
                seconds = search.measure(kernel, search.memory, _LOOK_SECONDS)
                check_agreement(kernel, self._timer.answer)
                keep(kernel)
                search.timings.add(kernel, search.memory, seconds)
            except EngineError as error:
                self.failures.append(str(error))

    def _searched(
        self, task: TuningTask, end: float, most: int, tell: Progress, stopped: Callable[[], bool]
    ) -> Scheduled:
        """The best kernel of as many generations as there is time for, one at the least."""
        kernel = Scheduled(task.problem, task.guess.isa)
        function = {
            "text": definition(kernel), "target": target(kernel.isa),
            "shapes": list(shapes(kernel).values()), "seed": _SEED,
        }  # fmt: skip
        before, best, stale = self.trials, math.inf, 0
        while True:
            try:
                count = min(_GENERATION, most - (self.trials - before))
                answer, _ = self._worker.ask({"function": function, "count": count})
            except EngineError as error:
                failure = EngineError(f"MetaSchedule {error} searching a {task.problem}")
                if not math.isfinite(best):
                    raise failure from error
                self.failures.append(str(failure))
                break
            self.trials = before + int(answer["trials"])
            stale = 0 if answer["seconds"] < _GAIN * best else stale + 1
            best = min(best, answer["seconds"])
            tell(f"trial {self.trials}: {1e6 * best:.0f} us for a {task.problem}")
            spent = time.monotonic() > end or self.trials - before >= most or stopped()
            if spent or answer["end"] or stale >= _PATIENCE:
                break
        if not math.isfinite(best):
            raise EngineError(
                f"MetaSchedule found no kernel for a {task.problem} in {answer['trials']} trials"
            )
        try:
            return Scheduled(task.problem, kernel.isa, answer["assembly"], tuple(answer["order"]))
        except ValueError as error:
            raise EngineError(f"MetaSchedule found {error}, for a {task.problem}") from error


def scheduled_seconds(task: TuningTask, search: TuningSearch) -> float | None:
    """What MetaSchedule's kernel for a task takes, where one was kept and timed."""
    kernel = scheduled(task.problem, task.guess.isa)
    return None if kernel is None else search.timings.known([kernel], search.memory).get(kernel)
