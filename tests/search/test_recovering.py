"""What is trained, and for how long: plans over the drop budget that would be worth something within it."""

from __future__ import annotations

import importlib.util
import itertools
import math
import time
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import onnx
import pytest

from command_line import tiny_model
from tensmith.compression import _tell_of_training, _Voice
from tensmith.config import Config
from tensmith.data import as_dataset, split
from tensmith.errors import MissingExtra, ProgramError, TensmithError
from tensmith.recovery import demand_torch
from tensmith.report.metric import exact
from tensmith.rewrite.rule import Step
from tensmith.search.candidate import Candidate, Status
from tensmith.search.describe import describe_plan
from tensmith.search.objective import Objective
from tensmith.search.plan import Plan
from tensmith.search.recovering import Recovering, Recovery, expected_after, promise, promising, rounds

OBJECTIVE = Objective(max_drop=0.5)
# What loses 1.5 points comes to the budget.
LITTLE = Recovery(1.5, 0.5)
WEIGHTS = "0123456789abcdef" * 4


class Facts(dict[str, Any]):
    """What a checkpoint keeps beside candidates."""

    def fact(self, name: str) -> Any:
        return self.get(name)

    def note(self, name: str, value: Any) -> None:
        self[name] = value


def candidate(bits: int, drop: float, size: float, ms: float, status: Status = "rejected") -> Candidate:
    step = Step("weight_only", params={"stored": "floats", "default_bits": bits}, kind="lossy")
    metrics = {
        "packed_bytes": exact(size, "bytes"),
        "latency_ms": exact(ms, "ms"),
        "speedup": exact(10 / ms, "x"),
    }
    plan = Plan((step,))
    return Candidate(plan.id, plan, status, "", "onnxruntime", metrics, exact(drop, "pt"))


def test_what_nothing_within_the_budget_beats_is_trained_the_most_promising_first() -> None:
    within = candidate(8, 0.1, 1000, 5, "accepted")
    beaten = candidate(7, 3.0, 1200, 5)
    alike = candidate(6, 2.0, 980, 4.9)
    near, small, hopeless = candidate(4, 1.0, 500, 5), candidate(3, 1.5, 250, 5), candidate(2, 60.0, 100, 5)
    found = promising([within, beaten, alike, near, small, hopeless], OBJECTIVE, 4000, LITTLE)
    assert [each.plan.steps[0].params["default_bits"] for each in found] == [3, 4]


def test_of_plans_that_differ_in_the_price_of_bits_alone_the_best_is_trained() -> None:
    def priced(price: float, drop: float, size: float) -> Candidate:
        one = candidate(8, drop, size, 5)
        (step,) = one.plan.steps
        plan = Plan((replace(step, params={**step.params, "price": price}),))
        return replace(one, id=plan.id, plan=plan)

    every = [priced(0.5, 1, 300), priced(1, 1.5, 200), priced(2, 4, 150)]
    found = promising(every, OBJECTIVE, 4000, LITTLE)
    assert [each.plan.steps[0].params["price"] for each in found] == [1]
    assert len(promising(every, Objective(max_drop=0.0), 4000, LITTLE)) == 3, "bits stay as they came"


def test_what_was_trained_or_breaks_another_budget_is_not() -> None:
    small = candidate(3, 4.0, 250, 5)
    trained = replace(small, plan=small.plan.having(Step("recover", kind="lossy")))
    assert promising([trained], OBJECTIVE, 4000, LITTLE) == []
    assert promising([small], Objective(max_drop=0.5, max_latency_ms=1), 4000, LITTLE) == []


def test_a_doubling_of_the_drop_weighs_as_much_as_one_of_size_and_speed() -> None:
    one = promise(candidate(4, 1.0, 1000, 5), OBJECTIVE, 4000)
    assert promise(candidate(4, 2.0, 500, 2.5), OBJECTIVE, 4000) == pytest.approx(one)
    assert promise(candidate(4, 0.1, 1000, 5), OBJECTIVE, 4000) == pytest.approx(one + 1)


def test_a_longer_training_goes_for_plans_that_lose_more() -> None:
    near, far = candidate(4, 1.0, 500, 5), candidate(3, 4.0, 250, 5)
    first = [promising([near, far], OBJECTIVE, 4000, Recovery(lost, 0.5))[0] for lost in (1.5, 12.0)]
    assert first == [near, far]
    few, many = (expected_after(2592.0, step, 0.5) for step in (0.2, 0.005))
    assert 4 > few.left(4.0) > many.left(4.0)
    assert expected_after(1.0, 0.5, 0.5) == Recovery(0.5, 0.5)


