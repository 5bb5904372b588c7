"""Compiled programs answer as the interpreter does."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from native_programs import Net, answers, compile_folder

from tensmith.backend.native.groups import group
from tensmith.backend.native.loader import Model
from tensmith.backend.native.plan import fixed, make_plan
from tensmith.backend.native.steps import Heavy, Light
from tensmith.engine import ENGINES
from tensmith.errors import EngineError
from tensmith.frontend.onnx import read_onnx
from tensmith.ir import Program
from tensmith.kernel import host_isa


def residual_block() -> Program:
    """Two convolutions, a strided shortcut, sums and activations; halos that differ."""
    net = Net(2, 3, 18, 14)
    stem = net.add("relu", net.conv("x", 3, 20))
    body = net.conv(net.add("relu", net.conv(stem, 20, 32, strides=(2, 2))), 32, 32)
    shortcut = net.conv(stem, 20, 32, 1, strides=(2, 2))
    joined = net.add("relu", net.add("add", body, shortcut))
    low, high = net.constant(values=np.float32(-1)), net.constant(values=np.float32(2))
    return net.program(net.add("clip", net.conv(joined, 32, 17), low, high), joined)


def concatenations() -> Program:
    """Parts that fill blocks, parts that do not, one used twice, and one that is another's part."""
    net = Net(1, 16, 6, 7)
    a, b, c = net.conv("x", 16, 32), net.conv("x", 16, 16, 1), net.conv("x", 16, 5)
    inner = net.add("concat", a, b, axis=1)
    whole = net.add("concat", inner, c, a, "x", axis=1)
    return net.program(net.conv(whole, 32 + 16 + 5 + 32 + 16, 8), inner)


def pools() -> Program:
    """Windows over borders, counted and not, with ceil; whole images."""
    net = Net(1, 20, 11, 9)
    deep = net.conv("x", 20, 20)
    a = net.add("max_pool", deep, kernel_shape=(3, 3), strides=(2, 2), pads=(1, 1, 1, 1))
    b = net.add("average_pool", deep, kernel_shape=(2, 3), strides=(2, 2), pads=(0, 1, 1, 1), ceil_mode=1)
    c = net.add("average_pool", deep, kernel_shape=(3, 3), pads=(1, 1, 1, 1), count_include_pad=1)
    d = net.add("global_average_pool", a)
    return net.program(a, b, c, d)


def classifier() -> Program:
    """Flattened images, fully connected layers, probabilities."""
    net = Net(3, 6, 5, 4)
    rows = net.add("flatten", net.add("relu", net.conv("x", 6, 12)))
    hidden = net.add("relu", net.add("gemm", rows, net.constant(50, 240), net.constant(50), transB=1))
    logits = net.add("matmul", hidden, net.constant(50, 11))
    return net.program(net.add("softmax", net.add("add", logits, net.constant(11)), axis=1))


def squeeze_excite() -> Program:
    """Depthwise, swish in two forms, a channel scale that is computed, one that is constant."""
    net = Net(1, 24, 10, 9)
    x = net.conv("x", 24, 24, 5, group=24)
    x = net.add("mul", x, net.add("sigmoid", x))
    gate = net.add("sigmoid", net.conv(net.add("global_average_pool", x), 24, 24, 1))
    scaled = net.add("mul", net.add("mul", x, gate), net.constant(1, 24, 1, 1))
    return net.program(net.add("tanh", net.add("sub", scaled, "x")))


def shortcut_of_zeros() -> Program:
    """Every other pixel, padded with channels of zeros: the shortcut of the CIFAR ResNets."""
    net = Net(1, 16, 8, 8)
    ints = [net.constant(values=np.array(v, np.int64)) for v in ([0, 0], [99, 99], [2, 3], [2, 2])]
    pads = net.constant(values=np.array([0, 8, 0, 0, 0, 8, 0, 0], np.int64))
    short = net.add("pad", net.add("slice", "x", *ints), pads)
    return net.program(net.add("relu", net.add("add", net.conv("x", 16, 32, strides=(2, 2)), short)))


