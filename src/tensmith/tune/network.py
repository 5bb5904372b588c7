"""Tuning a network: its problems are found by planning it, timed, and the folder compiled with the best."""

from __future__ import annotations

import math
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from tensmith.backend.native.choose.choosers import Chooser, Choosing, Options, estimated, memory_of
from tensmith.backend.native.choose.measured import measured, metascheduled
from tensmith.backend.native.emit.folder import write_folder
from tensmith.backend.native.plan import make_plan
from tensmith.errors import OutputError
from tensmith.interrupt import postponed, unmissed
from tensmith.ir import Program
from tensmith.kernel.algorithm import Kernel
from tensmith.kernel.isa import Isa, host_isa
from tensmith.kernel.problem import ConvolutionProblem
from tensmith.kernel.shipped import ShippedTable, shipped
from tensmith.kernel.timings import Timings
from tensmith.progress import Progress, silent
from tensmith.tune.learned import Error, error
from tensmith.tune.search import Budget, Measure, TuningSearch, TuningTask
from tensmith.tune.timer import Timer
from tensmith.tune.tvm.metaschedule import MetaSchedule, scheduled_seconds


@dataclass(frozen=True)
class Tuned:
    """What tuning found: the tasks with all that is known, trials and failures of this time.

    `metaschedule` has the seconds of MetaSchedule's kernels, task by task, where there are any. error: how
    far off estimates are here, where enough was timed to tell.
    """

    tasks: list[TuningTask]
    trials: int
    failures: list[str]
    interrupted: bool
    metaschedule: list[float | None]
    error: Error | None

    def to_json(self) -> dict[str, Any]:
        """{"trials", "failures", "interrupted", "problems": [{"problem", "count", "guess", "best", ...}]}."""
        return {
            "trials": self.trials,
            "failures": self.failures,
            "interrupted": self.interrupted,
            "estimates": None if self.error is None else asdict(self.error),
            "problems": [
                {
                    "problem": str(task.problem),
                    "count": task.count,
                    "timed": len(task.seconds),
                    "settled": task.settled,
                    "guess": _row(task, task.guess),
                    "best": _row(task, task.best),
                    "metaschedule": None if seconds is None else {"microseconds": 1e6 * seconds},
                }
                for task, seconds in zip(self.tasks, self.metaschedule)
            ],
        }


def _row(task: TuningTask, kernel: Kernel) -> dict[str, Any]:
    seconds = task.seconds.get(kernel, math.inf)
    return {"kernel": str(kernel), "microseconds": 1e6 * seconds if math.isfinite(seconds) else None}


@dataclass(frozen=True)
class TuningTarget:
    """Where kernels are timed: for which instruction set, into which database, by what.

    `table` has what was fastest on another machine of this kind; it is tried first.
    """

    isa: Isa
    timings: Timings
    measure: Measure
    table: ShippedTable | None = None


@contextmanager
def this_machine() -> Iterator[TuningTarget]:
    """Kernels are timed here, in a process of their own; what is found is kept for this machine."""
    isa = host_isa()
    with closing(Timings(writing=True)) as timings, Timer() as timer:
        yield TuningTarget(isa, timings, timer.seconds, shipped(isa))


def tune(
    program: Program, place: TuningTarget, output: Path, budget: Budget, tell: Progress = silent,
    other: MetaSchedule | None = None, threads: int = 1,
) -> Tuned:  # fmt: skip
    """Times the kernels of a program of fixed sizes and writes its compiled folder to `output`.

    Kernels are timed in one thread, each on its whole layer; layers are then cut for `threads` by what that
    makes likely (backend.native.choose.measured). With `other`, the folder is for its kernels, and so is what
    the budget leaves when our guesses are timed. The first Ctrl-C ends the trials: the folder is written with
    what is known by then.
    """
    if output.exists():
        raise OutputError(f"{output} exists already; remove it or choose another folder")
    isa, timings = place.isa, place.timings
    tasks, memory = tasks_of(program, isa)
    with unmissed(), postponed() as interrupted:
        search = TuningSearch(tasks, memory, timings, place.measure, tell, place.table)
        trials, failures, chooser = 0, [], measured(timings)
        if other is None:
            search.run(budget, interrupted)
        else:
            end = time.monotonic() + budget.seconds
            guesses = [task.guess for task in tasks]
            unknown = len(guesses) - len(timings.known(guesses, memory))
            search.run(budget.at_most(unknown), interrupted)
            other.run(search, budget.rest(end, search.trials), interrupted)
            trials, failures, chooser = other.trials, other.failures, metascheduled(chooser, timings)
        tell("compiling")
        write_folder(make_plan(program, isa, chooser, threads), output)
        elsewhere = [scheduled_seconds(task, search) for task in tasks]
        return Tuned(
            tasks,
            search.trials + trials,
            [*search.failures, *failures],
            interrupted(),
            elsewhere,
            error(search.timed),
        )


def tasks_of(program: Program, isa: Isa, choosing: Choosing = estimated) -> tuple[list[TuningTask], int]:
    """The problems that a plan of the program asks kernels for, and the memory that weights come from.

    `choosing` says which kernels there are to time.
    """
    asked: Counter[ConvolutionProblem] = Counter()
    options: dict[ConvolutionProblem, Options] = {}
    memory = 0

    def recording(weight_bytes: int) -> Chooser:
        nonlocal memory
        memory, choose = memory_of(weight_bytes), choosing(weight_bytes)

        def recorded(problem: ConvolutionProblem, isa: Isa, beside: ConvolutionProblem) -> Options:
            asked[problem] += 1
            options[problem] = choose(problem, isa, beside)
            return options[problem]

        return recorded

    make_plan(program, isa, recording)
    tasks = []
    for problem, count in asked.items():
        ranked = sorted(options[problem], key=lambda option: option[0])
        guesses = {kernel: seconds for seconds, kernel in ranked}
        tasks.append(TuningTask(problem, count, list(guesses), guesses))
    return tasks, memory
