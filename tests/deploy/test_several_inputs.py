"""`tensmith.compress` of a model with several inputs: arrays by name, from a file and from Python."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from tensmith import compress, load
from tensmith.errors import DataError, UsageError
from tensmith.preview import preview

LENGTH, WORDS, WIDTH, CLASSES = 12, 50, 64, 4
RNG = np.random.default_rng(0)
TABLES = {
    "embedding": RNG.standard_normal((WORDS, WIDTH)).astype(np.float32),
    "hidden": RNG.standard_normal((WIDTH, 256)).astype(np.float32) / 8,
    "head": RNG.standard_normal((256, CLASSES)).astype(np.float32) / 16,
    "last": np.array([-1], np.int64),
    "words": np.array([1], np.int64),
}


def classifier(path: Path) -> None:
    """Logits of the mean embedding of the words that a mask leaves: [n, 12], [n, 12] -> [n, 4]."""
    graph = helper.make_graph(
        [
            helper.make_node("Gather", ["embedding", "input_ids"], ["each"]),
            helper.make_node("Cast", ["attention_mask"], ["real"], to=TensorProto.FLOAT),
            helper.make_node("Unsqueeze", ["real", "last"], ["column"]),
            helper.make_node("Mul", ["each", "column"], ["kept"]),
            helper.make_node("ReduceMean", ["kept", "words"], ["mean"], keepdims=0),
            helper.make_node("MatMul", ["mean", "hidden"], ["sums"]),
            helper.make_node("Relu", ["sums"], ["active"]),
            helper.make_node("MatMul", ["active", "head"], ["logits"]),
        ],
        "masked",
        [
            helper.make_tensor_value_info(name, TensorProto.INT64, ["n", LENGTH])
            for name in ("input_ids", "attention_mask")
        ],
        [helper.make_tensor_value_info("logits", TensorProto.FLOAT, ["n", CLASSES])],
        [numpy_helper.from_array(array, name) for name, array in TABLES.items()],
    )
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=10), path)


def samples(count: int) -> tuple[dict[str, np.ndarray], np.ndarray]:
    """Inputs by name, and the classes that the model gives them."""
    ids = RNG.integers(0, WORDS, (count, LENGTH))
    mask = (np.arange(LENGTH) < RNG.integers(1, LENGTH + 1, (count, 1))).astype(np.uint8)
    mean = (TABLES["embedding"][ids] * mask[..., None]).mean(1)
    logits = np.maximum(mean @ TABLES["hidden"], 0) @ TABLES["head"]
    return {"input_ids": ids, "attention_mask": mask}, logits.argmax(1)


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
    assert min(point.metrics["accuracy"].value for point in front.points) >= 95
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


def test_preprocessing_is_for_images(tmp_path: Path) -> None:
    classifier(tmp_path / "masked.onnx")
    with pytest.raises(UsageError, match="--preprocess imagenet is for images"):
        preview(tmp_path / "masked.onnx", samples(100), preprocess="imagenet")
