"""The engine mixed: what native refuses, compiled in part, at any sizes, and found again."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper
from tiny_models import conv_relu

from own_cache import own_cache
from tensmith.engine import ENGINES, available, compiled
from tensmith.errors import EngineError

MIXED = ENGINES["mixed"]
pytestmark = pytest.mark.skipif(bool(MIXED.missing()), reason="no C compiler is installed")


@pytest.fixture
def model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The rows of x @ w that have a positive first element: how many those are, only the data says."""
    own_cache(tmp_path / "cache", monkeypatch)
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["y"]),
        helper.make_node("Gather", ["y", "zero"], ["first"], axis=1),
        helper.make_node("Greater", ["first", "least"], ["positive"]),
        helper.make_node("Compress", ["y", "positive"], ["rows"], axis=0),
    ]
    constants = {
        "w": np.random.default_rng(0).standard_normal((16, 10)).astype(np.float32),
        "zero": np.array(0), "least": np.array(0, np.float32),
    }  # fmt: skip
    graph = helper.make_graph(
        nodes, "rows", [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["batch", 16])],
        [helper.make_tensor_value_info("rows", TensorProto.FLOAT, ["positive_rows", 10])],
        [numpy_helper.from_array(array, name) for name, array in constants.items()],
    )  # fmt: skip
    path = tmp_path / "model.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 19)], ir_version=9), path)
    return path


def rows(count: int) -> dict[str, np.ndarray[Any, Any]]:
    return {"x": np.random.default_rng(count).standard_normal((count, 16)).astype(np.float32)}


def test_any_batch_runs_as_in_onnx_runtime(model: Path) -> None:
    session, truth = MIXED.prepare(model, 1), ENGINES["onnxruntime"].prepare(model, 1)
    for count in (1, 5, 9):
        found, expected = (each.run(rows(count))["rows"] for each in (session, truth))
        assert found.shape == expected.shape
        np.testing.assert_allclose(found, expected, rtol=0, atol=1e-5)
    session.bind(rows(5))()


def test_native_refuses_what_mixed_runs(model: Path) -> None:
    with pytest.raises(EngineError, match="native cannot load"):
        ENGINES[compiled.NATIVE].prepare(model, 1, sizes={"batch": 5})


def test_a_folder_is_found_again_and_loaded_as_it_is(model: Path) -> None:
    options = compiled.CompileOptions.of("mixed")
    folder = compiled.compiled_folder(model, {"batch": 5}, options)
    assert compiled.compiled_folder(model, {"batch": 5}, options) == folder
    assert MIXED.prepare(folder, 1).run(rows(5))["rows"].shape[1] == 10
    (folder / "libmixed.so").write_bytes(b"")
    with pytest.raises(EngineError, match=r"mixed cannot load .*libmixed.so was altered"):
        MIXED.prepare(folder, 1)


def test_nobody_gets_it_unasked() -> None:
    assert "mixed" not in available()


def test_it_takes_the_settings_of_native(tmp_path: Path) -> None:
    onnx.save(conv_relu()[0], tmp_path / "model.onnx")
    with pytest.raises(
        EngineError, match="mixed's tuning is one of tuned, untuned, metaschedule, not 'often'"
    ):
        MIXED.prepare(tmp_path / "model.onnx", 1, tuning="often")
