"""ONNX models become programs that mean the same, opaque nodes and captures included."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper, parser

from tensmith.backend.onnx import to_onnx
from tensmith.errors import ModelError
from tensmith.formula.poly import Poly
from tensmith.frontend.onnx import read_onnx
from tensmith.ir.interpreter import interpret
from tensmith.ir.types import TensorType

FLOAT = TensorProto.FLOAT


def model(nodes: list[onnx.NodeProto], opset: int = 18, initializers: list[TensorProto] | None = None,
          **graph: list[onnx.SparseTensorProto]) -> onnx.ModelProto:  # fmt: skip
    """x: [2, 3] -> y, types of y left to ONNX."""
    body = helper.make_graph(
        nodes, "g", [helper.make_tensor_value_info("x", FLOAT, [2, 3])],
        [helper.make_tensor_value_info("y", FLOAT, None)], initializers or [], **graph,
    )  # fmt: skip
    return helper.make_model(body, opset_imports=[helper.make_opsetid("", opset)], ir_version=8)


X = np.arange(6, dtype=np.float32).reshape(2, 3)


def test_names_attributes_and_defaults() -> None:
    program = read_onnx(
        model([helper.make_node("Softmax", ["x"], ["y"], name="soft"), helper.make_node("Elu", ["x"], ["z"])])
    )
    assert program.nodes[0].name == "soft"
    assert program.nodes[0].attrs["axis"] == -1
    assert program.nodes[1].attrs["alpha"] == 1.0
    assert program.type("y") == TensorType("f32", (2, 3))


def test_attributes_of_old_opsets_become_inputs_and_go_back() -> None:
    program = read_onnx(model([helper.make_node("ReduceMean", ["x"], ["y"], axes=[1], keepdims=0)], opset=17))
    node = program.nodes[0]
    assert node.inputs == ("x", "y.axes")
    assert "axes" not in node.attrs
    np.testing.assert_array_equal(program.constants["y.axes"], [1])
    written = to_onnx(program)
    assert written.opset_import[0].version == 17
    assert {attribute.name for attribute in written.graph.node[0].attribute} == {"axes", "keepdims"}
    assert not written.graph.initializer


def test_symbols_are_shared_between_inputs_and_unnamed_sizes_are_their_own() -> None:
    text = """
        <ir_version: 8, opset_import: ["" : 18]>
        g (float[batch size, 3] a, float[?, 3] b) => (float[n, 3] y) { y = Add (a, b) }
    """
    proto = parser.parse_model(text.replace("batch size", "n").replace("?", "m"))
    proto.graph.input[0].type.tensor_type.shape.dim[0].dim_param = "batch size"
    proto.graph.input[1].type.tensor_type.shape.dim[0].Clear()
    program = read_onnx(proto)
    assert program.inputs["a"].dims[0] == Poly.symbol("batch_size")
    assert program.inputs["b"].dims[0] == Poly.symbol("b.0")  # as engines call it
    proto.graph.input[1].type.tensor_type.shape.dim[0].dim_param = "batch size"
    program = read_onnx(proto)
    assert program.inputs["a"] == program.inputs["b"]


def test_initializers_listed_as_inputs_are_constants() -> None:
    proto = model(
        [helper.make_node("Add", ["x", "w"], ["y"])], initializers=[numpy_helper.from_array(X, "w")]
    )
    proto.graph.input.append(helper.make_tensor_value_info("w", FLOAT, [2, 3]))
    assert list(read_onnx(proto).inputs) == ["x"]


@pytest.mark.parametrize(
    "indices", [helper.make_tensor("i", TensorProto.INT64, [2], [1, 5]),
                helper.make_tensor("i", TensorProto.INT64, [2, 2], [0, 1, 1, 2])],
)  # fmt: skip
def test_sparse_initializers_are_made_dense(indices: TensorProto) -> None:
    values = helper.make_tensor("w", FLOAT, [2], [7.0, 8.0])
    sparse = [helper.make_sparse_tensor(values, indices, [2, 3])]
    program = read_onnx(model([helper.make_node("Add", ["x", "w"], ["y"])], sparse_initializer=sparse))
    np.testing.assert_array_equal(program.constants["w"], [[0, 7, 0], [0, 0, 8]])


@pytest.mark.parametrize(
    ("attribute", "value", "expected"),
    [
        ("value_int", 3, np.array(3)),
        ("value_ints", [3, 4], np.array([3, 4])),
        ("value_float", 0.5, np.array(0.5, np.float32)),
        ("value_floats", [0.5], np.array([0.5], np.float32)),
        ("value_strings", ["a", "b"], np.array(["a", "b"], object)),
        ("value", numpy_helper.from_array(X), X),
    ],
)
def test_constant_nodes_of_every_form(attribute: str, value: object, expected: np.ndarray) -> None:
    nodes = [
        helper.make_node("Constant", [], ["c"], **{attribute: value}),
        helper.make_node("Relu", ["x"], ["y"]),
    ]
    found = read_onnx(model(nodes)).constants["c"]
    assert found.dtype == expected.dtype
    np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("raw", [True, False])
@pytest.mark.parametrize(
    "name", ["FLOAT", "FLOAT16", "BFLOAT16", "DOUBLE", "INT8", "UINT16", "INT32", "INT64", "UINT32", "UINT64",
             "BOOL", "INT4", "UINT4", "INT2", "UINT2", "FLOAT4E2M1", "FLOAT8E4M3FN", "COMPLEX64"],
)  # fmt: skip
def test_tensors_of_every_type_and_storage(name: str, raw: bool) -> None:
    code = TensorProto.DataType.Value(name)
    dtype = helper.tensor_dtype_to_np_dtype(code)
    values = np.array([1, 0, 1, 1, 0]).astype(np.float32).astype(dtype)
    if name.startswith("INT"):
        values = np.array([-1, 0, 1, -2, 1]).astype(dtype)
    tensor = numpy_helper.from_array(values, "w") if raw else helper.make_tensor("w", code, [5], values)
    found = read_onnx(model([helper.make_node("Relu", ["x"], ["y"])], initializers=[tensor])).constants["w"]
    assert found.dtype == values.dtype
    np.testing.assert_array_equal(found, values)


CONTROL = """
    <ir_version: 8, opset_import: ["" : 18, "local" : 1]>
    control (float[n, 4] x, bool flag) => (float[n, 4] y) {
        scaled = local.scale <factor = 2.0> (x)
        dead = Relu (x)
        y = If (flag) <
            then_branch = then () => (t) { t = Add (scaled, x) },
            else_branch = other () => (e) { e = Relu (scaled) }
        >
    }
    <domain: "local", opset_import: ["" : 18]>
    scale <factor> (a) => (b) {
        f = Constant <value_float: float = @factor> ()
        b = Mul (a, f)
    }
