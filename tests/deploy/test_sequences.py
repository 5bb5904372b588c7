"""`tensmith.compress` of a language model: sequences of many lengths, judged by their likelihood."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from tensmith import compress

WORDS = ("one", "two", "three", "four", "five")


def language_model(path: Path) -> None:
    """Next-byte logits from the byte before: [1, length] -> [1, length, 256]."""
    rng = np.random.default_rng(0)
    tables = {
        "embedding": rng.standard_normal((256, 16)).astype(np.float32),
        "head": rng.standard_normal((16, 256)).astype(np.float32) / 4,
    }
    graph = helper.make_graph(
        [
            helper.make_node("Gather", ["embedding", "ids"], ["x"]),
            helper.make_node("MatMul", ["x", "head"], ["logits"]),
        ],
        "bigrams",
        [helper.make_tensor_value_info("ids", TensorProto.INT64, [1, "length"])],
        [helper.make_tensor_value_info("logits", TensorProto.FLOAT, [1, "length", 256])],
        [numpy_helper.from_array(array, name) for name, array in tables.items()],
    )
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=10), path)


def test_a_language_model_is_compressed(tmp_path: Path) -> None:
    language_model(tmp_path / "bigrams.onnx")
    stories = [" ".join(WORDS[: 1 + n % 5] * (1 + n % 3)) for n in range(120)]
    (tmp_path / "t.txt").write_text("<|endoftext|>".join(stories))
    front = compress(
        tmp_path / "bigrams.onnx",
        f"text:{tmp_path / 't.txt'}",
        output=tmp_path / "out",
        engines=("onnxruntime",),
        measure="loss",
        max_drop=5,
        time_budget=1,
    )
    assert front.points
    assert all("nats" in point.metrics["accuracy"].unit for point in front.points)
