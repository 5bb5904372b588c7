"""Measured and estimated seconds are not in one unit: what is compared is in one of the two."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from nets import Net
from own_cache import own_cache
from tensmith.backend.native.choose.choosers import estimated, memory_of
from tensmith.backend.native.choose.measured import measured, metascheduled
from tensmith.backend.native.choose.parallel import cuts
from tensmith.backend.native.choose.precision import InPrecision
from tensmith.backend.native.plan import make_plan
from tensmith.ir import Program
from tensmith.kernel import ConvolutionProblem, isa_named
from tensmith.kernel.scheduled import FUNCTION, Scheduled, keep
from tensmith.kernel.timings import Timings

ISA = isa_named("avx512", ["avx512_bf16"])
WHOLE = ConvolutionProblem(64, 28, 28, 64, (3, 3), pads=(1, 1, 1, 1))
PARTS = [part.problem for part in next(cuts(WHOLE, 2, ISA.lanes, tensor=False))]
BYTES = 2 * 4 * WHOLE.filters * WHOLE.depth
MEMORY = memory_of(BYTES)


@pytest.fixture
def timings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Timings:
    """Nothing is known."""
    own_cache(tmp_path / "cache", monkeypatch)
    return Timings()


def layer() -> Program:
    net = Net(1, 64, 28, 28)
    return net.program(net.conv("x", 64, 64))


def time_all(timings: Timings, problem: ConvolutionProblem, factor: float) -> None:
    """Every kernel takes so many times its estimate."""
    for seconds, kernel in estimated(BYTES)(problem, ISA, problem):
        timings.add(kernel, MEMORY, factor * seconds)


@pytest.mark.parametrize("factor", [0.2, 1.0, 5.0])
def test_a_problem_that_was_timed_is_cut_as_by_estimate(timings: Timings, factor: float) -> None:
    time_all(timings, WHOLE, factor)
    for chooser in (estimated, measured(timings)):
        assert make_plan(layer(), ISA, chooser, 2).threads == 2


def test_parts_are_scaled_or_measured_beside_what_was_timed(timings: Timings) -> None:
    guess, choose = estimated(BYTES), measured(timings)(BYTES)
    time_all(timings, PARTS[0], 1e-3)
    assert choose(PARTS[0], ISA, WHOLE) == guess(PARTS[0], ISA, WHOLE)  # the whole is known by estimate alone
    time_all(timings, WHOLE, 5.0)
    choose = measured(timings)(BYTES)
    found, guessed = (min(s for s, _ in each(PARTS[0], ISA, WHOLE)) for each in (choose, guess))
    assert found < 0.01 * guessed
    other = replace(PARTS[0], height=20)
    for (seconds, kernel), (estimate, same) in zip(choose(other, ISA, WHOLE), guess(other, ISA, WHOLE)):
        assert kernel == same and seconds == pytest.approx(5 * estimate)


def test_kernels_for_bfloat16_are_scaled_beside_timed_ones_for_floats(timings: Timings) -> None:
    time_all(timings, WHOLE, 5.0)
    guessed, found = (
        InPrecision(c, "bf16")(BYTES)(WHOLE, ISA, WHOLE) for c in (estimated, measured(timings))
    )
    assert {kernel.problem.dtype for _, kernel in found} == {"f32", "bf16"}
    seconds = {kernel: seconds for seconds, kernel in found}
    assert seconds == {kernel: pytest.approx(5 * estimate) for estimate, kernel in guessed}


@pytest.mark.parametrize(("factor", "threads"), [(1e-3, 1), (None, 2), (1e3, 2)])
def test_a_metascheduled_layer_is_cut_where_its_seconds_say_so(
    timings: Timings, factor: float | None, threads: int
) -> None:
    time_all(timings, WHOLE, 5.0)
    keep(kernel := Scheduled(WHOLE, ISA, f"{FUNCTION}:\n\tret"))
    if factor is not None:
        ours = min(seconds for seconds, _ in measured(timings)(BYTES)(WHOLE, ISA, WHOLE))
        timings.add(kernel, MEMORY, factor * ours)
    chooser = metascheduled(measured(timings), timings)
    assert make_plan(layer(), ISA, chooser, 2).threads == threads
    (action,) = make_plan(layer(), ISA, chooser).kernels
    assert str(action.work) == "metaschedule"
