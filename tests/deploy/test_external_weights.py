"""Models whose weights lie beside them: every file counts, and every point is whole wherever it goes."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx.external_data_helper import convert_model_to_external_data, set_external_data

from command_line import refused
from command_line import tensmith as command
from tensmith import Front, load
from tensmith.deploy.again import verify_point
from tensmith.files import sha256_file
from tensmith.frontend.model_files import file_identity, model_files
from tensmith.verify.schema import seal

# No point holds this, so the original stays on the front.
OPTIONS = ("--engines", "onnxruntime", "--time-budget", "1s", "--preprocess", "raw", "--max-latency", "1e-9")


@pytest.fixture(params=["weights.bin", "plan.yaml", "certificate.json", "in folders"])
def place(request: pytest.FixtureRequest, tiny: Path, tmp_path: Path) -> Path:
    """A folder with m.onnx, whose weights lie in one file beside it, by a name that runs may use themselves,
    or in folders, and its data.
    """
    shutil.copyfile(tiny / "tiny.npz", tmp_path / "tiny.npz")
    model = onnx.load(tiny / "tiny.onnx")
    if request.param != "in folders":
        convert_model_to_external_data(model, location=request.param, size_threshold=0)
    else:
        for number, tensor in enumerate(model.graph.initializer):
            (tmp_path / f"w{number}").mkdir()
            if not tensor.HasField("raw_data"):
                tensor.CopyFrom(onnx.numpy_helper.from_array(onnx.numpy_helper.to_array(tensor), tensor.name))
            set_external_data(tensor, f"w{number}/the weights")
    onnx.save(model, tmp_path / "m.onnx")
    assert len(model_files(tmp_path / "m.onnx")) > 1
    return tmp_path


def test_weights_beside_a_model_are_part_of_it_to_the_end(place: Path, tiny: Path) -> None:
    arguments = ("compress", "m.onnx", "--data", "npz:tiny.npz", *OPTIONS, "--output", "out")
    done = command(*arguments, folder=place)
    assert done.returncode == 0, done.stderr
    (point,) = (point for point in Front.read(place / "out").points if not point.trail)
    data = f"npz:{place / 'tiny.npz'}"
    found = verify_point(point.folder, place / "m.onnx", data).findings
    outcomes = {each.claim: each.outcome for each in found}
    assert outcomes["model.onnx is what the trail leads to"] == "holds"
    assert "does not hold" not in outcomes.values()
    ratio, size = (point.metrics[name].value for name in ("size_ratio", "packed_bytes"))
    theirs = sum(file.stat().st_size for file in model_files(place / "m.onnx"))
    assert ratio * size == pytest.approx(theirs, rel=0.05)
    forged = place / "forged"
    shutil.copytree(point.folder, forged)
    (weights,) = model_files(forged / "model.onnx")[1:]
    weights.write_bytes(weights.read_bytes()[:-1] + b"\7")
    certificate = json.loads((forged / "certificate.json").read_text())
    certificate["files"][weights.name] = sha256_file(weights)
    (forged / "certificate.json").write_text(json.dumps(seal(certificate)))
    outcomes = {found.claim: found.outcome for found in verify_point(forged, place / "m.onnx").findings}
    assert outcomes["model.onnx is what the trail leads to"] != "holds"
    (place / "saved").mkdir()
    saved = point.save(place / "saved" / "best.onnx")
    shutil.rmtree(place / "out" / "candidates")
    x = {"x": np.random.default_rng(0).random((1, 3, 8, 8), np.float32)}
    assert np.array_equal(load(saved)(x), load(tiny / "tiny.onnx")(x))

    data = model_files(place / "m.onnx")[1]
    before = file_identity(place / "m.onnx")
    data.write_bytes(data.read_bytes()[:-1] + b"\0")
    assert file_identity(place / "m.onnx") != before
    refused(command(*arguments, "--resume", folder=place), 1, "out was made with another model", "--output")


def test_a_damaged_weight_file_is_not_saved(place: Path) -> None:
    done = command("compress", "m.onnx", "--data", "npz:tiny.npz", *OPTIONS, "--output", "out", folder=place)
    assert done.returncode == 0, done.stderr
    (point,) = (point for point in Front.read(place / "out").points if not point.trail)
    data = model_files(point.folder / "model.onnx")[1]
    data.write_bytes(data.read_bytes()[:-1] + b"\1")
    with pytest.raises(Exception, match="not the file that was measured"):
        point.save(place / "saved.onnx")
