"""What estimates are off by is learned from timings: it ranks better, and says how far off it is itself."""

from __future__ import annotations

import importlib.util
import math
from collections.abc import Sequence
from pathlib import Path

import pytest
from small_networks import problem

from tensmith.kernel import Kernel, candidates, host_isa
from tensmith.kernel.timings import Timings
from tensmith.tune import learned as module
from tensmith.tune.learned import error, learned
from tensmith.tune.search import Budget, TuningSearch, TuningTask

pytestmark = [
    pytest.mark.skipif(importlib.util.find_spec("sklearn") is None, reason="scikit-learn is not installed"),
    pytest.mark.xdist_group("sklearn"),  # one process imports it, which takes seconds
]

PROBLEMS = [
    problem(channels, size) for channels, size in ((16, 8), (32, 8), (32, 16), (64, 8), (64, 16), (48, 12))
]


def kernels() -> list[Kernel]:
    return [kernel for each in PROBLEMS for kernel in candidates(each, host_isa())]


def truth(kernel: Kernel) -> float:
    """Seconds: what no estimate knows is that algorithms differ, and large parameters are no good."""
    algorithm = 1 + sum(map(ord, kernel.name)) % 7
    return algorithm * math.log2(2 + sum(kernel.parameters.values())) * kernel.cost().seconds()


def test_corrected_estimates_are_nearer() -> None:
    timed = {kernel: truth(kernel) for kernel in kernels()}
    found = error(timed)
    assert found is not None and found.problems == len(PROBLEMS) and found.timings == len(timed)
    assert found.estimated > 1.5 > 1.2 > found.corrected >= 1
    assert "off by a factor of" in str(found)
    correction = learned(timed)
    assert correction is not None and correction.seconds([]) == {}
    for kernel, seconds in correction.seconds(kernels()).items():
        assert seconds == pytest.approx(truth(kernel), rel=0.3)


def test_what_failed_teaches_nothing() -> None:
    timed = {kernel: truth(kernel) for kernel in kernels()}
    broken = dict(timed) | dict.fromkeys(candidates(problem(8, 8), host_isa()), math.inf)
    assert error(broken) == error(timed)


def test_with_few_timings_nothing_is_learned(monkeypatch: pytest.MonkeyPatch) -> None:
    timed = {kernel: truth(kernel) for kernel in kernels()}
    few = dict(list(timed.items())[: module.FEWEST - 1])
    assert learned(few) is None and error(few) is None
    one = {kernel: seconds for kernel, seconds in timed.items() if kernel.problem == PROBLEMS[0]}
    assert error(one) is None
    monkeypatch.setattr(module.importlib.util, "find_spec", lambda _: None)  # type: ignore[attr-defined]
    assert learned(timed) is None and error(timed) is None


class Oracle:
    """A correction that knows the truth."""

    def seconds(self, kernels: Sequence[Kernel]) -> dict[Kernel, float]:
        return {kernel: truth(kernel) for kernel in kernels}


def test_what_is_likely_to_be_fastest_is_tried_next(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def searched(folder: Path) -> list[TuningTask]:
        folder.mkdir()
        tasks = []
        for each in PROBLEMS:
            guesses = {kernel: kernel.cost().seconds() for kernel in candidates(each, host_isa())}
            tasks.append(TuningTask(each, 1, sorted(guesses, key=guesses.__getitem__), guesses))
        timings = Timings(folder / "timings.sqlite")
        made = TuningSearch(tasks, 0, timings, lambda kernel, memory, span: truth(kernel))
        made.run(Budget(600.0, 70))
        return tasks

    def off(tasks: list[TuningTask]) -> float:
        return sum(task.seconds[task.best] / min(map(truth, task.kernels)) for task in tasks)

    alone = off(searched(tmp_path / "alone"))
    monkeypatch.setattr("tensmith.tune.search.learned", lambda _: Oracle())
    monkeypatch.setattr("tensmith.tune.search.FEWEST", 12)
    led = off(searched(tmp_path / "led"))
    assert led == pytest.approx(len(PROBLEMS)) and led < alone
