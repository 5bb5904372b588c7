"""Turns alternate, ratios pair by round, and "faster" is said only when the interval excludes 1."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from tensmith.engine import available
from tensmith.engine.stopwatch import Turn
from tensmith.errors import EngineError
from tensmith.evaluate import latency
from tensmith.evaluate.contender import Contender
from tensmith.evaluate.latency import Rounds, compare, summarize, take_turns

A, B = Contender("onnxruntime", Path("a.onnx")), Contender("openvino", Path("b.onnx"))


def rounds_of(ratio: float, noise: float, count: int = 60, seed: int = 0) -> Rounds:
    """Baseline about 1 ms with a heavy common drift; the other takes 1/ratio of it, with noise of its own."""
    generator = np.random.default_rng(seed)
    drift = 1e6 * np.exp(np.cumsum(generator.normal(0, 0.1, count)))
    own = np.exp(generator.normal(0, noise, (count, 2)))
    return Rounds(np.stack([drift, drift / ratio], axis=1) * own)


@pytest.mark.parametrize(
    ("ratio", "verdict"), [(1.05, "faster"), (0.95, "slower"), (1.0, "no difference shown")]
)
def test_pairing_sees_through_drift(ratio: float, verdict: str) -> None:
    baseline, ours = summarize([A, B], rounds_of(ratio, 0.02))
    assert ours.verdict == verdict
    assert ours.ratio.low <= ratio <= ours.ratio.high
    assert ours.baseline == baseline.contender.name == "onnxruntime:a.onnx"
    assert (baseline.ratio.low, baseline.ratio.high) == (1, 1)
    assert (ours.latency.unit, ours.latency.evidence) == ("ms", "measured")


def test_faster_is_seldom_said_of_equals() -> None:
    verdicts = [summarize([A, B], rounds_of(1.0, 0.05, 30, seed))[1].verdict for seed in range(200)]
    # At the 95% level some 10 to 16 of 200; 30 is more than three sigma above.
    assert sum(verdict != "no difference shown" for verdict in verdicts) <= 30


def test_contenders_take_turns_and_the_first_inference_of_a_turn_is_dropped() -> None:
    turns: list[str] = []

    def timer(name: str, nanoseconds: int):
        def time(count: int) -> Turn:
            turns.append(name)
            return Turn(np.array([100 * nanoseconds] + [nanoseconds] * (count - 1)))

        return time

    rounds = take_turns([timer("a", 1_000_000), timer("b", 2_000_000)], seconds=60)
    assert "".join(turns).endswith("ab" * len(rounds.nanoseconds))
    assert (rounds.nanoseconds == [1e6, 2e6]).all()
    assert len(rounds.nanoseconds) < 20, "exact ratios need no more rounds"
    assert not rounds.busy


def test_the_time_is_kept() -> None:
    generator = np.random.default_rng(0)
    noisy = lambda count: Turn(generator.uniform(1e6, 9e6, count))  # noqa: E731
    assert len(take_turns([noisy, noisy], seconds=0).nanoseconds) == 9


def sharing(nanoseconds: int, slice_: int = 4_000_000):
    """Times on a processor that another process has every second `slice_` of nanoseconds."""
    clock = 0

    def time(count: int) -> Turn:
        nonlocal clock
        spent = []
        for _ in range(count):
            end = clock + nanoseconds
            waits = end // slice_ - clock // slice_
            clock = end
            spent.append(nanoseconds + waits * slice_)
        waited = sum(spent[1:]) - (count - 1) * nanoseconds
        return Turn(np.array(spent), waited, waited)

    return time


def test_a_shared_processor_does_not_favour_the_short() -> None:
    rounds = take_turns([sharing(20_000_000), sharing(500_000)], seconds=0)
    assert rounds.busy, "every turn was disturbed"
    _, short = summarize([A, B], rounds)
    assert short.busy
    assert short.ratio.value == pytest.approx(40), "medians would say 80"


def test_disturbed_rounds_are_dropped() -> None:
    calls = 0

    def sometimes(count: int) -> Turn:
        nonlocal calls
        calls += 1
        return Turn(np.full(count, 1e6), 10_000_000) if calls % 3 == 0 else Turn(np.full(count, 1e6))

    rounds = take_turns([lambda count: Turn(np.full(count, 1e6)), sometimes], seconds=60)
    assert not rounds.busy
    assert len(rounds.nanoseconds) == 9


def test_the_tail_holds_every_run_and_a_median_does_not() -> None:
    """One turn in ten is slow because others had the processor: no median shows it, the p99 does."""
    turn = 0

    def sometimes(count: int) -> Turn:
        nonlocal turn
        turn += 1
        slow = turn % 10 == 0
        return Turn(np.full(count, 9e6 if slow else 1e6), 10**10 if slow else 0)

    rounds = take_turns([sometimes], seconds=60, fewest=latency.FEWEST_RUNS)
    assert len(rounds.runs[0]) >= latency.FEWEST_RUNS
    (found,) = summarize([A], rounds)
    assert found.latency.value == 1.0 and found.tail.percentiles[99].value == 9.0
    assert found.tail.runs == len(rounds.runs[0])


def test_too_few_runs_have_no_tail() -> None:
    tail = latency.tail_of(np.full(100, 1e6))
    assert tail.percentiles.keys() == {95}
    assert tail.to_json()["p99_ms"] is None and tail.to_json()["runs"] == 100
    assert latency.tail_of(np.full(latency.FEWEST_RUNS, 1e6)).percentiles.keys() == {95, 99}


@pytest.mark.parametrize("limit", [0.0, 60.0])
def test_a_busy_machine_has_twice_the_time_at_most(limit: float, monkeypatch: pytest.MonkeyPatch) -> None:
    clock = [0.0]
    monkeypatch.setattr(latency.time, "monotonic", lambda: clock[0])

    def waiting(count: int) -> Turn:
        clock[0] += 0.005
        return Turn(np.full(count, 1e6), 10**9)

    assert take_turns([waiting], 0.2, limit=limit).busy
    assert clock[0] < 1.0


def test_one_disturbed_round_does_not_make_a_machine_busy() -> None:
    disturbed = iter([0, 0, 0, 0, 10**9])
    once = lambda count: Turn(np.full(count, 1e6), next(disturbed, 0))  # noqa: E731
    rounds = take_turns([once], seconds=3.0, limit=0.0)
    assert not rounds.busy
    assert len(rounds.nanoseconds) == 9


def test_real_engines_race(linear: Path) -> None:
    contenders = [Contender(engine, linear) for engine in available()]
    results = compare(contenders, {"x": np.ones((1, 4), np.float32)}, seconds=0.2)
    assert [result.contender for result in results] == contenders
    assert all(result.latency.low > 0 for result in results)


def test_one_that_cannot_run_is_named(linear: Path) -> None:
    with pytest.raises(EngineError, match=r"nosuch\.onnx"):
        missing = Contender("onnxruntime", linear.with_name("nosuch.onnx"))
        compare([Contender("onnxruntime", linear), missing], {"x": np.ones((1, 4), np.float32)})


def test_one_that_cannot_be_loaded_is_left_out(linear: Path) -> None:
    there, missing = (
        Contender("onnxruntime", linear),
        Contender("onnxruntime", linear.with_name("nosuch.onnx")),
    )
    refusals: dict[Contender, str] = {}
    found = compare([there, missing], {"x": np.ones((1, 4), np.float32)}, seconds=0.1, refusals=refusals)
    assert found == () and "nosuch.onnx" in refusals[missing]


def dying(monkeypatch: pytest.MonkeyPatch, dies: Callable[[Contender], bool]) -> None:
    """A turn takes a millisecond a call, or its process dies."""

    def start(contender: Contender, *_: Any) -> Any:
        def time(count: int) -> Turn:
            if dies(contender):
                raise EngineError("it died")
            return Turn(np.full(count, 1e6), 0)

        return nullcontext(SimpleNamespace(time=time))

    monkeypatch.setattr(Contender, "start", start)


def test_one_that_dies_in_its_turn_costs_the_others_nothing(
    linear: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = ["original", "first", "dying", "last"]
    contenders = [Contender("onnxruntime", tmp_path / name) for name in names]

    dying(monkeypatch, lambda contender: contender.path.name == "dying")
    refusals: dict[Contender, str] = {}
    found = compare(contenders, {}, seconds=0.1, refusals=refusals)
    assert [latency.contender.path.name for latency in found] == ["original", "first", "last"]
    assert refusals == {contenders[2]: "it died"}
    with pytest.raises(EngineError, match="it died"):
        compare(contenders, {}, seconds=0.1)


@pytest.mark.parametrize("deaths", [1, 2])
def test_a_baseline_that_dies_in_its_turn_has_another_one(
    deaths: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    contenders = [Contender("onnxruntime", tmp_path / name) for name in ("original", "other")]
    left = iter(range(deaths))
    dying(monkeypatch, lambda contender: contender == contenders[0] and next(left, None) is not None)
    refusals: dict[Contender, str] = {}
    found = compare(contenders, {}, seconds=0.1, refusals=refusals)
    assert [latency.contender for latency in found] == (contenders if deaths == 1 else [])
    assert refusals == ({} if deaths == 1 else {contenders[1]: "it died"})
