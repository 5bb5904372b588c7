"""Quantize-dequantize programs run in 8 bits natively and mean what the reference interpreter says.

All scales are powers of two, so that every number on the way is exact in single precision: answers must be
equal to the bit, ties included.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tensmith.backend.native.choose.choosers import estimated, only
from tensmith.backend.native.emit.folder import write_folder
from tensmith.backend.native.emit.loader import Model
from tensmith.backend.native.plan import NativePlan, make_plan
from tensmith.backend.native.quantization import parameters_of
from tensmith.errors import EngineError
from tensmith.ir import Node, Program, TensorType, interpret, make_node
from tensmith.kernel import Isa, host_isa, isa_named
from tensmith.kernel.routines.pointwise import Pointwise
from tensmith.kernel.routines.pool import GlobalPoolRoutine

Array = np.ndarray[Any, Any]


@dataclass
class Net:
    """Builds a program node by node."""

    shape: tuple[int, ...]
    nodes: list[Node] = field(default_factory=list)
    constants: dict[str, Array] = field(default_factory=dict)
    random: np.random.Generator = field(default_factory=lambda: np.random.default_rng(5))

    def add(self, op: str, *inputs: str, **attrs: Any) -> str:
        name = f"v{len(self.nodes)}"
        self.nodes.append(make_node(op, inputs, (name,), attrs))
        return name

    def constant(self, array: Array) -> str:
        name = f"c{len(self.constants)}"
        self.constants[name] = array
        return name

    def pair(self, x: str, scale: float, zero: int, dtype: Any = np.uint8) -> str:
        numbers = (self.constant(np.float32(scale).reshape(())), self.constant(np.asarray(zero, dtype)))
        return self.add("dequantize_linear", self.add("quantize_linear", x, *numbers), *numbers)

    def weights(self, *shape: int, axis: int = 0) -> str:
        codes = self.random.integers(-127, 128, shape).astype(np.int8)
        scales = (2.0 ** self.random.integers(-9, -6, shape[axis])).astype(np.float32)
        zeros = np.zeros(shape[axis], np.int8)
        return self.add("dequantize_linear", *map(self.constant, (codes, scales, zeros)), axis=axis)

    def bias(self, count: int) -> str:
        return self.constant((self.random.integers(-64, 64, count) / 16).astype(np.float32))

    def conv(self, x: str, filters: int, channels: int, size: int = 3, **attrs: Any) -> str:
        pads = (size // 2,) * 4
        settings = {"strides": (1, 1), "dilations": (1, 1), "pads": pads, "group": 1} | attrs
        w = self.weights(filters, channels // settings["group"], size, size)
        return self.add("conv", x, w, self.bias(filters), **settings)

    def program(self, *outputs: str) -> Program:
        return Program(
            "net", {"x": TensorType("f32", self.shape)}, outputs, tuple(self.nodes), self.constants
        )


def rectified(net: Net) -> str:
    y = net.add("relu", net.conv(net.pair("x", 2**-4, 113), 20, 3, strides=(2, 2)))
    return net.pair(net.conv(net.pair(y, 2**-4, 0), 17, 20, 1), 2**-3, 120)


def residual(net: Net) -> str:
    x = net.pair(net.conv(net.pair("x", 2**-4, 113), 20, 3), 2**-4, 77)
    y = net.pair(net.conv(x, 20, 20), 2**-3, 131)
    return net.pair(net.add("relu", net.add("add", x, y)), 2**-3, 3)


def residual_without_own_grid(net: Net) -> str:
    x = net.pair(net.conv(net.pair("x", 2**-4, 113), 20, 3), 2**-4, 77)
    return net.pair(net.add("add", net.conv(x, 20, 20), x), 2**-3, 130)


def clipped_between_pairs(net: Net) -> str:
    y = net.pair(net.conv(net.pair("x", 2**-4, 9), 24, 3), 2**-5, 128)
    low, high = (net.constant(np.float32(bound).reshape(())) for bound in (0, 2.5))
    y = net.pair(net.add("clip", y, low, high), 2**-5, 128)
    return net.pair(net.add("clip", net.conv(y, 24, 24, group=24), low, high), 2**-4, 11)


def signed_bytes(net: Net) -> str:
    y = net.pair(net.conv(net.pair("x", 2**-4, -7, np.int8), 20, 3), 2**-3, 5, np.int8)
    return net.pair(net.conv(y, 20, 20), 2**-3, -128, np.int8)


def pooled_and_joined(net: Net) -> str:
    x = net.pair("x", 2**-4, 113)
    left, right = net.pair(net.conv(x, 16, 3), 2**-3, 100), net.pair(net.conv(x, 20, 3), 2**-4, 140)
    y = net.pair(net.add("concat", left, right, axis=1), 2**-3, 90)
    window = {"kernel_shape": (3, 3), "strides": (2, 2), "pads": (1, 1, 1, 1)}
    y = net.pair(net.add("max_pool", y, **window), 2**-3, 90)
    return net.pair(net.conv(y, 18, 36), 2**-2, 127)


def shuffled(net: Net) -> str:
    """Every other channel of bytes goes past a convolution, the others through it, on one grid."""
    x = net.pair(net.conv(net.pair("x", 2**-4, 113), 24, 3), 2**-3, 100)
    for _ in range(2):
        bounds = [[net.constant(np.array([n])) for n in (i, 1 << 40, 1, 2)] for i in (0, 1)]
        past, through = (net.pair(net.add("slice", x, *bound), 2**-3, 100) for bound in bounds)
        made = net.pair(net.conv(through, 12, 12, 1), 2**-3, 100)
        x = net.pair(net.add("concat", past, made, axis=1), 2**-3, 100)
    return net.pair(net.conv(x, 18, 24), 2**-2, 127)


def pruned_and_pooled(net: Net) -> str:
    def pruned(x: str, filters: int, channels: int) -> str:
        y = net.conv(x, filters, channels)
        codes = next(array for array in reversed(net.constants.values()) if array.ndim == 4)
        codes[net.random.random(codes.shape) < 0.8] = 0
        return y

    y = net.pair(net.conv(net.pair("x", 2**-4, 113), 24, 3), 2**-3, 100)
    y = net.pair(pruned(y, 40, 24), 2**-3, 90)
    window = {"kernel_shape": (3, 2), "strides": (2, 3), "pads": (1, 0, 1, 1)}
    y = net.pair(net.add("max_pool", y, **window), 2**-3, 90)
    return net.pair(pruned(y, 18, 40), 2**-3, 127)


def rectified_by_halves(net: Net) -> str:
    """40 filters are two vectors and a half; bytes from 0 on take no shift and no bounds."""
    y = net.pair(net.add("relu", net.conv(net.pair("x", 2**-4, 113), 40, 3)), 2**-3, 0)
    y = net.pair(net.add("relu", net.conv(y, 20, 40)), 2**-1, 0)
    return net.pair(net.conv(y, 40, 20, 1), 1.0, 120)


def averaged(net: Net) -> str:
    y = net.pair(net.conv(net.pair("x", 2**-4, 113), 20, 3), 2**-3, 100)
    return net.add("global_average_pool", y)


def greatest(net: Net) -> str:
    y = net.pair(net.conv(net.pair("x", 2**-4, -7, np.int8), 20, 3), 2**-3, 5, np.int8)
    return net.add("global_max_pool", y)


def classified(net: Net) -> str:
    x = net.pair(net.conv(net.pair("x", 2**-4, 113), 20, 3, strides=(2, 2)), 2**-3, 128)
    flat = net.pair(net.add("flatten", x, axis=1), 2**-3, 128)
    size = 20 * -(-net.shape[2] // 2) * -(-net.shape[3] // 2)
    return net.add("gemm", flat, net.weights(size, 10, axis=1), net.bias(10))


def added_without_products(net: Net) -> str:
    y = net.add("add", net.pair("x", 2**-4, 113), net.pair(net.add("abs", "x"), 2**-3, 1))
    return net.pair(net.add("relu", y), 2**-3, 4)


def channels_last(net: Net) -> str:
    x = net.pair(net.add("transpose", "x", perm=(0, 3, 1, 2)), 2**-4, 113)
    return net.pair(net.conv(x, 20, net.shape[3]), 2**-2, 120)


def seen_as_one_channel(net: Net) -> str:
    batch, channels, height, width = net.shape
    shape = net.constant(np.array([batch, 1, channels * height, width]))
    return net.pair(net.conv(net.pair(net.add("reshape", "x", shape), 2**-4, 113), 20, 1), 2**-4, 120)


def made_of_tensors(net: Net) -> str:
    """What a convolution reads as bytes is computed over tensors, and what adds it to the answer is, too."""
    highest = net.add("reduce_max", "x", net.constant(np.array([1])), keepdims=1)
    x = net.pair(net.add("sub", "x", highest), 2**-4, 240)
    return net.pair(net.add("add", x, net.pair(net.conv(x, 3, 3), 2**-2, 100)), 2**-2, 130)


FORMS: list[Callable[[Net], str]] = [
    rectified, residual, residual_without_own_grid, clipped_between_pairs, signed_bytes, pooled_and_joined,
    classified, added_without_products, shuffled, channels_last, seen_as_one_channel, made_of_tensors,
]  # fmt: skip
ISAS = [host_isa(), *([isa_named("avx2")] if "avx2" in host_isa().features else [])]


def run(plan: NativePlan, x: Array, folder: Path) -> Array:
    write_folder(plan, folder)
    (answer,) = Model(folder)(x=x).values()
    return np.asarray(answer)


@pytest.mark.parametrize("most", [64, 65])
def test_weights_are_narrow_where_none_is_beyond_64(most: int) -> None:
    net = Net((1, 3, 5, 5))
    y = net.pair(net.conv(net.pair("x", 2**-4, 113), 8, 3), 2**-3, 100)
    codes = next(array for array in net.constants.values() if array.ndim == 4)
    codes[...] = np.clip(codes, -64, 64)
    codes[3, 1, 0, 2] = -most
    for isa in (isa_named("avx2"), isa_named("neon")):
        (kernel,) = make_plan(net.program(y), isa).kernels
        assert kernel.work.problem.narrow == (most == 64 and isa.name == "avx2")  # type: ignore[union-attr]


def test_code_for_bytes_needs_products_of_bytes_alone() -> None:
    net = Net((1, 3, 5, 5))
    program = net.program(net.pair(net.conv(net.pair("x", 2**-4, 113), 8, 3), 2**-3, 100))
    for name, feature, other in (("avx512", "avx512_vnni", "avx512_bf16"), ("neon", "dotprod", "fp16")):
        assert make_plan(program, isa_named(name, [feature, other])).needed == isa_named(name, [feature])


@pytest.mark.parametrize("isa", ISAS, ids=lambda isa: isa.name)
@pytest.mark.parametrize("form", FORMS, ids=lambda form: form.__name__)
def test_answers_are_equal_to_the_bit(form: Callable[[Net], str], isa: Isa, tmp_path: Path) -> None:
    net = Net((2, 3, 9, 11))
    program = net.program(form(net))
    x = (np.random.default_rng(1).integers(-96, 96, net.shape) / 16).astype(np.float32)
    plan = make_plan(program, isa)
    truth = interpret(program, {"x": x})[program.outputs[0]]
    answer = run(plan, x, tmp_path / "model")
    assert len(np.unique(truth)) > 15, "the test says nothing if everything saturates"
    assert np.array_equal(answer, truth)


# Images at least as wide as a vector, of which the last one of a row overlaps its neighbour.
WIDE = [
    *((form, (1, 3, 5, 19)) for form in (rectified, signed_bytes, rectified_by_halves)),
    *((form, (2, 3, 4, 32)) for form in (rectified_by_halves, averaged, greatest)),
]


@pytest.mark.parametrize("isa", ISAS, ids=lambda isa: isa.name)
@pytest.mark.parametrize(("form", "shape"), WIDE, ids=lambda each: getattr(each, "__name__", None))
def test_wide_images_are_equal_to_the_bit(
    form: Callable[[Net], str], shape: tuple[int, ...], isa: Isa, tmp_path: Path
) -> None:
    net = Net(shape)
    program = net.program(form(net))
    x = (np.random.default_rng(1).integers(-96, 96, net.shape) / 16).astype(np.float32)
    answer = run(make_plan(program, isa), x, tmp_path / "model")
    truth = interpret(program, {"x": x})[program.outputs[0]]
    assert len(np.unique(truth)) > 15, "the test says nothing if everything saturates"
    assert np.array_equal(answer, truth)


def test_a_pool_of_whole_images_reads_codes() -> None:
    for form in (averaged, greatest):
        net = Net((1, 3, 9, 11))
        plan = make_plan(net.program(form(net)), host_isa())
        assert sum(isinstance(action.work, GlobalPoolRoutine) for action in plan.actions) == 1
        assert not any(isinstance(action.work, Pointwise) for action in plan.actions)


def read_at_once(net: Net) -> str:
    return net.pair("x", 2**-4, 113)


def read_from_blocks(net: Net) -> str:
    return net.pair(net.add("max_pool", "x", kernel_shape=(1, 2), strides=(1, 1)), 2**-4, 113)


def grown(net: Net) -> str:
    return net.pair(net.add("exp", net.conv(net.pair("x", 2**-4, 113), 3, 3, 1)), 2**-4, 1)


@pytest.mark.parametrize("isa", [host_isa(), isa_named("generic")], ids=lambda isa: isa.name)
@pytest.mark.parametrize("form", [read_at_once, read_from_blocks, grown], ids=lambda form: form.__name__)
@pytest.mark.parametrize("width", [7, 19])
def test_numbers_beyond_32_bits_become_the_last_code(
    width: int, form: Callable[[Net], str], isa: Isa, tmp_path: Path
) -> None:
    net = Net((1, 3, 5, width))
    program = net.program(net.conv(form(net), 20, 3, 1))
    x = (np.random.default_rng(1).integers(-96, 96, net.shape) / 16).astype(np.float32)
    x[0, 0, :, 2] = np.inf, 1e30, -1e30, -np.inf, 2.0**28
    answer = run(make_plan(program, isa), x, tmp_path / "model")
    assert np.array_equal(answer, interpret(program, {"x": x})[program.outputs[0]])


def test_pruned_bytes_are_equal_to_the_bit(tmp_path: Path) -> None:
    net = Net((2, 3, 9, 11))
    program = net.program(pruned_and_pooled(net))
    plan = make_plan(program, host_isa(), lambda _: only("sparse_int8", estimated(0)))
    chosen = [kernel.work.name for kernel in plan.kernels]  # type: ignore[union-attr]
    assert chosen == ["spatial_pack", "sparse_int8", "sparse_int8"]
    x = (np.random.default_rng(1).integers(-96, 96, net.shape) / 16).astype(np.float32)
    answer = run(plan, x, tmp_path / "model")
    assert np.array_equal(answer, interpret(program, {"x": x})[program.outputs[0]])


def test_bytes_cross_the_border_of_a_program(tmp_path: Path) -> None:
    net = Net((2, 20, 5, 7))
    scale, zero = net.constant(np.float32(2**-4).reshape(())), net.constant(np.asarray(113, np.uint8))
    y = net.conv(net.add("dequantize_linear", "x", scale, zero), 17, 20)
    coarse, middle = net.constant(np.float32(2**-3).reshape(())), net.constant(np.asarray(127, np.uint8))
    program = net.program(net.add("quantize_linear", y, coarse, middle))
    program = replace(program, inputs={"x": TensorType("u8", net.shape)}, _known={})
    x = np.random.default_rng(1).integers(0, 256, net.shape).astype(np.uint8)
    answer = run(make_plan(program, host_isa()), x, tmp_path / "model")
    assert np.array_equal(answer, interpret(program, {"x": x})[program.outputs[0]])


def test_several_zero_points_beside_one_scale_are_not_one() -> None:
    net = Net((2, 4))
    scale, zeros = net.constant(np.float32(0.5).reshape(())), net.constant(np.arange(4, dtype=np.uint8))
    program = net.program(net.add("quantize_linear", "x", scale, zeros, axis=1))
    assert parameters_of(program, program.nodes[0]) is None


@pytest.mark.parametrize("scale", [-0.25, 0.0])
def test_codes_that_do_not_rise_are_not_clipped_or_compared(scale: float, tmp_path: Path) -> None:
    net = Net((1, 3, 5, 7))
    y = net.conv(net.pair("x", 2**-4, 113), 20, 3)
    clipped = net.pair(net.add("relu", y), scale, 128)
    program = net.program(clipped, net.add("global_max_pool", net.pair(y, scale, 5, np.int8)))
    write_folder(make_plan(program, host_isa()), tmp_path / "model")
    x = (np.random.default_rng(1).integers(-96, 96, net.shape) / 16).astype(np.float32)
    found = Model(tmp_path / "model")(x=x)
    for name, array in interpret(program, {"x": x}).items():
        assert np.array_equal(found[name], array)


def test_zero_points_that_are_computed_are_not_none(tmp_path: Path) -> None:
    net = Net((1, 2, 5, 5))
    x = net.pair("x", 2**-4, 113)
    most = net.add("reduce_max", "x", net.constant(np.array([0, 2, 3])), keepdims=0)
    zeros = net.add("cast", net.add("concat", most, most, axis=0), to=3)
    codes = net.constant(net.random.integers(-127, 128, (4, 2, 3, 3)).astype(np.int8))
    weights = net.add("dequantize_linear", codes, net.constant(np.full(4, 2**-7, np.float32)), zeros, axis=0)
    settings = {"strides": (1, 1), "dilations": (1, 1), "pads": (1,) * 4, "group": 1}
    program = net.program(net.pair(net.add("conv", x, weights, **settings), 2**-2, 120))
    images = (np.random.default_rng(1).integers(16, 96, net.shape) / 16).astype(np.float32)
    answer = run(make_plan(program, host_isa()), images, tmp_path / "model")
    assert np.array_equal(answer, interpret(program, {"x": images})[program.outputs[0]])


def test_signed_bytes_at_the_border_are_refused() -> None:
    net = Net((1, 3, 5, 5))
    scale, zero = net.constant(np.float32(0.5).reshape(())), net.constant(np.asarray(0, np.int8))
    program = net.program(net.add("quantize_linear", net.conv("x", 4, 3), scale, zero))
    with pytest.raises(EngineError, match="at the border"):
        make_plan(program, host_isa())


def test_sums_of_bytes_lie_where_their_residuals_lay() -> None:
    net = Net((1, 3, 9, 11))
    x = net.pair(net.conv(net.pair("x", 2**-4, 113), 20, 3), 2**-4, 77)
    body = net.pair(net.conv(x, 20, 20), 2**-3, 120)
    y = net.pair(net.add("add", net.conv(body, 20, 20, 1), x), 2**-3, 130)
    plan = make_plan(net.program(net.pair(net.conv(y, 17, 20, 1), 2**-2, 99)), host_isa())
    (added,) = (action for action in plan.kernels if len(action.reads) == 2)
    assert plan.places[added.reads[1]] == plan.places[added.writes], "x alone is read with a halo"


def test_no_number_is_floating_between_8_bit_kernels() -> None:
    for form in (residual, residual_without_own_grid, clipped_between_pairs, pooled_and_joined, shuffled):
        net = Net((1, 3, 9, 11))
        plan = make_plan(net.program(form(net)), host_isa())
        floats = [action for action in plan.actions if isinstance(action.work, Pointwise)]
        assert len(floats) == 1, "the last dequantization alone"


def test_inputs_become_bytes_in_one_go_however_they_are_seen() -> None:
    for form, before in ((residual, []), (channels_last, ["Strided"]), (seen_as_one_channel, [])):
        net = Net((1, 3, 9, 11))
        plan = make_plan(net.program(form(net)), host_isa())
        kinds = [type(action.work).__name__ for action in plan.actions]
        first = next(index for index, action in enumerate(plan.actions) if action in plan.kernels)
        assert kinds[:first] == [*before, "Quantize"]


def test_sums_that_do_not_fit_are_left_to_floats() -> None:
    net = Net((1, 3, 5, 5))
    x = net.pair("x", 2**-4, 113)
    scale = net.constant(np.full(4, 2.0**20, np.float32))
    codes = net.constant(np.full((4, 3, 1, 1), 127, np.int8))
    w = net.add("dequantize_linear", codes, scale, net.constant(np.zeros(4, np.int8)), axis=0)
    settings = {"strides": (1, 1), "dilations": (1, 1), "pads": (0, 0, 0, 0), "group": 1}
    plan = make_plan(net.program(net.pair(net.add("conv", x, w, **settings), 2**-20, 0)), host_isa())
    assert [kernel.work.problem.dtype for kernel in plan.kernels] == ["f32"]  # type: ignore[union-attr]
