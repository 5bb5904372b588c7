"""4-bit weights in blocks through a whole run: built, judged, settled, written, verified and unpacked."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import tensmith
from command_line import tensmith as command
from tensmith.engine import ENGINES
from tensmith.frontend.onnx import read_onnx
from tensmith.search.space import Idea, Space

WORDS = ("one", "two", "three", "four", "five")
STEPS = ["block_int4", "weight_only"]


def language_model(path: Path) -> None:
    """Next-byte logits from the byte before, by a wide hidden layer and a head tied to the embedding."""
    random = np.random.default_rng(0)
    arrays = {
        "table": random.standard_normal((256, 64)).astype(np.float32) / 8,
        "up": random.standard_normal((64, 256)).astype(np.float32) / 8,
        "down": random.standard_normal((256, 64)).astype(np.float32) / 16,
    }
    nodes = [
        helper.make_node("Gather", ["table", "ids"], ["x"]),
        helper.make_node("MatMul", ["x", "up"], ["wide"]),
        helper.make_node("Relu", ["wide"], ["kept"]),
        helper.make_node("MatMul", ["kept", "down"], ["h"]),
        helper.make_node("Transpose", ["table"], ["turned"], perm=[1, 0]),
        helper.make_node("MatMul", ["h", "turned"], ["logits"]),
    ]
    ids = helper.make_tensor_value_info("ids", TensorProto.INT64, [1, "length"])
    logits = helper.make_tensor_value_info("logits", TensorProto.FLOAT, [1, "length", 256])
    graph = helper.make_graph(
        nodes, "bigrams", [ids], [logits],
        [numpy_helper.from_array(array, name) for name, array in arrays.items()],
    )  # fmt: skip
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=10), path)


@pytest.fixture(scope="module")
def out(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A finished run whose search knows the seeds alone; for reading only."""
    folder = tmp_path_factory.mktemp("blocks")
    language_model(folder / "bigrams.onnx")
    stories = [" ".join(WORDS[: 1 + n % 5] * (1 + n % 3)) for n in range(60)]
    (folder / "t.txt").write_text("<|endoftext|>".join(stories))
    seeds = Space.seeds

    def few(self: Space) -> Iterator[Idea]:
        return (idea for idea in seeds(self) if idea.family in ("untouched", "exact", "block_int4"))

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Space, "seeds", few)
        patch.setattr(Space, "moves", lambda *_: iter(()))
        tensmith.compress(
            folder / "bigrams.onnx", f"text:{folder / 't.txt'}", output=folder / "out",
            engines=("onnxruntime",), measure="loss", max_drop=50, time_budget=60,
        )  # fmt: skip
    return folder / "out"


@pytest.fixture
def point(out: Path) -> tuple[Path, dict[str, Any]]:
    """The folder of the point with blocks, and what the front says about it."""
    points = json.loads((out / "front.json").read_text())["points"]
    (number,) = [n for n, point in enumerate(points) if "block_int4" in json.dumps(point)]
    return out / "candidates" / f"{number:03d}", points[number]


def test_its_weights_are_codes_of_four_bits_and_of_eight(point: tuple[Path, dict[str, Any]]) -> None:
    program = read_onnx(point[0] / "model.onnx")
    kinds = sorted(program.type(name).dtype for name, a in program.constants.items() if a.size >= 256 * 64)
    assert kinds == ["i4", "i4", "i8"]


def test_the_front_gains_by_it(out: Path, point: tuple[Path, dict[str, Any]]) -> None:
    original = (out.parent / "bigrams.onnx").stat().st_size
    assert point[1]["metrics"]["packed_bytes"]["value"] < original / 5


def test_it_verifies_unpacks_and_loads(out: Path, point: tuple[Path, dict[str, Any]], tmp_path: Path) -> None:
    folder, original = point[0], out.parent / "bigrams.onnx"
    result = command("verify", folder, "--original", original, folder=tmp_path)
    assert result.returncode == 0, result.stdout + result.stderr
    result = command("unpack", folder / "model.packed", tmp_path / "again.onnx", folder=tmp_path)
    assert result.returncode == 0, result.stderr
    assert (tmp_path / "again.onnx").read_bytes() == (folder / "model.onnx").read_bytes()
    ids = np.frombuffer(b"one two three", np.uint8).astype(np.int64)[None]
    (exact,) = ENGINES["onnxruntime"].prepare(original, 1).run({"ids": ids}).values()
    small = tensmith.load(folder)(ids)
    assert np.linalg.norm(small - exact) < 0.2 * np.linalg.norm(exact)
