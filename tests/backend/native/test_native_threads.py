"""Programs cut into parts for several threads answer as the interpreter does; threads sleep in between."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nets import NETS, Net
from tensmith.backend.native.choose import choice
from tensmith.backend.native.choose.choosers import estimated, restricted_to
from tensmith.backend.native.choose.parallel import cuts
from tensmith.backend.native.emit.folder import write_folder
from tensmith.backend.native.emit.header import print_header
from tensmith.backend.native.emit.loader import Model
from tensmith.backend.native.images import PositionWindow
from tensmith.backend.native.plan import NativePlan, make_plan
from tensmith.ir import Program, interpret, make_node
from tensmith.kernel import host_isa
from tensmith.kernel.buffer import Buffer, Halo
from tensmith.kernel.problem import ConvolutionProblem


@pytest.fixture(autouse=True)
def eager(monkeypatch: pytest.MonkeyPatch) -> None:
    """Everything is cut that can be, however small."""
    monkeypatch.setattr(choice, "_MEETING_SECONDS", -1.0)


def plan_of(program: Program, threads: int) -> NativePlan:
    return make_plan(program, host_isa(), estimated, threads)


@pytest.mark.parametrize("threads", [2, 3])
@pytest.mark.parametrize("build", NETS, ids=lambda build: build.__name__)
def test_answers_are_the_interpreter_s(build: Callable[[], Program], threads: int, tmp_path: Path) -> None:
    program = build()
    write_folder(plan_of(program, threads), tmp_path / "model")
    shape = program.inputs["x"].static
    x = np.random.default_rng(1).standard_normal(shape).astype(np.float32)
    for model in (Model(tmp_path / "model"), Model(tmp_path / "model", threads=1)):
        for _ in range(3):
            found = model(x=x)
        for name, expected in interpret(program, {"x": x}).items():
            # As for one thread: a few hundred roundings in a row of numbers near 1.
            np.testing.assert_allclose(found[name], expected, rtol=0, atol=3e-5)


def codes_of_rows() -> Program:
    """Rows quantized by their own range, and multiplied as bytes."""
    net = Net(1, 48, 32)
    encoded = ("codes", "scale", "zero")
    net.nodes.append(make_node("dynamic_quantize_linear", ["x"], encoded))
    weights = net.constant(values=net.random.integers(-128, 128, (32, 40)).astype(np.int8))
    sums = net.add("matmul_integer", "codes", weights, "zero", net.constant(values=np.asarray(0, np.int8)))
    scale = net.add("mul", "scale", net.constant(values=np.full(40, 0.01, np.float32)))
    return net.program(net.add("mul", net.add("cast", sums, to=1), scale))


def codes_of_images() -> Program:
    """Codes that images give, and a product of rows reads."""
    net = Net(1, 48, 64)
    grid = [net.constant(values=np.float32(0.05)), net.constant(values=np.uint8(128))]
    images = net.add("conv", "x", net.constant(48, 48, 1))
    rows = net.add("dequantize_linear", net.add("quantize_linear", images, *grid), *grid)
    codes = net.constant(values=net.random.integers(-128, 128, (64, 40)).astype(np.int8))
    steps = net.constant(values=np.full(40, 0.01, np.float32))
    zeros = net.constant(values=np.zeros(40, np.int8))
    return net.program(net.add("matmul", rows, net.add("dequantize_linear", codes, steps, zeros, axis=1)))


@pytest.mark.parametrize("threads", [1, 2, 3])
@pytest.mark.parametrize("build", [codes_of_rows, codes_of_images], ids=lambda build: build.__name__)
def test_parts_of_bytes_begin_where_they_lie(
    build: Callable[[], Program], threads: int, tmp_path: Path
) -> None:
    program = build()
    plan = plan_of(program, threads)
    assert plan.threads == threads
    write_folder(plan, tmp_path / "model")
    x = np.random.default_rng(1).standard_normal(program.inputs["x"].static).astype(np.float32)
    ((name, expected),) = interpret(program, {"x": x}).items()
    found = Model(tmp_path / "model")(x=x)[name]
    assert np.abs(found - expected).max() <= 0.01 * np.abs(expected).max()


@pytest.fixture
def model(tmp_path: Path) -> Model:
    write_folder(plan_of(block(), 1), tmp_path / "model")
    return Model(tmp_path / "model")


def images(count: int) -> list[np.ndarray[Any, Any]]:
    shape = block().inputs["x"].static
    return [np.random.default_rng(seed).standard_normal(shape).astype(np.float32) for seed in range(count)]


def in_threads(count: int, call: Callable[[int], Any]) -> list[Any]:
    with ThreadPoolExecutor(count) as pool:
        return list(pool.map(call, range(count)))


def watched(model: Model, look: Callable[[int], None]) -> None:
    """Lets `look` see the arena of every run while it lasts."""
    run = model._run

    def looked(*arguments: int) -> int:
        look(arguments[-1])
        return run(*arguments)

    model._run = looked


def test_calls_that_overlap_have_an_arena_each_and_later_calls_take_those(model: Model) -> None:
    together, arenas = threading.Barrier(3), []

    def look(arena: int) -> None:
        arenas.append(arena)
        together.wait(60)  # here are three runs at once, or the test fails

    watched(model, look)
    inputs = images(3)
    for _ in range(2):
        in_threads(3, lambda index: model(x=inputs[index]))
    assert len(set(arenas[:3])) == 3
    assert set(arenas[3:]) == set(arenas[:3])


def test_threads_that_share_a_bound_call_wait_for_each_other(model: Model) -> None:
    inside: list[int] = []

    def look(arena: int) -> None:
        inside.append(arena)
        time.sleep(0.001)  # others would come in
        assert inside == [arena]
        inside.clear()

    watched(model, look)
    step, _ = model.bind({"x": images(1)[0]})
    in_threads(4, lambda _: [step() for _ in range(5)])


@pytest.mark.parametrize("threads", [1, 2])
def test_threads_that_call_one_model_get_their_own_answers(threads: int, tmp_path: Path) -> None:
    write_folder(plan_of(block(), threads), tmp_path / "model")
    model, inputs = Model(tmp_path / "model"), images(4)
    expected = [model(x=x) for x in inputs]

    def wrong(index: int) -> int:
        answers = (model(x=inputs[index]) for _ in range(100))
        return sum(
            not np.array_equal(found[name], expected[index][name]) for found in answers for name in found
        )

    assert in_threads(4, wrong) == [0, 0, 0, 0]


def block() -> Program:
    net = Net(2, 16, 20, 12)
    inner = net.add("relu", net.conv("x", 16, 48))
    return net.program(net.add("relu", net.add("add", net.conv(inner, 48, 16), "x")))


def test_rows_of_one_problem_share_weights_and_code() -> None:
    alone, together = plan_of(block(), 1), plan_of(block(), 2)
    assert together.threads == 2
    assert [len(phase) for phase in together.phases if len(phase) > 1]
    assert together.weights.nbytes <= 1.5 * alone.weights.nbytes
    assert "TENSMITH_THREADS 2" in print_header(together)
    assert "TENSMITH_THREADS" not in print_header(alone)


def test_a_kernel_that_puts_zeros_around_its_image_computes_no_rows_of_it(tmp_path: Path) -> None:
    """Winograd of few channels at stride 2: beside rows that are cut off there are others."""
    net = Net(1, 1, 48, 40)
    program = net.program(net.conv("x", 1, 16, 7, strides=(2, 2)))
    plan = make_plan(program, host_isa(), restricted_to("winograd"), 2)
    assert {kernel.work.name for kernel in plan.kernels} == {"winograd"}  # type: ignore[union-attr]
    write_folder(plan, tmp_path / "model")
    x = np.random.default_rng(1).standard_normal((1, 1, 48, 40)).astype(np.float32)
    (found,), (expected,) = (
        answer.values() for answer in (Model(tmp_path / "model")(x=x), interpret(program, {"x": x}))
    )
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-3)


def test_parts_of_one_phase_have_scratch_memory_of_their_own() -> None:
    plan, most = plan_of(block(), 3), 0
    for phase in plan.phases:
        spans = sorted(
            (plan.scratch[n], plan.scratch[n] + plan.actions[n].work.scratch_bytes)
            for n in phase
            if n in plan.scratch
        )
        most = max(most, len(spans))
        assert all(end <= start for (_, end), (start, _) in pairwise(spans))
    assert most > 1


def test_threads_sleep_between_calls_and_end_with_the_model(tmp_path: Path) -> None:
    before = threading.enumerate()
    write_folder(plan_of(block(), 2), tmp_path / "model")
    model = Model(tmp_path / "model")
    x = np.zeros((2, 16, 20, 12), np.float32)
    model(x=x)
    (made,) = (thread for thread in threading.enumerate() if thread not in before)
    assert made.ident is not None
    clock = time.pthread_getcpuclockid(made.ident)
    began = time.clock_gettime(clock)
    time.sleep(0.2)
    assert time.clock_gettime(clock) - began < 0.1
    del model
    made.join(60)
    assert not made.is_alive()


@given(
    height=st.integers(1, 20), width=st.integers(1, 20), filters=st.integers(1, 70), window=st.integers(1, 5),
    stride=st.integers(1, 3), pad=st.integers(0, 2), dilation=st.integers(1, 2), threads=st.integers(2, 5),
)  # fmt: skip
def test_parts_cover_the_problem(
    height: int, width: int, filters: int, window: int, stride: int, pad: int, dilation: int, threads: int
) -> None:
    problem = ConvolutionProblem(
        8, height, width, filters, window=(window, window), strides=(stride, stride), pads=(pad,) * 4,
        dilations=(dilation, dilation),
    )  # fmt: skip
    if min(problem.output) < 1:
        return
    for parts in cuts(problem, threads, 16, tensor=False):
        assert 1 < len(parts) <= threads
        assert sum(part.problem.macs for part in parts) == problem.macs
        for part in parts:
            if part.x is None or part.y is None:
                assert part.problem.filters == part.filters[1] - part.filters[0]
                continue
            axis = 1 if height == 1 and problem.output[0] == 1 else 0
            (x, read), (y, written) = (((w.top, w.height), (w.left, w.width))[axis] for w in (part.x, part.y))
            assert part.problem.output[axis] == written
            assert x == y * stride
            assert x + read <= (height, width)[axis]


@pytest.mark.parametrize("extent", [(9, 5), (1, 9)])
def test_a_window_is_the_image_with_a_larger_halo(extent: tuple[int, int]) -> None:
    whole = Buffer(20, *extent, 16, Halo(2, 1, 1, 3))
    window = PositionWindow(4, 3, 0, 5) if extent[0] > 1 else PositionWindow(0, 1, 4, 3)
    part = window.of(whole)
    assert (part.plane, part.row, part.size) == (whole.plane, whole.row, whole.size)
    y, x = (4, 0) if extent[0] > 1 else (0, 4)
    assert part.address(17, 0, 0) + window.skipped(whole) == whole.address(17, y, x)


def test_an_interrupted_run_is_left_by_all_and_the_next_one_is_right(tmp_path: Path) -> None:
    program = block()
    write_folder(plan_of(program, 3), tmp_path / "model")
    model = Model(tmp_path / "model")
    x = np.random.default_rng(3).standard_normal((2, 16, 20, 12)).astype(np.float32)
    (expected,) = model(x=x).values()
    before = threading.active_count()
    part = model._run._part

    def interrupted(*arguments: object) -> int:
        model._run._part = part
        raise KeyboardInterrupt

    model._run._part = interrupted
    with pytest.raises(KeyboardInterrupt):
        model(x=x)
    (found,) = model(x=x).values()
    np.testing.assert_array_equal(found, expected)
    assert threading.active_count() == before


def test_a_process_that_is_forked_off_has_threads_of_its_own(tmp_path: Path) -> None:
    write_folder(plan_of(block(), 2), tmp_path / "model")
    model, (x,) = Model(tmp_path / "model"), images(1)
    (expected,) = model(x=x).values()
    child = os.fork()
    if child == 0:
        signal.alarm(60)  # else it might wait for ever
        code = 1
        try:
            code = sum(not np.array_equal(*found.values(), expected) for found in (model(x=x), model(x=x)))
        finally:
            os._exit(code)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    np.testing.assert_array_equal(model(x=x).popitem()[1], expected)
