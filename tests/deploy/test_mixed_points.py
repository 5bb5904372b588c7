"""Points of a model that native code takes in part: a model and a library for ONNX Runtime."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper

import tensmith
from command_line import answers, images, tiny_model
from own_cache import own_cache
from tensmith.deploy.again import verify_point
from tensmith.engine import ENGINES
from tensmith.engine.compiled import NATIVE

pytestmark = pytest.mark.skipif(bool(ENGINES["mixed"].missing()), reason="no C compiler is installed")


def branching() -> onnx.ModelProto:
    """The tiny model with an If behind it, which gives the same answers either way."""
    model = tiny_model()
    graph = model.graph
    graph.node[-1].output[0] = "z"
    branches = [
        helper.make_graph(
            [helper.make_node(op, ["z"], [f"{op}_y"])], op, [],
            [helper.make_tensor_value_info(f"{op}_y", TensorProto.FLOAT, ["n", 4])],
        )
        for op in ("Identity", "Softplus")
    ]  # fmt: skip
    graph.node.append(helper.make_node("ReduceMax", ["z"], ["most"], keepdims=0))
    graph.node.append(helper.make_node("Greater", ["most", "zero"], ["positive"]))
    graph.node.append(
        helper.make_node("If", ["positive"], ["y"], then_branch=branches[0], else_branch=branches[1])
    )
    graph.initializer.append(numpy_helper.from_array(np.array(0, np.float32), "zero"))
    return model


@pytest.fixture(scope="module")
def point(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a point of the engine mixed, of a run in which native may race; for reading only."""
    folder = tmp_path_factory.mktemp("mixed")
    samples, model = images(), branching()
    onnx.save(model, folder / "branching.onnx")
    np.savez(folder / "data.npz", x=samples, y=answers(model, samples))
    with pytest.MonkeyPatch.context() as patch:
        own_cache(folder / "cache", patch)
        tensmith.compress(
            folder / "branching.onnx", f"npz:{folder / 'data.npz'}", output=folder / "out",
            engines=(NATIVE,), time_budget=1, preprocess="raw", prefer="latency",
        )  # fmt: skip
    points = json.loads((folder / "out" / "front.json").read_text())["points"]
    number = next(number for number, point in enumerate(points) if point["engine"] == "mixed")
    assert points[number]["metrics"]["native_bytes"]["value"] > 0
    assert {"mixed.onnx", "libmixed.so", "model.onnx"} <= set(points[number]["files"])
    return folder / "out" / "candidates" / f"{number:03d}"


def test_an_application_of_onnx_runtime_runs_it(point: Path) -> None:
    options = onnxruntime.SessionOptions()
    options.register_custom_ops_library(str(point / "libmixed.so"))
    x = np.ones((1, 3, 8, 8), np.float32)
    (found,) = onnxruntime.InferenceSession(str(point / "mixed.onnx"), options).run(None, {"x": x})
    (expected,) = onnxruntime.InferenceSession(str(point / "model.onnx")).run(None, {"x": x})
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-4)


def test_load_runs_what_was_measured(point: Path) -> None:
    model = tensmith.load(point)
    assert model(np.ones((1, 3, 8, 8), np.float32)).shape == (1, 4)
    assert "libmixed.so" in Path("/proc/self/maps").read_text()


def test_verify_compiles_it_again_and_runs_it(point: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    own_cache(point.parents[2] / "cache", monkeypatch)
    result = verify_point(point, point.parents[2] / "branching.onnx")
    found = {finding.claim: finding for finding in result.findings}
    for name in ("mixed.onnx", "libmixed.so"):
        assert found[f"{name} is what model.onnx compiles to"].outcome == "holds"
    assert found["libmixed.so computes what model.onnx does, but for rounding"].outcome == "holds"
    assert result.ok