def test_what_is_expected_to_hold_the_budget_well_comes_before_what_promises_more() -> None:
    """Of what loses ten times the budget too much is left, however small it is."""
    near, far = candidate(4, 0.53, 900, 5), candidate(3, 5.0, 60, 5)
    assert promise(far, OBJECTIVE, 4000, LITTLE) > promise(near, OBJECTIVE, 4000, LITTLE)
    assert promising([far, near], OBJECTIVE, 4000, LITTLE) == [near, far]


def test_what_is_left_grows_less_than_what_is_lost() -> None:
    recovery = Recovery(2.0, 0.5)
    assert [recovery.left(drop) for drop in (8.0, 2.0, 0.5, 0.1, -1.0)] == [1.0, 0.5, 0.25, 0.1, -1.0]


@pytest.mark.parametrize("seconds", [30.0, 1800.0, 7200.0])
@pytest.mark.parametrize("step", [0.002, 0.1, 0.5])
def test_rounds_halve_and_fill_the_time(seconds: float, step: float) -> None:
    found = rounds(seconds, 6, step)
    counts = [count for count, _ in found]
    assert counts in ([1, 1], [2**k for k in reversed(range(len(found)))])
    assert math.fsum(count * each for count, each in found) == pytest.approx(seconds)
    assert counts[0] == 1 or found[0][1] >= max(20, 12_000 * step)
    growth = 0.5 if counts == [1, 1] else 2
    assert all(after == pytest.approx(growth * each) for (_, each), (_, after) in itertools.pairwise(found))
    assert rounds(seconds, 0, step) == []


