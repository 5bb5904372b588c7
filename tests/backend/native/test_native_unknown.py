"""A model with an operator that TensIR does not know is refused by that operator's name."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper

from tensmith.backend.native.plan import fixed, make_plan
from tensmith.errors import EngineError
from tensmith.frontend.onnx import read_onnx
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
