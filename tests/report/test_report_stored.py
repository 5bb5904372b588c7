"""report.json as a run stored it: read beside the front that it tells of, whatever became of that."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
from report_sample import sample

from tensmith import gate
from tensmith.errors import OutputError
from tensmith.report.stored import read_report


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A run's folder without a front."""
    (tmp_path / "report.json").write_text(json.dumps(sample()))
    return tmp_path


def test_another_front_is_refused(folder: Path) -> None:
    front = json.loads(json.dumps(sample()["front"]))
    (folder / "front.json").write_text(json.dumps(front))
    assert read_report(folder)["front"] == front
    (folder / "front.json").write_text(json.dumps(front | {"points": []}))
    with pytest.raises(OutputError, match="tells of another front than"):
        read_report(folder)


def test_a_number_beyond_all_floats_is_damage(folder: Path) -> None:
    report = sample()
    report["layers"][0]["bytes_before"] = 10**400
    (folder / "report.json").write_text(json.dumps(report))
    with pytest.raises(OutputError, match="damaged: a field is missing or wrong"):
        read_report(folder)


@pytest.mark.parametrize("wrong", [0, -1, 1.5, True, "2"])
@pytest.mark.parametrize("name", ["threads", "batch"])
def test_an_inference_in_no_thread_or_of_no_sample_is_damage(folder: Path, name: str, wrong: object) -> None:
    report = json.loads(json.dumps(sample()))
    report["context"][name] = wrong
    (folder / "report.json").write_text(json.dumps(report))
    with pytest.raises(OutputError, match=f"damaged: a field is missing or wrong .{name} is"):
        read_report(folder)


@pytest.mark.parametrize("damage", ["missing", "cut", "folder", "large"])
def test_a_damaged_front_is_told_by_whoever_reads_it(
    damage: str, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    front = folder / "front.json"
    if damage == "folder":
        front.mkdir()
    elif damage != "missing":
        front.write_text("{" if damage == "cut" else json.dumps(sample()["front"]))
    if damage == "large":
        monkeypatch.setattr(gate, "FRONT", replace(gate.FRONT, most=10))
    assert read_report(folder)["front"]["points"]