"""


def test_subgraph_captures_are_inputs_and_functions_are_inlined() -> None:
    program = read_onnx(parser.parse_model(CONTROL))
    node = program.producers["y"]
    assert node.op == "onnx.If"
    assert node.inputs[0] == "flag"
    scaled = program.producers[node.inputs[1]]
    assert (scaled.op, node.inputs[2]) == ("mul", "x")
    assert program.type("y") == TensorType("f32", (Poly.symbol("n"), 4))
    x = np.array([[-1.0, 2.0, 0.0, 3.0]], np.float32)
    for flag, want in ((True, 3 * x), (False, np.maximum(2 * x, 0))):
        np.testing.assert_array_equal(interpret(program, {"x": x, "flag": np.array(flag)})["y"], want)


def test_what_functions_alone_import_the_model_imports() -> None:
    text = """
        <ir_version: 8, opset_import: ["local" : 1]>
        rows (float[2, 3] x) => (float[2, 3] y) { y = local.larger (x) }
        <domain: "local", opset_import: ["" : 12, "ai.onnx.ml" : 3]>
        larger (a) => (b) { s = ai.onnx.ml.Binarizer (a)  c = Relu (s)  b = Softmax <axis = 0> (c) }
    """
    proto = to_onnx(read_onnx(parser.parse_model(text)))
    opsets = {entry.domain: entry.version for entry in proto.opset_import}
    assert opsets == {"": 13, "ai.onnx.ml": 3, "local": 1}
    session = onnxruntime.InferenceSession(proto.SerializeToString(), providers=["CPUExecutionProvider"])
    shares = np.exp(X > 0)  # of all rows, as Softmax of opset 12 has them
    np.testing.assert_allclose(session.run(None, {"x": X})[0], shares / shares.sum(), rtol=1e-3)


def test_renaming_around_opaque_nodes_reaches_into_their_subgraphs() -> None:
    program = read_onnx(parser.parse_model(CONTROL))
    scaled = program.producers["y"].inputs[1]
    renamed = program.edit(alias={scaled: "t"}, add=[_doubled("x", "t")])  # "t" is a name inside the branch
    proto = to_onnx(renamed)
    onnx.checker.check_model(proto, full_check=True)
    session = onnxruntime.InferenceSession(proto.SerializeToString(), providers=["CPUExecutionProvider"])
    x = np.array([[-1.0, 2.0, 0.0, 3.0]], np.float32)
    for flag in (True, False):
        feed = {"x": x, "flag": np.array(flag)}
        want = interpret(program, feed)["y"]
        np.testing.assert_array_equal(interpret(renamed, feed)["y"], want)
        np.testing.assert_array_equal(session.run(None, feed)[0], want)


def _doubled(source: str, target: str):  # type: ignore[no-untyped-def]
    from tensmith.ir.program import make_node

    return make_node("add", (source, source), (target,))


def test_sequences_flow_between_opaque_nodes() -> None:
    nodes = [
        helper.make_node("SplitToSequence", ["x"], ["parts"], axis=1),
        helper.make_node("ConcatFromSequence", ["parts"], ["z"], axis=0),
        helper.make_node("Relu", ["z"], ["y"]),
    ]
    program = read_onnx(model(nodes))
    assert [node.op for node in program.nodes] == ["onnx.SplitToSequence", "onnx.ConcatFromSequence", "relu"]
    np.testing.assert_array_equal(interpret(program, {"x": X})["y"], X.T.reshape(6, 1))


def test_operators_of_other_domains_stay_opaque_and_come_back_unchanged() -> None:
    proto = model([helper.make_node("Custom", ["x"], ["y"], name="n", domain="my.domain", levels=[1, 2])])
    proto.opset_import.append(helper.make_opsetid("my.domain", 3))
    program = read_onnx(proto)
    assert program.nodes[0].op == "my.domain.Custom"
    assert program.type("y") == TensorType("f32", None)
    assert to_onnx(program).graph.node[0] == proto.graph.node[0]


def test_nodes_out_of_order_are_put_in_order() -> None:
    program = read_onnx(
        model([helper.make_node("Relu", ["a"], ["y"]), helper.make_node("Neg", ["x"], ["a"])])
    )
    assert [node.op for node in program.nodes] == ["neg", "relu"]


def test_old_opsets_are_converted() -> None:
    up = helper.make_node("Unsqueeze", ["x"], ["u"], axes=[0])
    down = helper.make_node("Squeeze", ["u"], ["y"], axes=[0])
    program = read_onnx(model([up, down], opset=11))
    assert program.origin.opsets == {"": 13}
    np.testing.assert_array_equal(interpret(program, {"x": X})["y"], X)


def test_old_opsets_keep_large_and_sparse_weights() -> None:
    big = np.arange(6000, dtype=np.float32).reshape(2000, 3)
    values = helper.make_tensor("s", FLOAT, [1], [7.0])
    sparse = helper.make_sparse_tensor(values, helper.make_tensor("i", TensorProto.INT64, [1], [2]), [2, 3])
    nodes = [
        helper.make_node("Add", ["x", "s"], ["a"]),
        helper.make_node("Gemm", ["a", "w"], ["y"], transB=1),
    ]
    proto = model(nodes, 11, [numpy_helper.from_array(big, "w")], sparse_initializer=[sparse])
    program = read_onnx(proto)
    assert list(program.inputs) == ["x"]
    dense = np.array([[0, 0, 7], [0, 0, 0]], np.float32)
    np.testing.assert_allclose(interpret(program, {"x": X})["y"], (X + dense) @ big.T)


@pytest.mark.parametrize(
    ("opset", "op", "mode", "scales"),
    [
        (9, "Upsample", "nearest", (1, 1, 2, 3)),
        (9, "Upsample", "nearest", (1, 1, 1.25, 1)),
        (9, "Upsample", "linear", (1, 1, 2, 2)),
        (10, "Resize", "nearest", (1, 1, 2, 1.25)),
        (10, "Resize", "nearest", (1, 1, 1, 0.4)),
        (10, "Resize", "linear", (1, 1, 2, 0.5)),
    ],
)
def test_images_are_resized_as_old_opsets_did(
    opset: int, op: str, mode: str, scales: tuple[float, ...]
) -> None:
    """Positions counted from the corner; the nearest element was the one before, or behind when shrinking."""
    body = helper.make_graph(
        [helper.make_node(op, ["x", "scales"], ["y"], mode=mode)], "g",
        [helper.make_tensor_value_info("x", FLOAT, [1, 1, 4, 6])],
        [helper.make_tensor_value_info("y", FLOAT, [1, 1, "h", "w"])],
        [numpy_helper.from_array(np.array(scales, np.float32), "scales")],
    )  # fmt: skip
    proto = helper.make_model(body, opset_imports=[helper.make_opsetid("", opset)], ir_version=5)
    x = np.random.default_rng(0).standard_normal((1, 1, 4, 6)).astype(np.float32)
    session = onnxruntime.InferenceSession(proto.SerializeToString(), providers=["CPUExecutionProvider"])
    program = read_onnx(proto)
    assert [node.op for node in program.nodes] == ["resize"]
    want = session.run(None, {"x": x})[0]
    np.testing.assert_allclose(interpret(program, {"x": x})["y"], want, rtol=1e-5, atol=1e-6)


def test_old_opsets_with_weights_in_another_file_are_converted_from_any_folder(tmp_path: Path) -> None:
    nodes = [helper.make_node("Add", ["x", "w"], ["y"])]
    proto = model(nodes, 11, [numpy_helper.from_array(X, "w")])
    onnx.save(proto, tmp_path / "m.onnx", save_as_external_data=True, location="m.data", size_threshold=0)
    np.testing.assert_array_equal(interpret(read_onnx(tmp_path / "m.onnx"), {"x": X})["y"], 2 * X)


def test_batch_normalization_in_training_stays_as_it_is() -> None:
    """Before opset 14 its outputs alone say so."""
    outputs = ["y", "mean", "var", "saved_mean", "saved_var"]
    weights = [numpy_helper.from_array(np.ones(3, np.float32), name) for name in "sbmv"]
    node = helper.make_node("BatchNormalization", ["x", *"sbmv"], outputs)
    assert read_onnx(model([node], 13, weights)).nodes[0].op == "onnx.BatchNormalization"


def test_external_data_is_mapped_not_read(tmp_path: Path) -> None:
    proto = model(
        [helper.make_node("Add", ["x", "w"], ["y"])], initializers=[numpy_helper.from_array(X, "w")]
    )
    onnx.save(proto, tmp_path / "m.onnx", save_as_external_data=True, location="m.data", size_threshold=0)
    weights = read_onnx(tmp_path / "m.onnx").constants["w"]
    np.testing.assert_array_equal(weights, X)
    assert not weights.flags.owndata
    assert not weights.flags.writeable


def test_every_evaluation_model_imports_without_an_opaque_node(data_dir: Path) -> None:
    for path in sorted((data_dir / "models").glob("*.onnx")):
        program = read_onnx(path)
        assert [node.op for node in program.nodes if node.opaque is not None] == [], path.name


@pytest.mark.parametrize("stated", [{}, {"num_outputs": 3}])
def test_a_part_that_nobody_reads_counts_among_the_parts(stated: dict[str, int]) -> None:
    node = helper.make_node("Split", ["x"], ["a", "b", ""], axis=0, **stated)
    values = [helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in "ab"]
    given = helper.make_tensor_value_info("x", TensorProto.FLOAT, [12])
    graph = helper.make_graph([node], "parts", [given], values)
    opset = helper.make_opsetid("", 18 if stated else 13)
    program = read_onnx(helper.make_model(graph, opset_imports=[opset], ir_version=8))
    assert [program.type(name).static for name in "ab"] == [(4,), (4,)]
    assert len(to_onnx(program).graph.node[0].output) == 3


@pytest.mark.parametrize("name", ["value_string", "value_strings"])
def test_a_constant_of_bytes_that_are_no_text_is_written_as_it_was(name: str) -> None:
    data = b"\xff\xfe"
    constant = helper.make_node("Constant", [], ["c"], **{name: data if name[-1] == "g" else [data, b"a"]})
    use = helper.make_node("Identity", ["c"], ["y"])
    output = helper.make_tensor_value_info("y", TensorProto.STRING, None)
    opset = helper.make_opsetid("", 17)
    model = helper.make_model(
        helper.make_graph([constant, use], "text", [], [output]), opset_imports=[opset], ir_version=8
    )
    (tensor,) = to_onnx(read_onnx(model)).graph.initializer
    assert tensor.string_data[0] == data


@pytest.mark.parametrize(
    ("node", "shape"),
    [
        (helper.make_node("Add", ["x", "w"], ["y"], broadcast=1, axis=1), (3,)),
        (helper.make_node("Mul", ["x", "w"], ["y"], broadcast=1, axis=0), (2, 3)),
        (helper.make_node("PRelu", ["x", "w"], ["y"]), (3,)),
    ],
)
def test_operands_along_an_axis_by_number_are_refused(node: onnx.NodeProto, shape: tuple[int, ...]) -> None:
    weights = numpy_helper.from_array(np.ones(shape, np.float32), "w")
    graph = helper.make_graph(
        [node], "g", [helper.make_tensor_value_info("x", FLOAT, [2, 3, 4, 3])],
        [helper.make_tensor_value_info("y", FLOAT, [2, 3, 4, 3])], [weights],
    )  # fmt: skip
    proto = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 6)], ir_version=3)
    proto.graph.input.append(helper.make_tensor_value_info("w", FLOAT, shape))
    with pytest.raises(ModelError, match=r"node 'y' \((Add|Mul|PRelu) of opset 6\) has an operand along"):
        read_onnx(proto)
    if node.op_type == "Add":  # the last axis is where it would stand anyway
        next(each for each in proto.graph.node[0].attribute if each.name == "axis").i = 3
        x = np.ones((2, 3, 4, 3), np.float32)
        np.testing.assert_array_equal(interpret(read_onnx(proto), {"x": x})["y"], x + 1)


@pytest.mark.parametrize("dtype", [np.float16, np.float64])
@pytest.mark.parametrize(
    "node",
    [
        helper.make_node("Clip", ["x"], ["y"], min=0.0, max=6.0),
        helper.make_node("Pad", ["x"], ["y"], pads=[0, 1, 0, 0], value=2.0),
    ],
    ids=lambda node: node.op_type,
)
def test_numbers_that_were_attributes_have_the_type_of_what_they_meet(
    node: onnx.NodeProto, dtype: type
) -> None:
    kind = helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
    graph = helper.make_graph(
        [node], "g", [helper.make_tensor_value_info("x", kind, [1, 4])],
        [helper.make_tensor_value_info("y", kind, [1, "n"])],
    )  # fmt: skip
    proto = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 10)], ir_version=5)
    x = np.array([[-1, 1, 5, 9]], dtype)
    found = interpret(read_onnx(proto), {"x": x})["y"]
    want = np.clip(x, 0, 6) if node.op_type == "Clip" else np.pad(x, ((0, 0), (1, 0)), constant_values=2)
    np.testing.assert_array_equal(found, want)


@pytest.mark.parametrize("opset", [2, 10])
def test_a_padding_that_takes_no_number_may_state_one(opset: int) -> None:
    graph = helper.make_graph(
        [helper.make_node("Pad", ["x"], ["y"], mode="reflect", pads=[0, 1, 0, 0], value=2.0)], "g",
        [helper.make_tensor_value_info("x", FLOAT, [2, 3])],
        [helper.make_tensor_value_info("y", FLOAT, [2, 4])],
    )  # fmt: skip
    proto = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=5)
    found = interpret(read_onnx(proto), {"x": X})["y"]
    np.testing.assert_array_equal(found, np.pad(X, ((0, 0), (1, 0)), "reflect"))


def test_numbers_of_other_domains_are_as_they_were() -> None:
    half = TensorProto.FLOAT16
    graph = helper.make_graph(
        [helper.make_node("Clip", ["x", "low"], ["y"], domain="own")], "g",
        [helper.make_tensor_value_info("x", half, [4])], [helper.make_tensor_value_info("y", half, [4])],
        [numpy_helper.from_array(np.float32(0.1), "low")],
    )  # fmt: skip
    proto = helper.make_model(
        graph, opset_imports=[helper.make_opsetid("", 10), helper.make_opsetid("own", 1)], ir_version=5
    )
    assert read_onnx(proto).constants["low"].dtype == np.float32
