"""Which file engines load where a folder is named."""

from __future__ import annotations

from pathlib import Path

import onnx
import pytest
from onnx import helper

from tensmith.backend.packed import pack_file
from tensmith.cli.engine_file import engine_file
from tensmith.errors import ModelError


def model(path: Path, name: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    ends = [helper.make_tensor_value_info(end, 1, [2]) for end in ("x", "y")]
    graph = helper.make_graph([helper.make_node("Relu", ["x"], ["y"])], name, ends[:1], ends[1:])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9), path)
    return path


def test_of_a_run_it_is_the_one_to_deploy(tmp_path: Path) -> None:
    best = model(tmp_path / "run" / "best" / "model.onnx", "best")
    point = model(tmp_path / "run" / "candidates" / "000" / "model.onnx", "point")
    (tmp_path / "run" / "front.json").write_text("{}")
    made = tmp_path / "made"
    made.mkdir()
    assert engine_file(tmp_path / "run", made) == best
    assert engine_file(point.parent, made) == point
    pack_file(best, best.with_suffix(".packed"))
    unpacked = engine_file(tmp_path / "run", made)
    assert unpacked.parent == made and unpacked.read_bytes() == best.read_bytes()


def test_a_folder_without_a_model_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match="is a folder, not a file"):
        engine_file(tmp_path, tmp_path)
