"""`tensmith diff`: models are equal by rules or over fields, or it says where they first differ."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from command_line import tensmith
from tensmith.cli.diff import _document
from tensmith.errors import ModelError
from tensmith.frontend.onnx import read_onnx
from tensmith.verify.claims import DRAWN
from tensmith.verify.difference import aligned, canonical, compare_models

RNG = np.random.default_rng(7)
WEIGHTS = {
    "w": RNG.standard_normal((4, 3, 3, 3)).astype("f4"),
    "v": RNG.standard_normal((4, 5)).astype("f4"),
}


def model(
    *,
    batch: str | int = "N",
    inside: str = "t",
    given: str = "x",
    out: str = "y",
    bias: float = 0.0,
    **changed: object,
) -> onnx.ModelProto:
    """conv, relu, mean, product; names of values, and what is changed, are the caller's."""
    attributes = {"pads": [1, 1, 1, 1], **changed}
    weights = {name: array.copy() for name, array in WEIGHTS.items()}
    weights["v"][1, 2] += bias
    nodes = [
        helper.make_node("Conv", [given, "w"], [f"{inside}1"], **attributes),  # type: ignore[arg-type]
        helper.make_node("Relu", [f"{inside}1"], [f"{inside}2"]),
        helper.make_node("GlobalAveragePool", [f"{inside}2"], [f"{inside}3"]),
        helper.make_node("Flatten", [f"{inside}3"], [f"{inside}4"]),
        helper.make_node("MatMul", [f"{inside}4", "v"], [out]),
    ]
    graph = helper.make_graph(
        nodes,
        "g",
        [helper.make_tensor_value_info(given, TensorProto.FLOAT, [batch, 3, 8, 8])],
        [helper.make_tensor_value_info(out, TensorProto.FLOAT, [batch, 5])],
        [numpy_helper.from_array(array, name) for name, array in weights.items()],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)


@pytest.mark.parametrize(
    "other", [{"inside": "u"}, {"batch": "batch"}, {"given": "in", "out": "logits"}, {"batch": 1}]
)
def test_names_and_open_sizes_make_no_difference(other: dict[str, object]) -> None:
    found = compare_models(read_onnx(model()), read_onnx(model(**other)))  # type: ignore[arg-type]
    assert (found.verdict, found.evidence) == ("equal", "proved")


def averaged(op: str, rows: str | int) -> Any:
    """A mean over rows, or what comes in."""
    x, y = (helper.make_tensor_value_info(name, TensorProto.FLOAT, [size, 4])
            for name, size in (("x", rows), ("y", 1)))  # fmt: skip
    attributes = {"axes": [0], "keepdims": 1} if op == "ReduceMean" else {}
    graph = helper.make_graph([helper.make_node(op, ["x"], ["y"], **attributes)], "g", [x], [y])
    return read_onnx(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9))


def test_a_size_that_one_model_fixes_is_said() -> None:
    mean, one = averaged("ReduceMean", "N"), averaged("Identity", 1)
    for order, words in (((mean, one), "second"), ((one, mean), "first")):
        found = compare_models(*order)
        assert found.verdict == "equal" and found.assumed[0] == f"N is 1, as the {words} model fixes it"
    assert compare_models(mean, mean).assumed[0] != found.assumed[0]


def test_other_operators_are_equal_over_fields() -> None:
    """A mean over axes is no pool by name, and no rule of the simplifier turns one into the other."""
    other = model()
    other.graph.node[2].CopyFrom(helper.make_node("ReduceMean", ["t2"], ["t3"], axes=[2, 3], keepdims=1))
    found = compare_models(read_onnx(model()), read_onnx(other))
    assert found.verdict == "equal"
    assert found.evidence == "proved" or found.error_probability < 1e-6


@pytest.mark.parametrize(
    ("change", "op"),
    [
        ({"pads": [0, 0, 2, 2]}, "conv"),
        ({"bias": 1e-3}, "matmul"),
        ({"dilations": [2, 2], "pads": [2] * 4}, "conv"),
    ],
)
def test_the_first_value_that_differs_is_named(change: dict[str, object], op: str) -> None:
    found = compare_models(read_onnx(model()), read_onnx(model(**change)))  # type: ignore[arg-type]
    assert found.verdict == "different" and found.first is not None and found.outputs is not None
    assert found.first[1] == op
    assert found.outputs["y"].most > 0


