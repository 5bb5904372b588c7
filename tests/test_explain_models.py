"""What is told of a model with open sizes is told at sizes that are named, and is never below nothing."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from onnx import helper

from saved_models import saved_model
from tensmith.cli.explain import explain
from tensmith.cli.rules import _seconds_here
from tensmith.diagnosis import _of_program
from tensmith.errors import UsageError
from tensmith.evaluate.count import node_costs, uncounted
from tensmith.explain import explain_model
from tensmith.frontend.onnx import read_onnx

TARGET = "raspberry-pi-5"


@pytest.fixture
def unpadded(tmp_path: Path) -> Path:
    """A convolution of 3x3 without padding on x [N, 3, H, 224]; at H=1 it would have -1 rows."""
    conv = helper.make_node("Conv", ["x", "w"], ["y"])
    weights = np.ones((8, 3, 3, 3), np.float32)
    return saved_model(tmp_path / "unpadded.onnx", [conv], ["N", 3, "H", 224], {"w": weights})


def test_layers_with_open_sizes_are_counted_at_those_that_bench_takes(unpadded: Path) -> None:
    found = explain_model(unpadded, TARGET)
    assert found["sizes"] == {"N": 1, "H": 128}
    (layer,) = found["layers"]
    assert layer["multiply_adds"] == 8 * 126 * 222 * 27 and layer["ms"] > 0
    assert all(row["ms_before"] == layer["ms"] and row["ms_after"] > 0 for row in found["outlooks"])
    assert "taken as N=1, H=128; --sizes says otherwise" in explain(unpadded, target=TARGET).shown[-1]


def test_sizes_may_be_given(unpadded: Path) -> None:
    (layer,) = explain_model(unpadded, TARGET, sizes={"H": 5})["layers"]
    assert layer["multiply_adds"] == 8 * 3 * 222 * 27
    assert "--sizes" not in str(explain(unpadded, target=TARGET, sizes="H=5,N=1").shown[-1])
    with pytest.raises(UsageError, match="no input leaves a size 'W' open"):
        explain_model(unpadded, TARGET, sizes={"W": 5})
    with pytest.raises(UsageError, match="--sizes is for a model"):
        explain(unpadded.parent, sizes="H=5")


def test_what_has_no_shape_at_some_size_has_no_cost(unpadded: Path) -> None:
    program = read_onnx(unpadded)
    assert not list(node_costs(program, {"H": 1})) and len(uncounted(program, {"H": 1})) == 1
    assert explain_model(unpadded, TARGET, sizes={"H": 1})["layers"][0]["ms"] is None


def test_laws_are_ranked_by_times_above_nothing(unpadded: Path) -> None:
    assert min(_seconds_here()(read_onnx(unpadded)).values()) > 0


def test_findings_are_of_the_sizes_that_were_taken(tmp_path: Path) -> None:
    """At L=1 a convolution of two has no output, so it would be no layer."""
    nodes = [
        helper.make_node("DequantizeLinear", ["c", "s"], ["w"]),
        helper.make_node("Conv", ["x", "w"], ["y"]),
    ]
    codes, scale = np.ones((8, 3, 2), np.int8), np.float32(0.5).reshape(())
    program = read_onnx(saved_model(tmp_path / "coded.onnx", nodes, [1, 3, "L"], {"c": codes, "s": scale}))
    (found,) = (each for each in _of_program(program, {"L": 8}) if "8-bit weights" in each.what)
    assert found.where == ("y",)
