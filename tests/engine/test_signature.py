"""The signature is onnx's own, and no bytes whatever get past it except as an EngineError."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx import TensorProto, helper, numpy_helper
from tiny_models import matmul

from tensmith.engine import TensorSpec, read_signature
from tensmith.engine.base import fix, sizes_of
from tensmith.errors import EngineError

WHOLE = matmul()[0].SerializeToString()


def _save(path: Path, inputs: list[onnx.ValueInfoProto], weights: list[str]) -> Path:
    initializers = [numpy_helper.from_array(np.zeros(1, np.float32), name) for name in weights]
    node = helper.make_node("Identity", ["x"], ["y"])
    output = helper.make_tensor_value_info("y", TensorProto.FLOAT, None)
    path.write_bytes(
        helper.make_model(helper.make_graph([node], "g", inputs, [output], initializers)).SerializeToString()
    )
    return path


def test_symbols_fixed_sizes_and_unnamed_sizes(tmp_path: Path) -> None:
    x = helper.make_tensor_value_info("x", TensorProto.INT64, ["n", 3, None])
    signature = read_signature(_save(tmp_path / "m.onnx", [x], []))
    assert signature.inputs == (TensorSpec("x", "int64", ("n", 3, "x.2")),)
    assert signature.outputs == (TensorSpec("y", "float32", None),)
    assert signature.operators == {"Identity"}


def test_weights_listed_as_inputs_are_not_fed(tmp_path: Path) -> None:
    names = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [1]) for name in ("x", "w")]
    signature = read_signature(_save(tmp_path / "m.onnx", names, ["w"]))
    assert [spec.name for spec in signature.inputs] == ["x"]


def test_an_input_that_is_no_tensor_is_refused(tmp_path: Path) -> None:
    x = helper.make_tensor_sequence_value_info("x", TensorProto.FLOAT, [1])
    with pytest.raises(EngineError, match=r"m\.onnx: 'x' is not a tensor .*; export the model with tensors"):
        read_signature(_save(tmp_path / "m.onnx", [x], []))


def test_models_of_the_evaluation_data(data_dir: Path) -> None:
    for path in sorted((data_dir / "models").glob("*.onnx")):
        graph = onnx.load(str(path)).graph
        signature = read_signature(path)
        assert [spec.name for spec in signature.outputs] == [value.name for value in graph.output]
        assert signature.operators == {node.op_type for node in graph.node}


def test_sizes_come_from_the_arrays() -> None:
    specs = (TensorSpec("a", "float32", ("n", 2)), TensorSpec("b", "float32", ("n",)))
    arrays = {"a": np.zeros((3, 2), np.float32), "b": np.zeros(3, np.float32)}
    assert sizes_of(specs, arrays) == {"n": 3}
    assert fix(specs[0], {"n": 3}) == (3, 2)
    assert fix(specs[0], {}) is None
    with pytest.raises(EngineError, match="'n' both the sizes 3 and 4"):
        sizes_of(specs, arrays | {"b": np.zeros(4, np.float32)})


@settings(max_examples=150)
@given(st.integers(0, len(WHOLE) - 1), st.integers(0, 255), st.integers(0, len(WHOLE)))
def test_mutants_are_read_or_refused(
    tmp_path_factory: pytest.TempPathFactory, at: int, byte: int, stop: int
) -> None:
    path = tmp_path_factory.getbasetemp() / "mutant.onnx"
    path.write_bytes((WHOLE[:at] + bytes([byte]) + WHOLE[at + 1 :])[:stop])
    try:
        read_signature(path)
    except EngineError as error:
        assert "mutant.onnx" in str(error)
