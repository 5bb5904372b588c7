"""Ops without a kernel of their own run by their formulas, and mean what the interpreter says."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from native_programs import Net, answers, compile_folder, steps_of

from tensmith.backend.native.emit.loader import Model
from tensmith.backend.native.steps.step import Dense
from tensmith.errors import EngineError
from tensmith.formula.expr import compute
from tensmith.ir import Program, TensorType, interpret, make_node
from tensmith.ir.op import OPS
from tensmith.kernel.routines.computed import Computed
from tensmith.kernel.routines.running import Running


def ints(net: Net, *values: int) -> Any:
    return net.constant(values=np.array(values, np.int64))


def everything(net: Net) -> list[str]:
    """x: [batch, 6, 5, 7]."""
    weights = net.constant(values=np.linspace(0.5, 1.5, 6).astype(np.float32))
    flat = net.add("reshape", "x", ints(net, 0, 6, 35))
    square = net.add("matmul", flat, net.add("transpose", flat, perm=(0, 2, 1)))
    tall = net.add("concat", "x", "x", axis=1)
    return [
        net.add("log_softmax", "x", axis=1),
        net.add("log_softmax", "x", axis=-1),
        net.add("softmax", "x", axis=2),
        net.add("instance_normalization", "x", weights, weights, epsilon=1e-3),
        net.add("group_normalization", "x", weights, weights, num_groups=3),
        net.add("lp_normalization", "x", axis=1, p=2),
        net.add("mean_variance_normalization", "x"),
        net.add("lrn", "x", size=3),
        net.add("reduce_l2", "x", ints(net, 1, 3), keepdims=0),
        net.add("reduce_prod", "x", ints(net, 2)),
        net.add("reduce_log_sum_exp", "x", ints(net, -1)),
        net.add("reduce_max", "x", ints(net, 0, 2)),
        net.add("cum_sum", "x", net.constant(values=np.int64(2)), reverse=1),
        net.add("depth_to_space", net.add("concat", "x", "x", axis=1), blocksize=2),
        net.add("space_to_depth", net.add("slice", "x", ints(net, 0, 1), ints(net, 4, 7), ints(net, 2, 3)),
                blocksize=2),
        net.add("trilu", square, upper=0),
        net.add("einsum", flat, square, equation="bij,bki->bkj"),
        net.add("pad", "x", ints(net, 0, 0, 2, 1, 0, 0, 1, 3), mode="reflect"),
        net.add("pad", "x", ints(net, 0, 1, 1, 1, 0, 0, 1, 1), mode="edge"),
        net.add("tile", tall, ints(net, 1, 1, 2, 1)),
        net.add("max_pool", flat, kernel_shape=(3,), pads=(1, 1), strides=(2,)),
        net.add("average_pool", flat, kernel_shape=(4,), pads=(1, 2)),
        net.add("lp_pool", "x", kernel_shape=(2, 3)),
        net.add("mish", net.add("softplus", net.add("atan", "x"))),
        net.add("mod", "x", net.constant(values=np.float32(0.7)), fmod=1),
    ]  # fmt: skip


@pytest.mark.parametrize("batch", [1, 3])
def test_formulas_as_loops(batch: int, tmp_path: Path) -> None:
    net = Net(batch, 6, 5, 7)
    outputs = everything(net)
    found, expected = answers(net.program(*outputs), tmp_path)
    for node, name in zip((next(n for n in net.nodes if n.output == o) for o in outputs), outputs):
        scale = abs(expected[name]).max()
        assert np.allclose(found[name], expected[name], rtol=2e-5, atol=2e-5 * scale), node.op


def test_what_is_not_finite_passes_through(tmp_path: Path) -> None:
    net = Net(2, 6, 5, 7)
    outputs = [
        net.add("log_softmax", "x", axis=1),
        net.add("softmax", "x", axis=2),
        net.add("resize", "x", "", "", ints(net, 2, 6, 10, 7)),
        net.add("reduce_max", "x", ints(net, 1)),
        net.add("depth_to_space", net.add("concat", "x", "x", axis=1), blocksize=2),
        net.add("pad", "x", ints(net, 0, 0, 2, 1, 0, 0, 1, 3), mode="reflect"),
        net.add("reduce_prod", "x", ints(net, 3)),
    ]
    program = net.program(*outputs)
    x = np.random.default_rng(3).standard_normal((2, 6, 5, 7)).astype(np.float32)
    x[0, 1, 2, 3], x[1, 2, 3, 4], x[1, 5, 0, 0] = np.nan, np.inf, -np.inf
    found: dict[str, Any] = Model(compile_folder(program, tmp_path))(x=x)
    with np.errstate(all="ignore"):
        expected = interpret(program, {"x": x})
    for name in outputs:
        np.testing.assert_allclose(found[name], expected[name], rtol=2e-5, atol=2e-5)


def test_integers_stay_integers(tmp_path: Path) -> None:
    net = Net(2, 3, 4)
    whole = net.add("cast", net.add("mul", "x", net.constant(values=np.float32(1e3))), to=7)
    big = net.add("add", whole, net.constant(values=np.int64(1 << 40)))
    outputs = [
        net.add("reduce_max", big, ints(net, 1)),
        net.add("reduce_sum", big, ints(net, 0)),
        net.add("bitwise_and", big, net.constant(values=np.int64(0xFFFF0000FFFF))),
        net.add("mod", big, net.constant(values=np.int64(-7))),
        net.add("trilu", big),
    ]
    program: Program = net.program(*outputs)
    found, expected = answers(program, tmp_path)
    for name in outputs:
        assert np.array_equal(found[name], expected[name])


RUNS: list[dict[str, Any]] = [{}, {"exclusive": 1}, {"reverse": 1}, {"exclusive": 1, "reverse": 1}]


def test_running_totals_take_one_step_an_element(tmp_path: Path) -> None:
    """Of whole numbers they wrap."""
    net = Net(2, 3, 40, 5)
    whole = net.add("cast", net.add("mul", "x", net.constant(values=np.float32(1e18))), to=7)
    taken = [("cum_sum", "x"), ("cum_prod", "x"), ("cum_sum", whole), ("cum_prod", whole)]
    names = [
        net.add(op, value, net.constant(values=np.int64(axis)), **run)
        for op, value in taken
        for axis in (0, -2, 3)
        for run in RUNS
    ]
    program = net.program(*names)
    found, expected = answers(program, tmp_path)
    for name in names:
        np.testing.assert_allclose(found[name], expected[name], rtol=1e-5, atol=1e-5)
    routines = [type(step.routine) for step in steps_of(program) if isinstance(step, Dense)]
    assert routines.count(Running) == len(names) and Computed not in routines


RESIZED: list[dict[str, Any]] = [
    {"mode": "nearest", "coordinate_transformation_mode": "asymmetric", "nearest_mode": "floor"},
    {"mode": "nearest"},
    {"mode": "linear"},
    {"mode": "linear", "coordinate_transformation_mode": "align_corners"},
    {"mode": "linear", "coordinate_transformation_mode": "pytorch_half_pixel"},
    {"mode": "cubic"},
    {"mode": "cubic", "cubic_coeff_a": -0.5, "exclude_outside": 1},
    {"mode": "linear", "antialias": 1},
    {"mode": "linear", "coordinate_transformation_mode": "half_pixel_symmetric"},
]


@pytest.mark.parametrize("batch", [1, 2])
def test_resizing(batch: int, tmp_path: Path) -> None:
    net = Net(batch, 3, 5, 7)
    outputs = [
        net.add("resize", "x", "", "", ints(net, batch, 3, *size), **case)
        for case in RESIZED
        for size in ((10, 14), (3, 9), (5, 7))
    ]
    box = net.constant(values=np.array([0, 0, 0.2, 0.1, 1, 1, 1.2, 0.7], np.float32))
    outputs.append(
        net.add(
            "resize", "x", box, "", ints(net, batch, 3, 4, 6), mode="linear",
            coordinate_transformation_mode="tf_crop_and_resize", extrapolation_value=-9.0,
        )
    )  # fmt: skip
    found, expected = answers(net.program(*outputs), tmp_path)
    for number, name in enumerate(outputs):
        assert np.allclose(found[name], expected[name], atol=1e-5), number


@pytest.mark.parametrize("mode", ["linear", "cubic", "nearest"])
def test_a_box_outside_of_the_image_is_filled(mode: str, tmp_path: Path) -> None:
    net = Net(1, 2, 4, 5)
    box = net.constant(values=np.array([0, 0, 2, 0, 1, 1, 3, 1], np.float32))
    y = net.add(
        "resize", "x", box, "", ints(net, 1, 2, 3, 5), mode=mode,
        coordinate_transformation_mode="tf_crop_and_resize", extrapolation_value=7.0,
    )  # fmt: skip
    found, expected = answers(net.program(y), tmp_path)
    assert np.all(found[y] == 7) and np.all(expected[y] == 7)


def test_choosing_by_value_and_by_subscripts(tmp_path: Path) -> None:
    net = Net(2, 5, 6)
    number = ints(net, 3)
    net.nodes.append(make_node("top_k", ["x", number], ["values", "places"], {"axis": 1}))
    net.nodes.append(make_node("top_k", ["x", number], ["", "low"], {"axis": -1, "largest": 0}))
    rows = net.constant(values=np.array([[1, -1], [0, 2], [1, 4]], np.int64))
    updates = net.add("slice", "x", ints(net, 0), ints(net, 3), ints(net, 1))
    outputs = [
        net.add("scatter_nd", "x", rows, net.constant(3, 6)),
        net.add("scatter_nd", "x", rows, net.constant(3, 6), reduction="add"),
        net.add("scatter_elements", "x", "places", updates, axis=1, reduction="max"),
        net.add("arg_max", "x", axis=1),
        net.add("arg_min", "x", axis=2, keepdims=0, select_last_index=1),
        net.add("gather_elements", "x", "places", axis=1),
        net.add("gather_nd", "x", ints(net, 0)),
        net.add("gather_nd", "x", net.constant(values=np.array([[-1, 2], [0, -3]], np.int64))),
        net.add("one_hot", "low", ints(net, 6), net.constant(values=np.array([-1, 2], np.float32))),
        net.add("gather", "x", net.constant(values=np.array([[1, -1], [0, 2]], np.int64)), axis=2),
        "values",
        "places",
        "low",
    ]
    program = net.program(*outputs)
    x = np.random.default_rng(3).integers(-2, 3, (2, 5, 6)).astype(np.float32)
    x[1, 2, 3] = np.nan
    x[0, 0, 0] = np.inf
    found: dict[str, Any] = Model(compile_folder(program, tmp_path))(x=x)
    expected = interpret(program, {"x": x})
    for name in outputs:
        assert np.array_equal(found[name], expected[name], equal_nan=True), name


def test_a_dropouts_mask_is_all_true_and_not_its_input(tmp_path: Path) -> None:
    net = Net(2, 5)
    net.nodes.append(make_node("dropout", [net.add("abs", "x")], ["kept", "mask"]))
    outputs = ["kept", net.add("cast", "mask", to=1)]
    found, expected = answers(net.program(*outputs), tmp_path)
    for name in outputs:
        np.testing.assert_allclose(found[name], expected[name], rtol=1e-6)
    np.testing.assert_array_equal(found[outputs[1]], 1)


def test_convolutions_of_volumes(tmp_path: Path) -> None:
    net = Net(1, 2, 4, 5, 6)
    x = net.add("sigmoid", "x")
    outputs = [
        net.add("conv", x, net.constant(3, 2, 3, 3, 3), pads=(1,) * 6),
        net.add("conv_transpose", x, net.constant(2, 3, 2, 2, 2), strides=(2, 2, 2)),
    ]
    found, expected = answers(net.program(*outputs), tmp_path)
    for name in outputs:
        np.testing.assert_allclose(found[name], expected[name], rtol=1e-4, atol=1e-5)


def of_type(program: Program, **inputs: TensorType) -> Program:
    """The program with inputs of these types, and whatever it has beside."""
    return Program("typed", inputs, program.outputs, program.nodes, program.constants)


def test_a_formula_that_reads_outside_of_its_input_is_left_to_others() -> None:
    """NumPy reflects as often as it takes; the formula does once."""
    net = Net(2)
    program = net.program(net.add("pad", "x", ints(net, 3, 0), mode="reflect"))
    with pytest.raises(EngineError, match="no native kernel"):
        steps_of(of_type(program, x=TensorType("i64", (2,))))


@pytest.mark.parametrize("shape", [(8,), (2,), (4, 4)])
def test_a_formula_of_another_shape_has_no_memory_to_write_to(
    shape: tuple[int, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    net = Net(4)
    program = of_type(net.program(net.add("tile", "x", ints(net, 1))), x=TensorType("i64", (4,)))
    assert steps_of(program)
    monkeypatch.setattr(type(OPS["tile"]), "formula", lambda op, call: (compute(shape, lambda *i: 0),))
    with pytest.raises(EngineError, match="no native kernel"):
        steps_of(program)


def test_a_resize_that_keeps_the_aspect_ratio_is_no_resize_to_what_was_asked_for() -> None:
    net = Net(1, 3, 2, 2)
    y = net.add("resize", "x", "", "", ints(net, 1, 3, 4, 8), keep_aspect_ratio_policy="not_larger")
    with pytest.raises(EngineError, match="no native kernel"):
        steps_of(of_type(net.program(y), x=TensorType("u8", (1, 3, 2, 2))))


def test_powers_of_integers(tmp_path: Path) -> None:
    """By floats they have more digits than a float; by negative ones they are quotients toward 0."""
    net = Net(6)
    program = net.program(
        net.add("pow", "n", "x"),
        net.add("pow", "n", net.constant(values=np.float32(20))),
        net.add("pow", "n", "e"),
        net.add("pow", "n", ints(net, -1)),
    )
    sizes = {"n": "i64", "x": "f32", "e": "i64"}
    program = of_type(program, **{name: TensorType(dtype, (6,)) for name, dtype in sizes.items()})
    inputs = {
        "n": np.array([3, -3, 2, 1, -1, 0]),
        "x": np.array([20, 21, 40, 5, 3, 2], np.float32),
        "e": np.array([-2, -1, 62, -5, -3, -1]),
    }
    found, expected = Model(compile_folder(program, tmp_path))(**inputs), interpret(program, inputs)
    for name in program.outputs:
        assert np.array_equal(found[name], expected[name])
    assert found["v0"].tolist() == [3**20, -(3**21), 2**40, 1, -1, 0]
    assert found["v2"].tolist() == [0, 0, 2**62, 1, -1, 0]
    assert found["v3"].tolist() == [0, 0, 0, 1, -1, 0]
