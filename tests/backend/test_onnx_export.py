"""Programs written as ONNX pass the full checker, keep what the file said, and compute the same."""

from __future__ import annotations

from pathlib import Path

import ml_dtypes
import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper

from tensmith.backend.onnx import to_onnx, write_onnx
from tensmith.errors import OutputError, ProgramError
from tensmith.formula.poly import Poly
from tensmith.frontend.onnx import read_onnx
from tensmith.ir.program import Origin, Program, make_node
from tensmith.ir.types import TensorType

N = Poly.symbol("n")


def small(weights: np.ndarray, origin: Origin | None = None) -> Program:
    """y = x + w."""
    inputs = {"x": TensorType("f32", (N, *weights.shape[1:]))}
    node = make_node("add", ("x", "w"), ("y",))
    return Program("small", inputs, ("y",), (node,), {"w": weights}, origin=origin or Origin())


def run(model: bytes | str, feed: dict[str, np.ndarray]) -> list[np.ndarray]:
    """ONNX Runtime's outputs."""
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    return list(
        onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"]).run(None, feed)
    )


def random_feed(program: Program) -> dict[str, np.ndarray]:
    """Random inputs, two for every open size."""
    rng = np.random.default_rng(0)
    feed = {}
    for name, type_ in program.inputs.items():
        shape = [dim if isinstance(dim, int) else 2 for dim in type_.dims]
        feed[name] = rng.standard_normal(shape, np.float32) if type_.floating else rng.integers(0, 100, shape)
    return feed


def test_models_come_back_equal_and_compute_the_same(data_dir: Path) -> None:
    for path in sorted((data_dir / "models").glob("*.onnx")):
        program = read_onnx(path)
        model = to_onnx(program)
        onnx.checker.check_model(model, full_check=True)
        again = read_onnx(model)
        assert again.digest == program.digest, path.name
        assert again.origin == program.origin
        feed = random_feed(program)
        for got, want in zip(run(model.SerializeToString(), feed), run(str(path), feed), strict=True):
            np.testing.assert_array_equal(got, want)


def test_origin_is_kept() -> None:
    origin = Origin({"": 17, "my.domain": 2}, 9, "pytorch 2.13.0", {"author": "me"}, "a doc")
    model = to_onnx(small(np.ones((1, 3), np.float32), origin))
    assert {entry.domain: entry.version for entry in model.opset_import} == {"": 17, "my.domain": 2}
    assert (model.ir_version, model.doc_string, model.producer_name) == (9, "a doc", "tensmith")
    assert read_onnx(model).origin == origin


def test_symbols_are_named_and_formulas_are_left_open() -> None:
    inputs = {"x": TensorType("f32", (N, N * 2 + 1, 3))}
    model = to_onnx(Program("p", inputs, ("y",), (make_node("relu", ("x",), ("y",)),), {}))
    dims = model.graph.output[0].type.tensor_type.shape.dim
    assert [dim.WhichOneof("value") for dim in dims] == ["dim_param", None, "dim_value"]


def test_the_opset_rises_only_where_an_op_needs_it() -> None:
    scale, codes = np.array(0.5, np.float32), np.array([[-8, 7, 3]], ml_dtypes.int4)
    dequantize = make_node("dequantize_linear", ("codes", "scale"), ("w",))
    node = make_node("add", ("x", "w"), ("y",))
    inputs = {"x": TensorType("f32", (N, 3))}
    constants = {"codes": codes, "scale": scale}
    program = Program("p", inputs, ("y",), (dequantize, node), constants, origin=Origin({"": 17}, 8))
    model = to_onnx(program)
    onnx.checker.check_model(model, full_check=True)
    assert (model.opset_import[0].version, model.ir_version) == (21, 10)
    assert len(model.graph.initializer[0].raw_data) == 2
    x = np.zeros((1, 3), np.float32)
    np.testing.assert_array_equal(run(model.SerializeToString(), {"x": x})[0], [[-4, 3.5, 1.5]])
    assert to_onnx(small(np.ones((1, 3), np.float32), Origin({"": 17}, 8))).opset_import[0].version == 17


def test_a_split_without_sizes_says_into_how_many_parts_where_the_opset_rises() -> None:
    nodes = (
        make_node("dequantize_linear", ("codes", "scale"), ("w",)),
        make_node("split", ("x",), ("a", "b"), {"axis": 1}),
        make_node("mul", ("a", "w"), ("y",)),
    )
    constants = {"codes": np.array([[-8, 7]], ml_dtypes.int4), "scale": np.array(0.5, np.float32)}
    inputs = {"x": TensorType("f32", (N, 4))}
    program = Program("p", inputs, ("y",), nodes, constants, origin=Origin({"": 17}, 8))
    model = to_onnx(program)
    onnx.checker.check_model(model, full_check=True)
    x = np.array([[1, 2, 3, 4]], np.float32)
    np.testing.assert_array_equal(run(model.SerializeToString(), {"x": x})[0], [[-4, 7]])


