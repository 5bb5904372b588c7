"""The search: best guesses first, budgets, what is known is not timed again, failures are skipped."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path

import pytest
from small_networks import Clock, two_layers

from tensmith.cli.tune import _microseconds
from tensmith.errors import OutputError
from tensmith.kernel import ConvolutionProblem, Kernel, candidates, host_isa
from tensmith.kernel.alone import function_version
from tensmith.kernel.shipped import Ranked, ShippedEntry, ShippedTable
from tensmith.kernel.timings import Timings
from tensmith.tune.network import tasks_of
from tensmith.tune.search import Budget, TuningSearch

LONG = Budget(600.0)


@pytest.fixture
def timings(tmp_path: Path) -> Timings:
    return Timings(tmp_path / "timings.sqlite")


def search(timings: Timings, clock: Clock) -> TuningSearch:
    tasks, memory = tasks_of(two_layers(), host_isa())
    return TuningSearch(tasks, memory, timings, clock)


def test_every_problem_gets_its_guess_timed_first(timings: Timings) -> None:
    made = search(timings, clock := Clock())
    made.run(Budget(600.0, trials=2))
    assert made.trials == 2
    assert {task.guess for task in made.tasks} == set(clock.asked)


def test_what_takes_less_than_a_microsecond_is_not_told_as_nothing(timings: Timings) -> None:
    said: list[str] = []
    tasks, memory = tasks_of(two_layers(), host_isa())
    made = TuningSearch(tasks, memory, timings, lambda *_: 2.345e-8, said.append)
    made.run(Budget(600.0, trials=1))
    assert ": 0.0234 us for a" in said[0] or ": 0.0235 us for a" in said[0]
    assert [_microseconds(value) for value in (0.02345, 12.3, None)] == ["0.0234", "12.3", ""]


def test_the_fastest_is_found_and_kept(timings: Timings) -> None:
    made = search(timings, clock := Clock())
    made.run(LONG)
    for task in made.tasks:
        assert task.best == min(task.seconds, key=lambda kernel: clock(kernel, 0, 0))
        assert timings.known([task.best], made.memory)[task.best] == task.seconds[task.best]


def test_a_search_that_was_stopped_goes_on_and_then_rests(timings: Timings) -> None:
    search(timings, first := Clock()).run(Budget(600.0, trials=3))
    assert len(first.asked) == 3
    search(timings, second := Clock()).run(LONG)
    alone: list[object] = list(second.asked)
    assert not set(first.asked) & {kernel for kernel in alone if alone.count(kernel) == 1}
    search(timings, third := Clock()).run(LONG)
    assert third.asked == []


def test_no_time_is_no_trial(timings: Timings) -> None:
    search(timings, clock := Clock()).run(Budget(0.0))
    assert clock.asked == []


def test_an_interrupt_ends_it_and_condemns_nobody(timings: Timings) -> None:
    made = search(timings, Clock(crashing="winograd"))
    made.run(LONG, stopped=lambda: made.trials > 0)
    assert made.trials == 1
    assert made.failures == []


def test_what_crashes_is_logged_and_skipped(timings: Timings) -> None:
    name = search(timings, Clock()).tasks[0].guess.name
    made = search(timings, Clock(crashing=name))
    made.run(LONG)
    assert made.failures
    assert all(name in failure and "died" in failure for failure in made.failures)
    assert all(name not in str(task.best) for task in made.tasks)
    known = [kernel for task in made.tasks for kernel in timings.known(task.kernels, made.memory)]
    assert known and all(name not in str(kernel) for kernel in known)


def test_where_a_trial_failed_the_next_search_goes_on(timings: Timings) -> None:
    made = search(timings, Clock(crashing=search(timings, Clock()).tasks[0].guess.name))
    made.run(LONG)
    assert all(task.settled and math.inf in task.seconds.values() for task in made.tasks)
    search(timings, clock := Clock()).run(LONG)
    assert {kernel.problem for kernel in clock.asked} == {task.problem for task in made.tasks}


def test_what_near_shapes_preferred_is_tried_second(timings: Timings) -> None:
    made = search(timings, Clock())
    task = made.tasks[1]
    near = type(task.problem)(32, 8, 8, 32, (3, 3), pads=(1, 1, 1, 1))
    last = task.kernels[-1]
    timings.add(
        type(last)(near, *(getattr(last, name) for name in ("isa", *last.parameters))), made.memory, 1e-9
    )
    made.run(Budget(600.0, trials=12))
    clock = [kernel for kernel in made.measure.asked if kernel.problem == task.problem]  # type: ignore[attr-defined]
    assert str(clock[1]) == str(last)


def same(problem: ConvolutionProblem, kernel: Kernel) -> Kernel:
    """The kernel of these parameters for another problem."""
    return next(one for one in candidates(problem, kernel.isa) if str(one) == str(kernel))


def best_elsewhere(problem: ConvolutionProblem, kernel: Kernel, memory: int) -> ShippedEntry:
    """An entry of a table: for this problem a kernel of these parameters."""
    ranked = Ranked(str(kernel), 1.0, function_version(same(problem, kernel)))
    return ShippedEntry(problem=problem, memory=memory, kernels=(ranked,))


def test_what_was_best_elsewhere_is_tried_second_the_nearest_shape_first(timings: Timings) -> None:
    made = search(timings, clock := Clock())
    task = made.tasks[1]
    wide, wider = (replace(task.problem, filters=count) for count in (64, 256))
    shared = set(map(str, candidates(wide, host_isa()))) & set(map(str, candidates(wider, host_isa())))
    *_, here, far, near = (k for k in task.kernels if k != task.guess and str(k) in shared)
    made.table = ShippedTable(
        host_isa(), (best_elsewhere(wider, far, made.memory), best_elsewhere(wide, near, made.memory))
    )
    timings.add(same(wide, here), made.memory, 1e-9)
    made.run(Budget(600.0, trials=30))
    tried = [str(kernel) for kernel in clock.asked if kernel.problem == task.problem]
    assert tried[:4] == list(map(str, (task.guess, here, near, far)))


def test_the_table_knows_the_problem_itself(timings: Timings) -> None:
    made = search(timings, clock := Clock())
    entries = (best_elsewhere(task.problem, task.kernels[-1], made.memory) for task in made.tasks)
    made.table = ShippedTable(host_isa(), tuple(entries))
    made.run(Budget(600.0, trials=12))
    for task in made.tasks:
        tried = [kernel for kernel in clock.asked if kernel.problem == task.problem]
        assert tried[:2] == [task.guess, task.kernels[-1]]


def test_a_table_that_holds_here_shortens_the_search_and_a_wrong_one_does_not(timings: Timings) -> None:
    trials = {}
    for name, place in (("right", 0), ("wrong", -1)):
        made = search(Timings(timings.path.with_name(name)), clock := Clock())
        orders = [sorted(task.kernels, key=lambda kernel: clock(kernel, 0, 0)) for task in made.tasks]
        known = (best_elsewhere(order[0].problem, order[place], made.memory) for order in orders)
        made.table = ShippedTable(host_isa(), tuple(known))
        made.run(LONG)
        trials[name] = made.trials
        assert name == "wrong" or [task.best for task in made.tasks] == [order[0] for order in orders]
    assert trials["right"] < trials["wrong"]


def test_what_another_process_times_meanwhile_is_not_timed_again(timings: Timings) -> None:
    class Busy(Clock):
        """Before its first answer, another process finds out about every kernel."""

        def __call__(self, kernel: Kernel, memory: int, span: float) -> float:
            """As Clock's."""
            for other in (other for task in made.tasks for other in task.kernels if not self.asked):
                timings.add(other, memory, Clock()(other, memory, span))
            return super().__call__(kernel, memory, span)

    made = search(timings, Busy())
    made.run(LONG)
    assert made.trials == 1
    for task in made.tasks:
        found = timings.known(task.kernels, made.memory)
        assert found.keys() == {*task.kernels} and task.seconds.items() <= found.items()
        assert task.best != task.guess or len(task.kernels) == 1


def test_a_machine_on_which_all_fails_is_given_up(timings: Timings, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tensmith.tune.search._MOST_FAILURES", 5)
    made = search(timings, Clock(crashing=""))
    made.run(LONG)
    assert len(made.failures) == made.trials == 5


def test_a_full_disk_stops_it_and_loses_nothing(timings: Timings, monkeypatch: pytest.MonkeyPatch) -> None:
    made = search(timings, Clock())
    made.run(Budget(600.0, trials=3))

    def full(*_: object) -> None:
        raise OutputError("cannot use the database: database or disk is full")

    monkeypatch.setattr(timings, "add", full)
    with pytest.raises(OutputError, match="full"):
        made.run(LONG)
    again = Timings(timings.path)
    assert sum(len(again.known(task.kernels, made.memory)) for task in made.tasks) == 3
