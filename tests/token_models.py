"""Small models of tokens, with samples: a classifier of two inputs, and a language model."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

LENGTH, WORDS, WIDTH, CLASSES = 12, 50, 64, 4
_RANDOM = np.random.default_rng(0)
TABLES = {
    "embedding": _RANDOM.standard_normal((WORDS, WIDTH)).astype(np.float32),
    "hidden": _RANDOM.standard_normal((WIDTH, 256)).astype(np.float32) / 8,
    "head": _RANDOM.standard_normal((256, CLASSES)).astype(np.float32) / 16,
    "last": np.array([-1], np.int64),
    "words": np.array([1], np.int64),
}
NUMBERS = ("one", "two", "three", "four", "five")


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
    random = np.random.default_rng(1)
    ids = random.integers(0, WORDS, (count, LENGTH))
    mask = (np.arange(LENGTH) < random.integers(1, LENGTH + 1, (count, 1))).astype(np.uint8)
    mean = (TABLES["embedding"][ids] * mask[..., None]).mean(1)
    logits = np.maximum(mean @ TABLES["hidden"], 0) @ TABLES["head"]
    return {"input_ids": ids, "attention_mask": mask}, logits.argmax(1)


def language_model(path: Path) -> None:
    """Next-byte logits from the byte before: [1, length] -> [1, length, 256]."""
    random = np.random.default_rng(0)
    tables = {
        "embedding": random.standard_normal((256, 16)).astype(np.float32),
        "head": random.standard_normal((16, 256)).astype(np.float32) / 4,
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


def stories() -> str:
    """A text of 120 short ones."""
    return "<|endoftext|>".join(" ".join(NUMBERS[: 1 + n % 5] * (1 + n % 3)) for n in range(120))