def test_an_opaque_node_whose_meaning_would_change_stops_the_rise() -> None:
    body = [
        helper.make_node("GridSample", ["x", "grid"], ["g"], mode="bicubic"),
        helper.make_node("ReduceMax", ["g"], ["y"], axes=[1]),
    ]
    values = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [1, 1, 2, 2]) for name in ("x", "grid")]
    graph = helper.make_graph(
        body, "g", values, [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)]
    )
    proto = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    program = read_onnx(proto)
    assert [node.op for node in program.nodes] == ["onnx.GridSample", "reduce_max"]
    # Axes that are computed cannot be the attribute that opset 17 has.
    axes = make_node("identity", ("y.axes",), ("axes",))
    computed = program.edit(alias={"y.axes": "axes"}).edit(add=[axes])
    assert to_onnx(computed).opset_import[0].version == 18
    # int4 needs opset 21, but GridSample changed at opset 20.
    constants = {"codes": np.array([1, 2], ml_dtypes.int4), "scale": np.array(0.5, np.float32)}
    dequantize = make_node("dequantize_linear", ("codes", "scale"), ("w",))
    with pytest.raises(
        ProgramError, match=r"needs opset 21, but node 'g' \(onnx.GridSample\) means something"
    ):
        to_onnx(program.edit(add=[dequantize], constants=constants))


def needing_opset_18(nodes: list[onnx.NodeProto], *domains: str) -> Program:
    """A program of opset 17 with a maximum over axes that are computed, which opset 17 cannot say."""
    values = [
        helper.make_tensor_value_info("x", TensorProto.FLOAT, [2, 2]),
        helper.make_tensor_value_info("p", TensorProto.BOOL, []),
    ]
    outputs = [helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in ("y", "z")]
    nodes = [*nodes, helper.make_node("ReduceMax", ["x"], ["y"], axes=[1])]
    imports = [helper.make_opsetid("", 17), *(helper.make_opsetid(domain, 1) for domain in domains)]
    model = helper.make_model(
        helper.make_graph(nodes, "g", values, outputs), opset_imports=imports, ir_version=8
    )
    computed = make_node("identity", ("y.axes",), ("axes",))
    return read_onnx(model).edit(alias={"y.axes": "axes"}).edit(add=[computed])


def test_what_changes_its_meaning_in_a_branch_stops_the_rise() -> None:
    def branch(op: str, **attributes: object) -> onnx.GraphProto:
        result = helper.make_tensor_value_info(f"{op}.z", TensorProto.FLOAT, None)
        return helper.make_graph([helper.make_node(op, ["x"], [result.name], **attributes)], op, [], [result])

    def program(last: onnx.GraphProto) -> Program:
        branches = {"then_branch": branch("Relu"), "else_branch": last}
        return needing_opset_18([helper.make_node("If", ["p"], ["z"], **branches)])

    assert to_onnx(program(branch("Exp"))).opset_import[0].version == 18
    with pytest.raises(
        ProgramError, match=r"opset 18, but ReduceMin in node 'z' \(onnx.If\) means something"
    ):
        to_onnx(program(branch("ReduceMin", axes=[1])))


def test_operators_of_other_domains_mean_the_same_at_any_opset() -> None:
    own = helper.make_node("ReduceMin", ["x"], ["z"], domain="my.domain")
    model = to_onnx(needing_opset_18([own], "my.domain"))
    assert {entry.domain: entry.version for entry in model.opset_import} == {"": 18, "my.domain": 1}


def test_external_weights_are_written_beside_and_read_back(tmp_path: Path) -> None:
    weights = np.arange(6000, dtype=np.float32).reshape(1, 6000)
    program = small(weights)
    path = tmp_path / "model.onnx"
    write_onnx(program, path, external_threshold=1000)
    assert sorted(file.name for file in tmp_path.iterdir()) == ["model.onnx", "model.onnx.data"]
    assert path.stat().st_size < 1000
    onnx.checker.check_model(str(path), full_check=True)
    assert read_onnx(path).digest == program.digest
    feed = random_feed(program)
    np.testing.assert_array_equal(run(str(path), feed)[0], feed["x"] + weights)


def test_what_onnx_has_no_operator_of_is_refused() -> None:
    node = make_node("cum_max", ("x", "axis"), ("y",))
    axis = np.array(0)
    program = Program("p", {"x": TensorType("f32", (N,))}, ("y",), (node,), {"axis": axis})
    with pytest.raises(ProgramError, match="ONNX has no operator 'cum_max'"):
        to_onnx(program)


def test_small_models_are_one_file(tmp_path: Path) -> None:
    write_onnx(small(np.ones((1, 3), np.float32)), tmp_path / "m.onnx")
    assert [file.name for file in tmp_path.iterdir()] == ["m.onnx"]


def test_a_folder_that_cannot_be_written_is_said_and_nothing_is_left(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(OutputError, match="cannot write"):
        write_onnx(small(np.ones((1, 3), np.float32)), tmp_path / "file" / "m.onnx")
    assert [file.name for file in tmp_path.iterdir()] == ["file"]


@pytest.mark.parametrize("dtype", ["int4", "uint4", "int2", "uint2", "float4_e2m1fn"])
@pytest.mark.parametrize("count", [0, 1, 4, 7])
def test_sub_byte_weights_are_packed_as_onnx_packs_them(dtype: str, count: int) -> None:
    values = np.array([0, 1, 1, 0, 1, 0, 1][:count]).astype(np.float32).astype(np.dtype(dtype))
    model = to_onnx(Program("p", {"x": TensorType("f32", (1,))}, ("x",), (), {"w": values}))
    found = onnx.numpy_helper.to_array(model.graph.initializer[0])
    np.testing.assert_array_equal(found.astype(np.float32), values.astype(np.float32))
    np.testing.assert_array_equal(read_onnx(model).constants["w"], values)