def reshapes() -> Program:
    """Planes seen under another shape, with a border wanted before and after."""
    net = Net(2, 8, 6, 6)
    shape = net.constant(values=np.array([2, 16, 6, 3], np.int64))
    return net.program(net.conv(net.add("reshape", net.conv("x", 8, 8), shape), 16, 4))


def sequences() -> Program:
    """Convolutions along one axis: strided, dilated, depthwise, with a shortcut."""
    net = Net(2, 5, 33)
    x = net.add("relu", net.add("conv", "x", net.constant(24, 5, 7), net.constant(24), pads=(3, 3), group=1))
    deep = net.add("conv", x, net.constant(24, 1, 3), pads=(2, 2), dilations=(2,), group=24)
    wide = net.add("add", x, net.add("conv", deep, net.constant(24, 24, 1), net.constant(24), group=1))
    return net.program(net.add("conv", wide, net.constant(10, 12, 4), strides=(3,), pads=(1, 0), group=2))


NETS = (
    sequences,
    residual_block,
    concatenations,
    pools,
    classifier,
    squeeze_excite,
    shortcut_of_zeros,
    reshapes,
)


@pytest.mark.parametrize("build", NETS, ids=lambda build: build.__name__)
def test_answers_are_the_interpreter_s(build: Callable[[], Program], tmp_path: Path) -> None:
    found, expected = answers(build(), tmp_path)
    for name, array in expected.items():
        # Inputs and weights are scaled so that values stay near 1; a few hundred roundings in a row.
        np.testing.assert_allclose(found[name], array, rtol=0, atol=3e-5)


def test_an_epilogue_takes_all_it_can() -> None:
    net = Net(1, 16, 8, 8)
    shortcut = net.conv("x", 16, 16)
    joined = net.add("relu", net.add("add", net.conv("x", 16, 16), shortcut))
    steps = group(net.program(joined), host_isa())
    assert [type(step) for step in steps] == [Heavy, Heavy]
    assert steps[1].residual == steps[0].output or steps[1].residual == shortcut
    assert steps[1].activation is not None and steps[1].activation.name == "relu"


def test_a_value_that_is_read_twice_stays_outside_of_epilogues() -> None:
    net = Net(1, 16, 8, 8)
    x = net.conv("x", 16, 16)
    steps = group(net.program(net.add("relu", x), net.add("tanh", x)), host_isa())
    assert [type(step) for step in steps] == [Heavy, Light, Light]


def test_a_node_without_a_kernel_is_named() -> None:
    net = Net(1, 4, 6, 6)
    net.add("lrn", "x", size=3)
    with pytest.raises(EngineError, match=r"'v0' .lrn. has no native kernel"):
        make_plan(net.program("v0"), host_isa())


def test_a_bound_call_repeats_itself(tmp_path: Path) -> None:
    program = residual_block()
    model = Model(compile_folder(program, tmp_path))
    x = np.random.default_rng(2).standard_normal((2, 3, 18, 14)).astype(np.float32)
    step, outputs = model.bind({"x": x})
    step()
    first = {name: array.copy() for name, array in outputs.items()}
    for _ in range(3):
        step()
    for name, array in outputs.items():
        np.testing.assert_array_equal(array, first[name])


@pytest.mark.data
@pytest.mark.parametrize("name", ["resnet20_cifar10", "squeezenet1_1_imagenet", "mobilenetv2_imagenet"])
def test_real_networks(data_dir: Path, name: str, tmp_path: Path) -> None:
    path = data_dir / "models" / f"{name}.onnx"
    program = fixed(read_onnx(path), {"batch": 1})
    shape = program.inputs["input"].static
    assert shape is not None
    x = np.random.default_rng(3).standard_normal(shape).astype(np.float32)
    found = Model(compile_folder(program, tmp_path))(input=x)
    expected = ENGINES["onnxruntime"].prepare(path, 1).run({"input": x})
    for output, array in expected.items():
        spread = float(array.max() - array.min())
        assert abs(found[output] - array).max() <= 1e-5 * spread