def test_what_takes_other_things_is_not_compared() -> None:
    with pytest.raises(ModelError, match="cannot be compared"):
        compare_models(read_onnx(model(batch=2)), read_onnx(model(batch=3)))


def test_what_declares_no_shape_is_said_to_declare_none() -> None:
    open_shape = model()
    open_shape.graph.input[0].type.tensor_type.ClearField("shape")
    with pytest.raises(ModelError, match="give it a shape in both"):
        compare_models(read_onnx(open_shape), read_onnx(open_shape))


def test_what_was_measured_alone_has_no_bound_on_its_error() -> None:
    found = compare_models(read_onnx(model()), read_onnx(model(bias=0.5)))
    assert found.evidence == "measured" and _document(found, 0.0)["error_probability"] is None
    checked = replace(found, evidence="checked", error_probability=1e-9)
    assert _document(checked, 0.0)["error_probability"] == 1e-9


def test_a_name_that_both_use_for_other_values_is_no_trap() -> None:
    """The second model's input is called as a value inside of the first."""
    right, *_ = aligned(read_onnx(model()), read_onnx(model(given="t1", inside="x")))
    assert tuple(right.inputs) == ("x",)
    assert canonical(right).digest == canonical(read_onnx(model())).digest


def test_a_weight_that_is_an_output_too() -> None:
    """Its name stays, as that of every output."""

    def weighted(value: float) -> onnx.ModelProto:
        ends = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [2]) for name in ("x", "y", "c")]
        weight = numpy_helper.from_array(np.full(2, value, "f4"), "c")
        graph = helper.make_graph(
            [helper.make_node("Add", ["x", "c"], ["y"])], "g", ends[:1], ends[1:], [weight]
        )
        return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)

    mine = read_onnx(weighted(1.0))
    assert compare_models(mine, read_onnx(weighted(1.0))).evidence == "proved"
    assert compare_models(mine, read_onnx(weighted(2.0))).verdict == "different"


def test_the_command(tmp_path: Path) -> None:
    onnx.save(model(), tmp_path / "a.onnx")
    onnx.save(model(bias=1e-6), tmp_path / "b.onnx")
    a, b = str(tmp_path / "a.onnx"), str(tmp_path / "b.onnx")
    assert tensmith("diff", a, a, folder=tmp_path).returncode == 0
    kept = tmp_path / "inputs.npz"
    found = tensmith("diff", a, b, "--save-inputs", str(kept), folder=tmp_path)
    assert found.returncode == 1 and "first value" in found.stdout
    with np.load(kept) as arrays:
        assert arrays["x"].shape == (2, 3, 8, 8)
    assert tensmith("diff", a, b, "--tolerance", "1e-4", folder=tmp_path).returncode == 0


def test_an_operator_of_another_version_is_another_one() -> None:
    def aligned(version: int) -> Any:
        ends = [
            helper.make_tensor_value_info("x", TensorProto.FLOAT, [2, 1, 8, 8]),
            helper.make_tensor_value_info("rois", TensorProto.FLOAT, [1, 4]),
            helper.make_tensor_value_info("b", TensorProto.INT64, [1]),
            helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, 1, 1, 1]),
        ]
        node = helper.make_node("RoiAlign", ["x", "rois", "b"], ["y"])
        graph = helper.make_graph([node], "g", ends[:3], ends[3:])
        opsets = [helper.make_opsetid("", version)]
        return read_onnx(helper.make_model(graph, ir_version=8, opset_imports=opsets).SerializeToString())

    assert compare_models(aligned(16), aligned(16)).evidence == "proved"
    assert compare_models(aligned(15), aligned(16)).evidence != "proved"


