"""A detector is compressed within points of average precision, and its points are verified."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import tensmith
from command_line import refused
from command_line import tensmith as command
from detector_models import detector, pictures
from tensmith.config import make_config
from tensmith.data import ImageInput, Subset, open_dataset, parse_preprocess
from tensmith.deploy.again import verify_point
from tensmith.deploy.identity import difference, run_identity
from tensmith.engine import ENGINES
from tensmith.errors import DataError, UsageError
from tensmith.evaluate.heads import HEADS
from tensmith.evaluate.shard import task_json, task_of
from tensmith.evaluate.task import Task, image_form
from tensmith.frontend.onnx import read_onnx

pytest.importorskip("pycocotools", reason="pycocotools is not installed")


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A detector, and images on which one or two cells are bright."""
    root = tmp_path_factory.mktemp("detector")
    detector(root / "m.onnx")
    pictures(root / "data")
    return root


def test_a_detector_keeps_its_precision(place: Path, tmp_path: Path) -> None:
    data = f"coco:{place / 'data'}"
    front = tensmith.compress(
        place / "m.onnx", data, output=tmp_path / "out", engines=("onnxruntime",), decode="yolov8",
        max_drop=3, time_budget=2,
    )  # fmt: skip
    within = [point for point in front.points if point.within_budget]
    assert any(point.metrics["size_ratio"].value > 1.2 for point in within)
    for point in within:
        assert point.metrics["accuracy"].unit == "AP" and point.metrics["accuracy"].value > 60
        assert point.metrics["accuracy_drop"].unit == "pt"
    found = verify_point(tmp_path / "out" / "best", place / "m.onnx", data)
    words = {finding.claim.partition(" ")[0]: finding.outcome for finding in found.findings}
    assert words["accuracy"] == words["accuracy_drop"] == "holds"


def test_it_must_be_said_how_boxes_are_read(place: Path, tmp_path: Path) -> None:
    data, output = f"coco:{place / 'data'}", tmp_path / "out"
    with pytest.raises(UsageError, match="--decode: fastestdet, yolov5"):
        tensmith.compress(place / "m.onnx", data, output=output)
    with pytest.raises(UsageError, match="for detectors"):
        tensmith.compress(place / "m.onnx", data, output=output, measure="fidelity", decode="yolov8")
    assert not output.exists()


def test_a_head_that_finds_nothing_is_refused(place: Path, tmp_path: Path) -> None:
    (tmp_path / "heads.py").write_text(
        "import numpy as np\ndef boxes(outputs, size): return [np.zeros((0, 6)) for _ in outputs['y']]\n"
    )
    with pytest.raises(DataError, match="finds no object in"):
        tensmith.compress(
            place / "m.onnx", f"coco:{place / 'data'}", output=tmp_path / "out", time_budget=2,
            engines=("onnxruntime",), decode=f"{tmp_path / 'heads.py'}:boxes", preprocess="unit",
        )  # fmt: skip


def test_a_head_of_another_text_is_another_run(tmp_path: Path) -> None:
    file = tmp_path / "heads.py"
    config = make_config(model="m.onnx", data="coco:x", decode=f"{file}:boxes")
    file.write_text("1")
    before = run_identity(config, "", "")
    assert difference(before, run_identity(config, "", "")) is None
    file.write_text("2")
    assert "file has changed" in str(difference(before, run_identity(config, "", "")))


def test_a_config_runs_no_code_of_its_own(place: Path, tmp_path: Path) -> None:
    (tmp_path / "heads.py").write_text("open('ran', 'w')\ndef boxes(outputs, size): return []\n")
    config = tmp_path / "config.yaml"
    config.write_text(f"model: {place / 'm.onnx'}\ndata: coco:{place / 'data'}\ndecode: heads.py:boxes\n")
    refused(command("compress", "--config", config, folder=tmp_path), 2, "heads.py:boxes", "--decode")
    for data in ("python:heads:boxes", "!!binary cHl0aG9uOmhlYWRzOmJveGVz"):  # the same in base64
        config.write_text(f"model: {place / 'm.onnx'}\ndata: {data}\n")
        refused(command("compress", "--config", config, folder=tmp_path), 2, "python:heads:boxes", "--data")
    config.write_text(f"model: {place / 'm.onnx'}\ndata: coco:{place / 'data'}\nray: a.stranger:1\n")
    refused(command("compress", "--config", config, folder=tmp_path), 2, "a.stranger:1", "--ray")
    assert not (tmp_path / "ran").exists()


def test_a_task_travels_to_workers_unless_it_holds_code() -> None:
    task = Task("average-precision", head=HEADS["yolov5"], classes=3)
    assert task_of(task_json(task)) == task
    assert task_json(Task("score", evaluation=lambda model, view: 0.0)) is None


@pytest.mark.data
def test_a_real_detector_sees_blue_first(data_dir: Path) -> None:
    model = data_dir / "models" / "fastestdet_coco.onnx"
    part = open_dataset(f"coco:{data_dir / 'coco_person'}").part("validation")
    view, program = Subset(part, np.arange(100)), read_onnx(model)
    session = ENGINES["onnxruntime"].prepare(model, 1)
    found = []
    for preprocess in ("unit-bgr", "unit"):
        images = ImageInput(parse_preprocess(preprocess), image_form(program, view))
        task = Task("average-precision", images, head=HEADS["fastestdet"], classes=1)
        found.append(task.outcome(session, view, None))
    assert 40 < found[0].metric().value < 52
    assert found[1].drop(found[0]).low > 0
