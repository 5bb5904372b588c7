"""`tensmith.compress` of a model with several inputs: arrays by name, from a file and from Python."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import helper

from tensmith import compress, load
from tensmith.errors import DataError, UsageError
from tensmith.preview import preview
from token_models import CLASSES, classifier, samples


@pytest.mark.parametrize("engine", ["onnxruntime", "native"])
def test_a_model_of_two_inputs_is_compressed(tmp_path: Path, engine: str) -> None:
    classifier(tmp_path / "masked.onnx")
    inputs, labels = samples(400)
    np.savez(tmp_path / "words.npz", **inputs, y=labels)
    front = compress(
        tmp_path / "masked.onnx", f"npz:{tmp_path / 'words.npz'}", output=tmp_path / "out",
        engines=("onnxruntime",) if engine == "onnxruntime" else ("onnxruntime", "native"),
        max_drop=5, time_budget=4,
    )  # fmt: skip
    assert min(point.metrics["accuracy"].value for point in front.points if point.within_budget) >= 95
    assert max(point.metrics["size_ratio"].value for point in front.points) > 2
    model = load(front.best("size").folder)
    given = {
        "input_ids": inputs["input_ids"][:1],
        "attention_mask": inputs["attention_mask"][:1].astype("i8"),
    }
    assert np.shape(model(given)) == (1, CLASSES)


def test_data_that_does_not_name_the_inputs_is_refused(tmp_path: Path) -> None:
    classifier(tmp_path / "masked.onnx")
    inputs, labels = samples(100)
    renamed = {"ids": inputs["input_ids"], "attention_mask": inputs["attention_mask"]}
    for given, found in ((inputs["input_ids"], "one input"), (renamed, "ids, attention_mask")):
        with pytest.raises(DataError, match=f"takes input_ids, attention_mask, but the data has {found}"):
            preview(tmp_path / "masked.onnx", (given, labels))


def test_a_dry_run_refuses_what_the_run_does(tmp_path: Path) -> None:
    """An input without axes takes no sample of any data."""
    x, scale = (helper.make_tensor_value_info(*each) for each in (("x", 1, ["n", 4]), ("scale", 1, [])))
    y = helper.make_tensor_value_info("y", 1, ["n", 4])
    graph = helper.make_graph([helper.make_node("Mul", ["x", "scale"], ["y"])], "scaled", [x, scale], [y])
    opset = [helper.make_opsetid("", 17)]
    onnx.save(helper.make_model(graph, opset_imports=opset, ir_version=8), tmp_path / "scaled.onnx")
    data = {"x": np.ones((100, 4), np.float32), "scale": np.ones(100, np.float32)}, np.arange(100) % 4
    words = r"the data does not fit the model: input 'scale' has shape \[1\], but the model takes \[\]"
    with pytest.raises(DataError, match=words):
        preview(tmp_path / "scaled.onnx", data)
    with pytest.raises(DataError, match=words):
        compress(tmp_path / "scaled.onnx", data, output=tmp_path / "out")


def test_preprocessing_is_for_images(tmp_path: Path) -> None:
    classifier(tmp_path / "masked.onnx")
    with pytest.raises(UsageError, match="--preprocess imagenet is for images"):
        preview(tmp_path / "masked.onnx", samples(100), preprocess="imagenet")