def masked(left_out: float, *, computed: bool = False, also: str = "") -> onnx.ModelProto:
    """A softmax that leaves places out by a number, scaled by a constant that the file computes or holds.

    also: a value that is an output too; `moved` is x times the mask."""
    mask = np.triu(np.full((4, 4), left_out, "f4"), 1)
    scale = np.float32(1 / np.sqrt(3))
    constants = [numpy_helper.from_array(mask, "mask"), numpy_helper.from_array(np.array(3, "f4"), "three"),
                 numpy_helper.from_array(np.array(1, "f4"), "one")]  # fmt: skip
    nodes = [
        helper.make_node("Mul", ["x", "scale"], ["scaled"]),
        helper.make_node("Add", ["scaled", "mask"], ["shown"]),
        helper.make_node("Softmax", ["shown"], ["y"], axis=-1),
    ]
    if computed:
        nodes = [helper.make_node("Sqrt", ["three"], ["root"]),
                 helper.make_node("Div", ["one", "root"], ["scale"]), *nodes]  # fmt: skip
    else:
        constants.append(numpy_helper.from_array(scale, "scale"))
    if also == "moved":
        nodes.append(helper.make_node("Mul", ["x", "mask"], ["moved"]))
    values = [helper.make_tensor_value_info(n, TensorProto.FLOAT, ["N", 4, 4]) for n in ("x", "y")]
    if also:
        shape = [4, 4] if also == "mask" else ["N", 4, 4]
        values.append(helper.make_tensor_value_info(also, TensorProto.FLOAT, shape))
    graph = helper.make_graph(nodes, "g", values[:1], values[1:], constants)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)


def test_what_exporters_write_differently_is_equal_and_said() -> None:
    plain, infinite = read_onnx(masked(float(np.finfo("f4").min))), read_onnx(masked(-np.inf))
    found = compare_models(plain, infinite)
    assert found.verdict == "equal" and any("minus infinity" in sentence for sentence in found.assumed)
    found = compare_models(infinite, read_onnx(masked(-np.inf, computed=True)))
    assert found.verdict == "equal" and not any("minus infinity" in sentence for sentence in found.assumed)
    assert compare_models(plain, read_onnx(masked(-5.0))).verdict == "different"


@pytest.mark.parametrize("also", ["shown", "moved", "mask"])
def test_a_mask_that_others_see_is_not_minus_infinity(also: str) -> None:
    first = read_onnx(masked(float(np.finfo("f4").min), also=also))
    assert compare_models(first, read_onnx(masked(-1e38, also=also)), seconds=2).verdict != "equal"
    assert compare_models(first, read_onnx(masked(-np.inf, also=also)), seconds=2).verdict != "equal"


def whole(*steps: str, dtype: int = TensorProto.UINT8) -> onnx.ModelProto:
    """Operators with operands and a result, of whole numbers x, these as floats c, and a table."""
    nodes = [helper.make_node("Cast", ["x"], ["c"], to=TensorProto.FLOAT)]
    for op, *operands, result in map(str.split, steps):
        nodes.append(helper.make_node(op, operands, [result]))
    x = helper.make_tensor_value_info("x", dtype, [16])
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, None)
    table = numpy_helper.from_array(np.arange(12, dtype="f4").reshape(6, 2), "table")
    graph = helper.make_graph(nodes, "g", [x], [y], [table])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)


def test_bytes_are_more_than_0_and_1() -> None:
    found = compare_models(read_onnx(whole("Identity c y")), read_onnx(whole("Mul c c y")))
    assert found.verdict == "different" and found.outputs is not None and found.outputs["y"].most > 0


def test_what_is_known_of_whole_numbers_is_said() -> None:
    """Equality at those that were drawn: with a bound where they are positions alone."""
    sums = "Add c c d", "Mul c d y"
    products = "Mul c c d", "Add d d y"
    found = compare_models(read_onnx(whole(*sums)), read_onnx(whole(*products)))
    assert (found.verdict, found.evidence, found.error_probability) == ("equal", "checked", 1.0)
    assert found.assumed == (DRAWN,)
    picked = "Gather table x c2"
    sums, products = (tuple(step.replace("c", "c2") for step in steps) for steps in (sums, products))
    models = [read_onnx(whole(picked, *steps, dtype=TensorProto.INT64)) for steps in (sums, products)]
    found = compare_models(*models)
    assert found.verdict == "equal" and found.error_probability < 1e-6 and found.assumed == (DRAWN,)
