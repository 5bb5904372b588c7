"""A model with an operator that TensIR does not know is refused by that operator's name."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper

from tensmith.backend.native.plan import fixed, make_plan
from tensmith.backend.native.steps.graph import step_graph
from tensmith.backend.native.steps.operands import traced
from tensmith.errors import EngineError, TensmithError
from tensmith.frontend.onnx import read_onnx
from tensmith.ir import Node, Program, TensorType
from tensmith.kernel.isa import host_isa


def test_a_recurrent_layer_is_named(tmp_path: Path) -> None:
    """Also where nothing is known of the sizes behind it."""
    weights = [
        numpy_helper.from_array(np.ones(shape, np.float32), name)
        for name, shape in (("w", (1, 16, 3)), ("r", (1, 16, 4)))
    ]
    nodes = [
        helper.make_node("LSTM", ["x", "w", "r"], ["steps"], name="memory", hidden_size=4, clip=1.0),
        helper.make_node("Transpose", ["steps"], ["y"], perm=[2, 0, 1, 3]),
    ]
    ends = [
        helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, shape)
        for name, shape in (("x", (5, "batch", 3)), ("y", ("batch", 5, 1, 4)))
    ]
    graph = helper.make_graph(nodes, "net", ends[:1], ends[1:], weights)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)]), tmp_path / "net.onnx")
    program = fixed(read_onnx(tmp_path / "net.onnx"), {"batch": 2})
    with pytest.raises(EngineError, match=r"node 'memory' \(onnx\.LSTM\) has no native kernel yet"):
        make_plan(program, host_isa())


@pytest.mark.parametrize(
    ("operator", "rank", "reason"),
    [
        ("Squeeze", 0, "has no native kernel yet"),
        ("Reshape", 1, "has no native kernel yet"),
        ("Reshape", 0, "must be a vector"),
        ("Expand", 0, "must be a vector"),
    ],
)
def test_memory_is_not_laid_out_by_what_a_file_states_of_a_shape(
    operator: str, rank: int, reason: str
) -> None:
    ends = [
        helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, (1, 6)),
        helper.make_tensor_value_info("t", onnx.TensorProto.INT64, (2,) * rank),
    ]
    stated = helper.make_tensor_value_info("y", onnx.TensorProto.FLOAT, (1000, 1000))
    graph = helper.make_graph([helper.make_node(operator, ["x", "t"], ["y"])], "net", ends, [stated])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])
    with pytest.raises(TensmithError, match=reason):
        make_plan(read_onnx(model), host_isa())


def test_a_view_of_another_number_of_elements_is_refused() -> None:
    node = Node("flatten", ("x",), ("y",), {"axis": 1})
    graph = step_graph(Program("net", {"x": TensorType("f32", (2, 3))}, ("y",), (node,), {}), host_isa())
    wrong = replace(graph, shapes={**graph.shapes, "y": (3, 3)}, tensors=frozenset(graph.program.nodes))
    with pytest.raises(EngineError, match=r"makes \[3, 3\] of 6 elements"):
        traced(wrong, "y")
