"""Of a model whose work cannot be counted nothing is expected, and nothing estimated."""

from __future__ import annotations

from pathlib import Path
from unittest import mock

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from tensmith.errors import ModelError
from tensmith.evaluate.count import uncounted
from tensmith.frontend.onnx import read_onnx
from tensmith.hardware import load_target
from tensmith.study import materials, run


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A product, an operator that nobody knows, and a product behind it."""
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["g"]),
        helper.make_node("Unheard", ["g"], ["h"], domain="nobody"),
        helper.make_node("MatMul", ["h", "w"], ["y"]),
    ]
    shape = (TensorProto.FLOAT, [1, 4])
    inputs, outputs = (helper.make_tensor_value_info(name, *shape) for name in "xy")
    weights = numpy_helper.from_array(np.random.default_rng(0).random((4, 4), np.float32), "w")
    graph = helper.make_graph(nodes, "g", [inputs], [outputs], [weights])
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("nobody", 1)]
    onnx.save(helper.make_model(graph, opset_imports=opsets), tmp_path / "m.onnx")
    return tmp_path / "m.onnx"


def test_no_speed_up_is_expected(path: Path) -> None:
    program = read_onnx(path)
    assert [node.output for node in uncounted(program)] == ["h", "y"]
    material = mock.Mock(request=mock.Mock(program=program), sizes={})
    work = materials._work(material, path, "float16")
    assert work["macs"].value == 16 and "expected" not in work


def test_no_energy_is_told_where_no_counter_is(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run, "energy_counter", lambda kind: None)
    material = mock.Mock(sizes={}, request=mock.Mock(target=load_target("raspberry-pi-4")))
    assert run._energy(mock.Mock(path=path), mock.Mock(hardware="cpu:1"), material) is None


def test_nothing_is_estimated(path: Path) -> None:
    cell = mock.Mock(hardware="estimated:host")
    made = mock.Mock(**{"optimized.return_value": path, "of.return_value": mock.Mock(sizes={}, batch=1)})
    made.figures.return_value = {}
    with pytest.raises(ModelError, match="the work of 2 of 3 nodes is not known, the first 'h'"):
        run._measured(mock.Mock(measure=()), cell, made)
