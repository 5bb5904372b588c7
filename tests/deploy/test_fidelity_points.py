"""A model that classifies nothing is compressed on inputs without labels, and its points are verified."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from command_line import tiny_model
from tensmith import compress
from tensmith.deploy.again import verify_point
from tensmith.errors import DataError, UsageError
from tensmith.preview import preview


def embedding(path: Path) -> None:
    """[n, 12] -> a unit vector [n, 32], and its norm before [n, 1]."""
    weights = np.random.default_rng(0).standard_normal((12, 32)).astype(np.float32)
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["h"]),
        helper.make_node("Tanh", ["h"], ["t"]),
        helper.make_node("ReduceL2", ["t"], ["norm"], axes=[1]),
        helper.make_node("Div", ["t", "norm"], ["e"]),
    ]
    outputs = [
        helper.make_tensor_value_info("e", TensorProto.FLOAT, ["n", 32]),
        helper.make_tensor_value_info("norm", TensorProto.FLOAT, ["n", 1]),
    ]
    graph = helper.make_graph(
        nodes, "embedding", [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", 12])], outputs,
        [numpy_helper.from_array(weights, "w")],
    )  # fmt: skip
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)


@pytest.fixture
def place(tmp_path: Path) -> Path:
    embedding(tmp_path / "m.onnx")
    x = np.random.default_rng(1).standard_normal((240, 12)).astype(np.float32)
    np.savez(tmp_path / "d.npz", x=x)
    return tmp_path


def test_outputs_keep_their_signal(place: Path) -> None:
    data = f"npz:{place / 'd.npz'}"
    front = compress(
        place / "m.onnx", data, output=place / "out", engines=("onnxruntime",), measure="fidelity",
        max_drop=2, time_budget=2,
    )  # fmt: skip
    assert front.points
    for point in front.points:
        assert point.metrics["accuracy"].unit == "dB" and point.metrics["accuracy_drop"].unit == "%"
    within = [point for point in front.points if point.within_budget]
    assert within and all(point.metrics["accuracy"].value >= 34 for point in within)  # 2% of error
    found = verify_point(place / "out" / "best", place / "m.onnx", data)
    words = {finding.claim.partition(" ")[0]: finding.outcome for finding in found.findings}
    assert words["accuracy_drop"] == "holds"


def test_images_are_named_for_fidelity(place: Path) -> None:
    onnx.save(tiny_model(), place / "t.onnx")
    np.savez(place / "i.npz", x=np.zeros((60, 8, 8, 3), np.uint8))
    for measure in ("fidelity", "auto"):
        with pytest.raises(UsageError, match="--preprocess: imagenet"):
            compress(place / "t.onnx", f"npz:{place / 'i.npz'}", output=place / "out", measure=measure)


def test_one_number_a_sample_is_no_class(place: Path) -> None:
    model = onnx.load(place / "m.onnx")
    model.graph.output.pop(0)  # leaves the norm
    onnx.save(model, place / "norm.onnx")
    x = np.random.default_rng(0).standard_normal((60, 12)).astype(np.float32)
    with pytest.raises(DataError, match=r"one number a sample.*--measure fidelity"):
        preview(place / "norm.onnx", (x, np.arange(60) % 2))
    assert preview(place / "norm.onnx", (x, None))["measure"] == "fidelity"


def test_more_classes_than_the_model_tells_apart_are_said_at_once(place: Path) -> None:
    onnx.save(tiny_model(), place / "t.onnx")
    labels = np.arange(60) % 5
    with pytest.raises(DataError, match="labels up to 4, and the model tells 4 classes apart"):
        preview(place / "t.onnx", (np.zeros((60, 8, 8, 3), np.uint8), labels), preprocess="unit")
