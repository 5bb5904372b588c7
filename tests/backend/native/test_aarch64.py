"""Programs compiled for aarch64, run under qemu, answer as the interpreter does."""

from __future__ import annotations

import lzma
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from aarch64_runs import build, needs_qemu, run
from test_native_codes import FORMS as CODED
from test_native_quantized import FORMS
from test_native_quantized import Net as QuantizedNet
from test_native_recurrence import layers_of_codes
from test_native_tensors import attention_layer, layers, patches

from nets import Net, classifier, concatenations, pools, residual_block, squeeze_excite
from tensmith.backend.native.choose.choosers import Chooser, estimated
from tensmith.backend.native.choose.precision import InPrecision
from tensmith.backend.native.emit.folder import write_folder
from tensmith.backend.native.emit.loader import Model, ModelError
from tensmith.backend.native.plan import fixed, make_plan
from tensmith.frontend.onnx import read_onnx
from tensmith.ir import Program, interpret
from tensmith.kernel import Isa, isa_named

pytestmark = needs_qemu

PLAIN, DOT, MATRIX = (isa_named("neon", features) for features in ((), ("fp16", "dotprod"), ("i8mm",)))


def winograd() -> Program:
    """Enough channels that the layers are computed by minimal filtering."""
    net = Net(1, 16, 24, 22)
    return net.program(net.conv(net.add("relu", net.conv("x", 16, 32)), 32, 16))


def sparse() -> Program:
    """Weights of which few are not zero."""
    net = Net(1, 32, 14, 14)
    program = net.program(net.conv("x", 32, 64), net.conv("x", 32, 64, 1))
    for weights in program.constants.values():
        weights[net.random.random(weights.shape) < 0.9] = 0
    return program


def codes() -> Program:
    """Products by weights of few bits in every form."""
    net = Net(1, 3, 96)
    return net.program(*(build(net) for build, _ in CODED.values()))


NETS = (
    residual_block, concatenations, pools, classifier, squeeze_excite, winograd, sparse, layers,
    attention_layer(2, 20, "causal"), patches, codes,
)  # fmt: skip
# The one algorithm that a network is about.
_ABOUT = {winograd: "winograd", sparse: "sparse"}


@pytest.mark.parametrize("net", NETS, ids=lambda net: net.__qualname__)
def test_floats_are_the_interpreter_s(net: Callable[[], Program], tmp_path: Path) -> None:
    program = net()
    x = np.random.default_rng(1).standard_normal(program.inputs["x"].static or ()).astype(np.float32)
    built = build(program, PLAIN, tmp_path)
    if net in _ABOUT:
        assert {action.work.name for action in built[1].kernels} == {_ABOUT[net]}  # type: ignore[union-attr]
    found = run(built, x)
    for name, expected in interpret(program, {"x": x}).items():
        np.testing.assert_allclose(found[name], expected, rtol=0, atol=3e-5)


@pytest.mark.parametrize("isa", [PLAIN, DOT, MATRIX], ids=["widened", "dotprod", "i8mm"])
def test_bytes_are_equal_to_the_bit(isa: Isa, tmp_path: Path) -> None:
    net = QuantizedNet((2, 3, 9, 11))
    program = net.program(*(form(net) for form in FORMS))
    x = (np.random.default_rng(1).integers(-96, 96, net.shape) / 16).astype(np.float32)
    found = run(build(program, isa, tmp_path), x)
    for name, expected in interpret(program, {"x": x}).items():
        assert len(np.unique(expected)) > 15, "the test says nothing if everything saturates"
        np.testing.assert_array_equal(found[name], expected)


@pytest.mark.parametrize("isa", [PLAIN, DOT, MATRIX], ids=["widened", "dotprod", "i8mm"])
def test_states_times_bytes(isa: Isa, tmp_path: Path) -> None:
    program = layers_of_codes()[0]
    x = np.random.default_rng(1).standard_normal((3, 2, 16)).astype(np.float32)
    found = run(build(program, isa, tmp_path), x)
    for name, expected in interpret(program, {"x": x}).items():
        np.testing.assert_allclose(found[name], expected, rtol=2e-5, atol=2e-6)


def test_halves_keep_their_error_bound(tmp_path: Path) -> None:
    """Ragged channels, filters and tiles; strides, dilations, groups, residual and activation behind."""
    net = Net(2, 19, 9, 11)
    x = np.random.default_rng(1).standard_normal(net.shape).astype(np.float32)
    convolutions = (
        net.conv("x", 19, 45), net.conv("x", 19, 8, strides=(2, 2)), net.conv("x", 19, 12, 1),
        net.conv("x", 19, 21, dilations=(2, 2)), net.conv("x", 19, 19, 3, group=19),
    )  # fmt: skip
    program = net.program(*convolutions, net.add("relu", net.add("add", net.conv("x", 19, 19), "x")))
    built = build(program, DOT, tmp_path, InPrecision(only_halves, "f16"))
    assert {action.work.problem.dtype for action in built[1].kernels} == {"f16"}  # type: ignore[union-attr]
    found, expected = run(built, x), interpret(program, {"x": x})
    constants = {name: abs(array) for name, array in program.constants.items()}
    sizes = interpret(replace(program, constants=constants, _known={}), {"x": abs(x)})
    steps = (19 * 9 + 4) * 2.0**-11
    for name, array in expected.items():
        assert np.all(abs(found[name] - array) <= steps / (1 - steps) * sizes[name])
        assert abs(found[name] - array).max() > 1e-5, "halves would be less exact"


def only_halves(weight_bytes: int) -> Chooser:
    """The kernels for halves alone."""
    choose = estimated(weight_bytes)
    return lambda problem, isa, beside: choose(problem, isa, beside) if problem.dtype == "f16" else []


def test_another_machine_is_refused(tmp_path: Path) -> None:
    net = Net(1, 3, 6, 6)
    write_folder(make_plan(net.program(net.conv("x", 3, 4)), DOT), tmp_path / "model")
    with pytest.raises(ModelError, match="compiled for aarch64, and this machine is"):
        Model(tmp_path / "model")


@pytest.mark.data
@pytest.mark.parametrize(
    ("chooser", "error"),
    [(estimated, 1e-5), (InPrecision(only_halves, "f16"), 5e-3)],
    ids=["floats", "halves"],
)
def test_resnet20_answers_as_the_interpreter(
    data_dir: Path, tmp_path: Path, chooser: Callable[[int], Chooser], error: float
) -> None:
    program = fixed(read_onnx(data_dir / "models" / "resnet20_cifar10.onnx"), {"batch": _IMAGES})
    with lzma.open(data_dir / "cifar10" / "test_batch.bin.xz") as file:
        records = np.frombuffer(file.read(_IMAGES * 3073), np.uint8).reshape(_IMAGES, 3073)
    pixels = records[:, 1:].reshape(-1, 3, 32, 32).astype(np.float32) / 255
    x = (pixels - _MEAN.reshape(3, 1, 1)) / _SPREAD.reshape(3, 1, 1)
    (expected,) = interpret(program, {"input": x}).values()
    (found,) = run(build(program, DOT, tmp_path, chooser), x).values()
    assert abs(found - expected).max() <= error * np.ptp(expected)
    assert np.array_equal(found.argmax(1), expected.argmax(1))
    assert np.count_nonzero(found.argmax(1) == records[:, 0]) >= _IMAGES - 1


_IMAGES = 4
_MEAN, _SPREAD = np.float32([0.485, 0.456, 0.406]), np.float32([0.229, 0.224, 0.225])
