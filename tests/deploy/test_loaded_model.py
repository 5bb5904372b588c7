"""A model that was loaded: what it takes, and where it is saved."""

from __future__ import annotations

from pathlib import Path
from unittest.mock import Mock

import numpy as np
import onnx
import pytest
from google.protobuf.message import EncodeError

from command_line import tiny_model
from gguf_models import rotary_model, written
from tensmith.backend.onnx import serialized
from tensmith.backend.packed import pack
from tensmith.deploy.front import FrontPoint
from tensmith.deploy.model import Model, load
from tensmith.errors import DataError, EngineError, ModelError, OutputError, UsageError
from tensmith.files import sha256_file
from tensmith.report.metric import Metric


@pytest.fixture
def model(tmp_path: Path) -> Model:
    onnx.save(tiny_model(), tmp_path / "m.onnx")
    return load(tmp_path / "m.onnx")


def test_lists_are_arrays_by_name_too(model: Model) -> None:
    (spec,) = model.session.inputs
    x = np.random.default_rng(0).random((2, *spec.shape[1:])).astype(np.float32)
    assert (model({spec.name: x.tolist()}) == model(x)).all()
    for ragged in ([[1.0], [1.0, 2.0]], {spec.name: [[1.0], [1.0, 2.0]]}):
        with pytest.raises(DataError, match="the inputs are no arrays"):
            model(ragged)  # type: ignore[arg-type]


def test_tensors_that_numpy_cannot_read_are_refused_in_one_sentence(model: Model) -> None:
    torch = pytest.importorskip("torch")
    with pytest.raises(DataError, match=r"the inputs are no arrays: Can't call numpy\(\)"):
        model(torch.zeros(1, 3, 8, 8, requires_grad=True))


@pytest.mark.parametrize("threads", [0, -1, 1.5, "2", 5000])
def test_threads_are_a_whole_number(model: Model, threads: object) -> None:
    with pytest.raises(UsageError, match="threads is a whole number from 1 to 1024"):
        load(model.path, threads=threads)  # type: ignore[arg-type]


def test_a_damaged_file_is_refused_when_it_is_loaded(model: Model, tmp_path: Path) -> None:
    whole = model.path.read_bytes()
    for damaged in (whole[: len(whole) // 2], b"no model at all", b"GGUF and no more"):
        (tmp_path / "d.onnx").write_bytes(damaged)
        with pytest.raises(ModelError, match=r"d\.onnx"):
            load(tmp_path / "d.onnx")


def test_a_packed_file_that_is_refused_is_named(model: Model, tmp_path: Path) -> None:
    whole = pack(model.path.read_bytes())
    for content, words in ((whole[:-1], "damaged"), (model.path.read_bytes(), "is an ONNX file")):
        (tmp_path / "d.packed").write_bytes(content)
        with pytest.raises(ModelError, match=rf"d\.packed.*{words}"):
            load(tmp_path / "d.packed")


def test_an_onnx_file_is_not_called_packed(model: Model, tmp_path: Path) -> None:
    with pytest.raises(OutputError, match=r"small\.packed would be an ONNX file"):
        model.save(tmp_path / "small.packed")
    assert not (tmp_path / "small.packed").exists()


def test_what_one_file_cannot_hold_is_saved_as_two(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "m.gguf").write_bytes(written(rotary_model()))
    monkeypatch.setattr("tensmith.backend.onnx._PROTOBUF_LIMIT", 1000)
    with pytest.raises(
        OutputError, match=r"m\.gguf would be over 2 GB, .*; use save\(\), which puts weights"
    ):
        _ = load(tmp_path / "m.gguf").onnx_bytes

    larger = Mock(spec=onnx.ModelProto)
    larger.SerializeToString.side_effect = EncodeError
    with pytest.raises(OutputError, match="over 2 GB"):
        serialized(larger, tmp_path / "m.onnx")


def test_a_point_in_a_notebook_is_a_few_lines(tmp_path: Path) -> None:
    metrics = {"speedup": Metric(2.0, 1.5, 2.5, "x", "measured")}
    steps = 100 * ({"rule": "dead_code", "site": "*", "params": {}, "kind": "exact"},)
    point = FrontPoint("c1", False, "native", metrics, steps, {}, tmp_path)
    first, second = repr(point).splitlines()
    assert first == "c1 on native, beyond the budget"
    assert second.split() == ["speed-up", *str(metrics["speedup"]).split()]


def test_a_point_is_not_saved_under_a_file(model: Model, tmp_path: Path) -> None:
    files = {"model.onnx": sha256_file(model.path.rename(tmp_path / "model.onnx"))}
    point = FrontPoint("c1", True, "onnxruntime", {}, (), files, tmp_path)
    with pytest.raises(OutputError, match="cannot write"):
        point.save(tmp_path / "model.onnx" / "deeper.onnx")
    assert point.save(tmp_path / "new" / "deeper.onnx").is_file()


def test_a_point_runs_by_the_settings_that_it_was_judged_with(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    onnx.save(tiny_model(), tmp_path / "model.onnx")
    (tmp_path / "certificate.json").touch()
    deployed = Mock(engine="openvino", settings={"precision": "bf16"})
    monkeypatch.setattr("tensmith.deploy.model.require_certified", lambda folder: None)
    monkeypatch.setattr("tensmith.deploy.model.read_certificate", lambda path: Mock(deployed=deployed))
    assert load(tmp_path, engine="openvino")._settings == {"precision": "bf16"}
    assert load(tmp_path)._settings == {}
    for name in ("threads", "self", "sizes"):
        deployed.settings = {name: "4"}
        with pytest.raises(EngineError, match=f"engine 'openvino' has no setting '{name}'"):
            load(tmp_path, engine="openvino")
