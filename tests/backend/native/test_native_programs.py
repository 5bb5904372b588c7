"""Compiled programs answer as the interpreter does."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from native_programs import answers, compile_folder, steps_of
from onnx import TensorProto, helper

from nets import NETS, Net, residual_block
from tensmith.backend.native.emit.loader import Model
from tensmith.backend.native.plan import fixed, make_plan
from tensmith.backend.native.steps.step import Heavy, Light
from tensmith.engine import ENGINES
from tensmith.errors import EngineError
from tensmith.frontend.onnx import read_onnx
from tensmith.ir import Program
from tensmith.kernel import host_isa


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
    steps = steps_of(net.program(joined))
    assert [type(step) for step in steps] == [Heavy, Heavy]
    assert steps[1].residual == steps[0].output or steps[1].residual == shortcut
    assert steps[1].activation is not None and steps[1].activation.name == "relu"


def test_an_epilogue_takes_any_function_of_one_value() -> None:
    net = Net(1, 16, 8, 8)
    x = net.conv("x", 16, 16)
    (step,) = steps_of(net.program(net.add("mish", net.add("mul", x, net.add("sigmoid", x)))))
    assert isinstance(step, Heavy) and step.activation is not None


def test_a_value_that_is_read_twice_stays_outside_of_epilogues() -> None:
    net = Net(1, 16, 8, 8)
    x = net.conv("x", 16, 16)
    steps = steps_of(net.program(net.add("relu", x), net.add("tanh", x)))
    assert [type(step) for step in steps] == [Heavy, Light, Light]


def test_a_node_without_a_kernel_is_named() -> None:
    net = Net(1, 4, 6, 6)
    shifted = net.add("cast", net.conv("x", 4, 4), to=7)
    net.add("bit_shift", shifted, shifted, direction="LEFT")
    with pytest.raises(EngineError, match=r"'v2' .bit_shift. has no native kernel"):
        make_plan(net.program("v2"), host_isa())


def test_outputs_that_are_the_same_for_all_inputs_are_written_too(tmp_path: Path) -> None:
    net = Net(1, 4, 6, 6)
    scale = net.constant(1, 4, 1, 1)
    same = [
        net.constant(values=np.int64([[3, -1]])), net.constant(values=np.float32(0.5)),
        net.constant(values=np.array([True, False])), scale, net.add("add", scale, scale),
    ]  # fmt: skip
    body = net.add("mul", net.conv("x", 4, 4), scale)
    found, expected = answers(net.program(same[0], body, *same[1:]), tmp_path)
    for name in same:
        assert found[name].dtype == net.program(name).type(name).numpy
        np.testing.assert_array_equal(found[name], expected[name])
    np.testing.assert_allclose(found[body], expected[body], rtol=0, atol=1e-6)


def test_what_is_computed_of_constants_is_written_where_tensors_read_it(tmp_path: Path) -> None:
    net = Net(2, 3)
    anchors = net.add("add", net.constant(2, 3), net.constant(2, 3))
    whole = net.add("cast", net.constant(values=np.float32([0, 1])), to=7)
    y = net.add("softmax", net.add("mul", "x", anchors), axis=1)
    found, expected = answers(net.program(y, anchors, whole, net.add("gather", anchors, whole)), tmp_path)
    for name, array in expected.items():
        np.testing.assert_allclose(found[name], array, rtol=0, atol=1e-6)


def test_constants_that_native_memory_does_not_hold_are_refused(tmp_path: Path) -> None:
    for values in (np.zeros((0, 4), np.float32), np.array(["word"], object), np.float64([0.5])):
        net = Net(2, 3)
        program = net.program(net.add("relu", "x"), net.constant(values=values))
        with pytest.raises(EngineError, match="no native kernel for that yet"):
            make_plan(program, host_isa())


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


def test_sizes_go_by_the_file_s_names() -> None:
    """Exporters write sums of sizes as names."""
    ends = [helper.make_tensor_value_info(n, TensorProto.FLOAT, ["batch size", "past + 1"]) for n in "xy"]
    graph = helper.make_graph([helper.make_node("Relu", ["x"], ["y"])], "g", ends[:1], ends[1:])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
    program = fixed(read_onnx(model), {"batch size": 2, "past + 1": 3})
    assert program.inputs["x"].static == (2, 3)


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
