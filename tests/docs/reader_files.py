"""The files that the site's pages say a reader has."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
from onnx import helper, numpy_helper

from command_line import tiny_model
from detector_models import detector, pictures
from gguf_models import rotary_model, written
from token_models import classifier, language_model, samples, stories

ROOT = Path(__file__).resolve().parents[2]


def _tokens(path: Path) -> None:
    inputs, labels = samples(200)
    ids, mask = inputs["input_ids"], inputs["attention_mask"].astype(np.int64)
    np.savez(path, ids=ids, mask=mask, labels=labels)


def _quantized(path: Path) -> None:
    """A layer between codes, with the weights of another kept in codes."""
    model = tiny_model()
    nodes = model.graph.node
    codes = [
        helper.make_node("QuantizeLinear", ["r", "step", "zero"], ["codes"]),
        helper.make_node("DequantizeLinear", ["codes", "step", "zero"], ["r1"]),
    ]
    for at, node in enumerate(codes):
        nodes.insert(2 + at, node)
    nodes[4].input[0] = "r1"
    for name, value in (("step", np.float32(4)), ("zero", np.uint8(0))):
        model.graph.initializer.append(numpy_helper.from_array(np.array(value), name))
    onnx.save(model, path)


def _copied(source: Path) -> Callable[[Path], None]:
    return lambda path: shutil.copytree(source, path) if source.is_dir() else shutil.copy(source, path)


def put_files(page: str, folder: Path, tiny: Path, finished: Callable[[], Path]) -> None:
    """Puts those of the reader's files into a folder that a page names."""
    makers: dict[str, Callable[[Path], object]] = {
        "model.onnx": _copied(tiny / "tiny.onnx"),
        "data.npz": _copied(tiny / "tiny.npz"),
        "reviews.onnx": classifier,
        "tokens.npz": _tokens,
        "lm.onnx": language_model,
        "lm.gguf": lambda path: path.write_bytes(written(rotary_model(), "Q8_0")),
        "stories.txt": lambda path: path.write_text(stories()),
        "yolo.onnx": detector,
        "street": pictures,
        "int8.onnx": _quantized,
        "before.onnx": _copied(tiny / "tiny.onnx"),
        "after.onnx": _copied(tiny / "tiny.onnx"),
        "other.onnx": lambda path: onnx.save(tiny_model(b=np.ones(8)), path),
        "stranger": lambda path: shutil.copytree(finished() / "best", path),
        "examples": lambda path: path.symlink_to(ROOT / "examples"),
    }
    for name, make in makers.items():
        if name in page:
            make(folder / name)
