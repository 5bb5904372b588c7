"""Optimizations that learn or search: they keep to their time, and are judged on what they never saw."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest

from command_line import images, tiny_model
from tensmith.backend.packed import container
from tensmith.compression import Interrupted
from tensmith.study import making, materials
from tensmith.study.plan import SearchBudget, StudyPlan, cells, read_plan
from tensmith.study.run import StudyRun, run_study

TEXT = """name: tiny
datasets: [{name: noise, data: "npz:noise.npz", samples: 40, calibration: 16}]
models: [{name: tiny, path: tiny.onnx, dataset: noise, preprocess: raw}]
optimizations: [none, weight_sharing, trained: [channel_pruning: 30], tensmith]
hardware: ["estimated:host"]
training: {seconds: 1}
search: {seconds: 1, max_drop: 100}
measure: [packed, energy]
method: {runs: 5, seconds: 0}
"""


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("making")
    onnx.save(tiny_model(), folder / "tiny.onnx")
    labels = np.random.default_rng(2).integers(0, 4, 240)
    np.savez(folder / "noise.npz", x_train=images()[:160], y_train=labels[:160],
             x_test=images()[160:], y_test=labels[160:])  # fmt: skip
    (folder / "study.yaml").write_text(TEXT)
    return folder


def run(place: Path, output: Path, **changes: object) -> StudyRun:
    plan: StudyPlan = read_plan(place / "study.yaml").model_copy(update=changes)
    return run_study(plan, place, output)


def test_each_makes_a_model_that_is_smaller(place: Path, tmp_path: Path) -> None:
    pytest.importorskip("torch")
    found = {result.cell.optimization: result for result in run(place, tmp_path).results}
    assert {name: result.reason for name, result in found.items() if result.failed} == {}
    original = found["none"].figures
    assert "packed_bytes" not in original  # what others are held against is as it came
    for name in ("weight_sharing", "trained:channel_pruning:30", "tensmith"):
        assert found[name].figures["packed_bytes"].value < original["file_bytes"].value, name
    assert "expected" not in found["tensmith"].figures  # of several formats at once
    assert found["trained:channel_pruning:30"].figures["macs"].value < original["macs"].value
    assert {result.figures["energy_mj"].evidence for result in found.values()} == {"estimated"}


def test_a_model_with_weights_beside_it_is_as_large_as_all_its_files(place: Path, tmp_path: Path) -> None:
    """Without them it packed to next to nothing."""
    model = onnx.load(place / "tiny.onnx")
    onnx.save(model, tmp_path / "m.onnx", save_as_external_data=True, location="m.data", size_threshold=0)
    files = [tmp_path / "m.onnx", tmp_path / "m.data"]
    assert materials._packed_bytes(files[0]).value == sum(file.stat().st_size for file in files)


def test_a_model_that_packs_to_nothing_is_as_large_as_its_file(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(container, "_allowed", lambda packed_size: 0)
    assert materials._packed_bytes(place / "tiny.onnx").value == (place / "tiny.onnx").stat().st_size


def test_ctrl_c_in_a_search_stops_the_study_and_is_no_cell_s_failure(
    place: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def stopped(**_: object) -> None:
        raise Interrupted(None)  # type: ignore[arg-type]

    monkeypatch.setattr(making, "compress", stopped)
    found = run(place, tmp_path, optimizations=("none", "tensmith"))
    assert found.interrupted and [result.cell.optimization for result in found.results] == ["none"]


def test_a_cell_depends_on_the_budget_only_where_it_takes_time(place: Path) -> None:
    plan = read_plan(place / "study.yaml")
    other = plan.model_copy(update={"search": SearchBudget(seconds=9.0)})
    same = {one.optimization for one, two in zip(cells(plan), cells(other), strict=True) if one == two}
    assert same == {"none", "weight_sharing", "trained:channel_pruning:30"}