def test_what_takes_longer_than_planned_is_made_up_for(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """A third more for each, to make the network and to judge it."""
    pytest.importorskip("torch", reason="the torch extra is not installed")
    onnx.save(tiny_model(), tmp_path / "model.onnx")
    left = [candidate(bits, 2.0, 100 * bits, 5) for bits in (2, 3, 4, 5)]
    clock, given = [0.0], list[float]()
    trials: Any = SimpleNamespace(tried=left, race=SimpleNamespace(run=SimpleNamespace(
        objective=OBJECTIVE, model=tmp_path / "model.onnx")), checkpoint=Facts())  # fmt: skip
    recovering = Recovering(trials, tmp_path, print)

    def trained(_: Recovering, lessons: object, plan: Plan, turn: int, seconds: float) -> Candidate:
        given.append(seconds)
        clock[0] += 4 / 3 * seconds
        return next(each for each in left if each.plan == plan)

    monkeypatch.setattr(time, "monotonic", lambda: clock[0])
    monkeypatch.setattr(
        "tensmith.search.lessons.Lessons", lambda trials, kept: SimpleNamespace(forget_pilots=list)
    )
    monkeypatch.setattr(Recovering, "_seconds_a_step", lambda *_: 0.03)
    monkeypatch.setattr(Recovering, "_trained", trained)
    monkeypatch.setattr(Recovering, "_known", lambda *_: None)
    monkeypatch.setattr(Recovering, "_challenge", lambda *_: None)
    monkeypatch.setattr(Recovering, "_expected", lambda *_: LITTLE)
    monkeypatch.setattr(Recovering, "_chosen", lambda *_: left)
    assert not recovering.recover(None, 5500.0)  # type: ignore[arg-type]
    assert len(given) == 7 and clock[0] < 1.05 * 5500


def test_a_training_that_ended_is_followed_by_one_of_what_promises_then(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """The courses of before count, and their time is not lost."""
    pytest.importorskip("torch", reason="the torch extra is not installed")
    onnx.save(tiny_model(), tmp_path / "model.onnx")
    first, second = candidate(3, 1.5, 250, 5), candidate(4, 1.2, 260, 2)
    trials: Any = SimpleNamespace(tried=[], race=SimpleNamespace(run=SimpleNamespace(
        objective=OBJECTIVE, model=tmp_path / "model.onnx")), checkpoint=Facts())  # fmt: skip
    recovering, taken, told = Recovering(trials, tmp_path, lambda said: told.append(said)), [], list[str]()

    def course(plan: Plan, seconds: float, over: int) -> tuple[Step, bool]:
        taken.append((plan.id, over, seconds))
        return Step("recover", params={"steps": 8}, kind="lossy"), stopping

    by_plan = {each.plan.key: each for each in (first, second)}
    trials.attempt = lambda plan: by_plan[plan.key]
    trials.progress = print
    monkeypatch.setattr(Recovering, "_with", lambda self, plan, step: plan)
    monkeypatch.setattr(Recovering, "_challenge", lambda *_: None)
    monkeypatch.setattr(Recovering, "_seconds_a_step", lambda *_: 100.0)
    monkeypatch.setattr(Recovering, "_expected", lambda *_: LITTLE)
    lessons = SimpleNamespace(course=course, forget_pilots=list)
    monkeypatch.setattr("tensmith.search.lessons.Lessons", lambda trials, kept: lessons)
    stopping = False
    assert not recovering.recover(None, 900.0) and "nothing to recover" in told[0]  # type: ignore[arg-type]
    trials.tried = [first]
    assert not recovering.recover(None, 900.0)  # type: ignore[arg-type]
    assert [each[:2] for each in taken] == [(first.plan.id, 0), (first.plan.id, 1)]
    taken.clear()
    assert not recovering.recover(None, 900.0)  # type: ignore[arg-type]
    assert [each[:2] for each in taken] == [(first.plan.id, 2), (first.plan.id, 3)]
    taken.clear()
    trials.tried, stopping = [first, second], True
    assert recovering.recover(None, 900.0) and taken[0][:2] == (second.plan.id, 0)  # type: ignore[arg-type]
    trials.checkpoint.note("recover/leaves", {"before": 1.5, "after": 0.5})
    trials.checkpoint.note(f"recover/0/{second.plan.key}", Step("recover", kind="lossy").to_json())
    taken.clear()
    stopping = False
    assert not recovering.recover(None, 900.0)  # type: ignore[arg-type]
    assert [each[:2] for each in taken] == [(second.plan.id, 1)] and taken[0][2] > 700
    assert trials.checkpoint.fact("recover/leaves") is None, "a longer training looks anew"


@pytest.mark.parametrize(("lost", "left"), [(0.1, 0.25), (1.0, 1.0), (5.0, 2.0)])
def test_a_short_training_tells_what_a_long_one_leaves(lost: float, left: float, tmp_path: Path) -> None:
    """The plan that promises most if training brings much is trained for it, once."""
    onnx.save(tiny_model(), tmp_path / "model.onnx")
    near, far = candidate(4, 0.8, 900, 5), candidate(2, 2.0, 250, 5)
    trials: Any = SimpleNamespace(tried=[near, far], race=SimpleNamespace(run=SimpleNamespace(
        objective=OBJECTIVE, model=tmp_path / "model.onnx")), checkpoint=Facts(), progress=print)  # fmt: skip
    taken = []

    def pilot(plan: Plan, seconds: float) -> Any:
        taken.append((plan, seconds))
        return SimpleNamespace(stopped=False, lost=lost)

    lessons: Any = SimpleNamespace(pilot=pilot)
    recovering = Recovering(trials, tmp_path, print)
    found = [recovering._expected(lessons, 820.0, 0.5) for _ in range(2)]
    assert found == [Recovery(2.0, pytest.approx(left * (80 / 820) ** 0.125))] * 2
    assert taken == [(far.plan, pytest.approx(80))]


def test_a_pilot_that_is_stopped_ends_the_run_and_tells_nothing(tmp_path: Path) -> None:
    onnx.save(tiny_model(), tmp_path / "model.onnx")
    trials: Any = SimpleNamespace(tried=[candidate(2, 4.0, 250, 5)], race=SimpleNamespace(run=SimpleNamespace(
        objective=OBJECTIVE, model=tmp_path / "model.onnx")), checkpoint=Facts(), progress=print)  # fmt: skip
    lessons: Any = SimpleNamespace(pilot=lambda plan, seconds: SimpleNamespace(stopped=True, lost=1.0))
    assert Recovering(trials, tmp_path, print)._expected(lessons, 820.0, 0.5) is None
    assert not trials.checkpoint


def test_all_looks_of_a_trial_are_at_the_same_samples_and_nothing_of_it_stays(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Those of one that is gone on with, too; fewer than a round looks at."""
    pytest.importorskip("torch", reason="the torch extra is not installed")
    from tensmith.search.lessons import Lessons

    monkeypatch.setattr(Lessons, "_affordable", lambda self, session: next(affordable))
    monkeypatch.setattr(Lessons, "_lost_on", lambda self, samples, session: samples)
    monkeypatch.setattr(Lessons, "_teacher", SimpleNamespace(lesson=lambda *given: SimpleNamespace(
        courses=0, course=lambda seconds: [given[2](None), given[2](None)])))  # fmt: skip
    monkeypatch.setattr("tensmith.search.lessons.with_tables_opened", lambda program: program)
    monkeypatch.setattr("tensmith.search.lessons.learning_constants", lambda *given: {})
    facts, affordable = Facts(), iter((40, 60, 90))
    builder = SimpleNamespace(treated=lambda plan: plan, allowed=SimpleNamespace(covered=lambda plan: plan))
    trials: Any = SimpleNamespace(
        checkpoint=facts, builder=builder, standard=SimpleNamespace(view=range(100))
    )
    plan = candidate(4, 1.0, 100, 5).plan
    for _ in range(2):  # the second one goes on with what the first one left
        lessons: Any = Lessons(trials, tmp_path)
        assert lessons.pilot(plan, 1.0) == [40, 40]
    ended = {"pilot-another.npz", f"pilot-{plan.id}.npz"}
    for name in (*ended, f"{plan.id}.npz"):
        (tmp_path / name).touch()
    lessons.forget_pilots()
    assert [left.name for left in tmp_path.iterdir()] == [f"{plan.id}.npz"]
    assert lessons._training(plan).course(1.0) == [60, 60], "a round is told nothing of it"
    assert lessons.pilot(plan, 1.0) == [90, 90], "nor is the next trial"


def test_what_took_one_plan_out_of_reach_is_not_tried_on_another(tmp_path: Path) -> None:
    onnx.save(tiny_model(), tmp_path / "model.onnx")
    ruin, halve = (Step(name, kind="lossy") for name in ("channel_pruning", "magnitude_pruning"))
    trials: Any = SimpleNamespace(tried=[candidate(4, 2.0, 500, 5), candidate(3, 4.0, 400, 5)])
    trials.checkpoint = Facts()
    trials.race = SimpleNamespace(run=SimpleNamespace(objective=OBJECTIVE, model=tmp_path / "model.onnx"))

    def attempt(plan: Plan) -> Candidate:
        lost = 60.0 if ruin in plan.steps else 5.0
        trials.tried.append(replace(candidate(4, lost, 300, 5), plan=plan, id=plan.id))
        return trials.tried[-1]

    trials.attempt = attempt
    space: Any = SimpleNamespace(
        challenges=lambda plan: (plan.having(step) for step in (ruin, halve) if len(plan.steps) == 1)
    )
    Recovering(trials, Path(), lambda said: None)._challenge(space, math.inf)
    added = [
        [step.rule for step in each.plan.steps if step.rule != "weight_only"] for each in trials.tried[2:]
    ]
    assert sorted(added) == [["channel_pruning"], ["magnitude_pruning"], ["magnitude_pruning"]]


@pytest.mark.parametrize("kind", [RuntimeError, KeyError, StopIteration])
def test_whatever_training_raises_costs_one_plan(
    kind: type[Exception], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    pytest.importorskip("torch", reason="the torch extra is not installed")
    from tensmith.search.lessons import Lessons

    def fails(self: Lessons, plan: Plan) -> Any:
        raise kind("dimension out of range\nand more")

    monkeypatch.setattr(Lessons, "_training", fails)
    lessons: Any = Lessons(SimpleNamespace(), tmp_path)  # type: ignore[arg-type]
    for act in (lambda: lessons.course(Plan(), 1.0, 0), lambda: lessons.seconds_a_step(Plan())):
        with pytest.raises(ProgramError, match=f"^{kind.__name__}: .*dimension out of range") as told:
            act()
        assert isinstance(told.value.__cause__, kind)


def test_a_trained_plan_is_described_without_hashes() -> None:
    step = Step("recover", params={"weights": WEIGHTS, "original": WEIGHTS, "steps": 3}, kind="lossy")
    assert describe_plan(candidate(4, 1, 1, 1).plan.having(step)) == "weight_only floats, recover"


def test_without_torch_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(MissingExtra, match=r"--recover needs .*tensmith\[torch\]"):
        demand_torch("--recover")


def test_a_torch_that_does_not_load_is_told_before_anything_is_done(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(name: str) -> None:
        raise OSError("libtorch_cpu.so: cannot open shared object file")

    monkeypatch.setattr(importlib.util, "find_spec", lambda name: True)
    monkeypatch.setattr(importlib, "import_module", broken)
    with pytest.raises(TensmithError, match=r"is here and does not load: libtorch_cpu.so.*pip install"):
        demand_torch("--recover")


def test_the_time_is_read_as_others_are() -> None:
    assert Config(model="m", recover="30m").recover == 1800  # type: ignore[arg-type]
    assert Config(model="m").recover == 0


def test_data_of_one_part_leaves_few_samples_to_train_on_and_a_run_says_so() -> None:
    """What nobody asked for to search on or to judge by is left to train on."""
    samples, labels = np.zeros((600, 3), np.float32), np.arange(600) % 2
    whole, apart = (
        as_dataset((samples, labels)),
        as_dataset({"train": (samples, labels), "test": (samples, labels)}),
    )
    told = []
    for splits in (split(whole, 50, 2000), split(whole, 50, 100, 200), split(apart, 50, 2000)):
        voice = _Voice(lambda said: None)
        _tell_of_training(splits, voice)
        told.append([note.partition(" samples")[0] for note in voice.notes])
    assert told == [["Only 7"], [], []]
