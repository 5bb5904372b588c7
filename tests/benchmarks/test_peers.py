"""The comparison with stock tools: its hypervolumes, goals, table, and how it finds tensmith's files."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Literal

import pytest
from benchmarks.compress import peers
from benchmarks.compress.stock.cases import Case
from benchmarks.compress.stock.entries import front
from benchmarks.compress.stock.table import COLUMNS, Row, cells, document, reached, verdict, volumes

from benchmarks import ROOT
from tensmith.errors import OutputError
from tensmith.files import sha256_bytes
from tensmith.report.metric import exact


def row(
    peer: str,
    speed: float,
    written: int,
    coded: int,
    *,
    fits: bool = True,
    runtime: str = "onnxruntime",
    note: str = "",
) -> Row:
    return Row(
        peer,
        "",
        runtime,
        exact(1 / speed, "ms"),
        exact(speed, "x"),
        written,
        coded,
        exact(90, "%"),
        exact(0.1, "pt"),
        exact(99, "%"),
        fits,
        note,
    )


BASELINE = row("ONNX Runtime fp32", 1, 1000, 950)
OPENVINO = row("OpenVINO fp32", 2, 1000, 900, runtime="openvino")


def test_volume_counts_the_smaller_size_and_the_inverse_speed() -> None:
    peer = row("static", 2, 400, 250)
    assert volumes([BASELINE, peer])["static"] == pytest.approx((1 - 250 / 1000) * (1 - 1 / 2))
    assert volumes([BASELINE, row("static", 2, 250, 400)]) == volumes([BASELINE, peer])


def test_volume_of_two_points_is_their_union() -> None:
    rows = [BASELINE, row("static", 4, 500, 500), row("static", 2, 250, 250)]
    assert volumes(rows)["static"] == pytest.approx(0.75 * 0.5 + 0.5 * 0.25)


def test_points_over_budget_count_nothing() -> None:
    assert volumes([BASELINE, row("static", 4, 100, 100, fits=False)])["static"] == 0


def test_slower_or_larger_points_count_nothing() -> None:
    assert volumes([BASELINE, row("dynamic", 0.5, 100, 100)])["dynamic"] == 0
    assert volumes([BASELINE, row("dynamic", 5, 1200, 1100)])["dynamic"] == 0


def test_a_peer_has_the_original_on_its_own_runtime() -> None:
    over = row("NNCF", 4, 300, 300, fits=False, runtime="openvino")
    found = volumes([BASELINE, OPENVINO, over, row("static", 1, 500, 500)])
    assert found["NNCF"] == pytest.approx(0.1 * 0.5)
    assert found["static"] == 0


def test_a_goal_is_reached_by_one_point_not_by_two() -> None:
    rows = [BASELINE, row("tensmith", 3, 500, 500), row("tensmith", 1, 100, 100)]
    assert reached(rows, "tensmith", (3, 0))
    assert reached(rows, "tensmith", (0, 10))
    assert reached(rows, "tensmith", (2, 2))
    assert not reached(rows, "tensmith", (2, 10))
    assert not reached(rows, "static", (0, 1))


def test_a_failure_keeps_its_reason() -> None:
    failed = Row("static", "min-max", failure="no operator found")
    assert cells(failed, 1000)[-1] == "fails: no operator found"
    assert volumes([BASELINE, failed])["static"] == 0


def test_a_row_has_a_cell_a_column() -> None:
    assert cells(row("static", 2, 400, 250), 1000) == (
        "static", "2.00x (2.00 to 2.00)", "0", "0", "4.00x", "+0.10 pt (+0.10 to +0.10)", "99.0%", "yes", "",
    )  # fmt: skip
    assert all(len(cells(r, 1000)) == len(COLUMNS) for r in (BASELINE, Row("x", "", failure="y")))


def case(measure: Literal["accuracy", "agreement"], *goals: tuple[float, float]) -> Case:
    return Case("model", "kind:path", None, measure, 1.0, goals)


def test_verdict_orders_peers_and_names_goals() -> None:
    rows = [BASELINE, row("static", 2, 500, 500), row("tensmith", 4, 250, 250)]
    judged = case("accuracy", (5, 0), (2, 4))
    assert verdict(rows, "tensmith", judged) == [
        "hypervolume: tensmith 0.562, static 0.250, ONNX Runtime fp32 0.000",
        "a point 5x faster: not reached",
        "a point 2x faster and 4x smaller: reached",
    ]
    assert len(verdict(rows[:2], "tensmith", judged)) == 1


def test_a_budget_of_agreement_is_shown_beside_one_of_accuracy() -> None:
    changed = row("static", 2, 500, 500, fits=False)
    assert verdict([BASELINE, changed], "tensmith", case("agreement")) == [
        "hypervolume: ONNX Runtime fp32 0.000, static 0.000",
        "were the budget 1 points of top-1 accuracy: static 0.250, ONNX Runtime fp32 0.000",
    ]


def test_document_is_json() -> None:
    written = json.loads(json.dumps(document([BASELINE, OPENVINO])))
    assert written["rows"][1]["ratio"]["value"] == 2
    assert set(written["hypervolume"]) == {"ONNX Runtime fp32", "OpenVINO fp32"}


def run_folder(folder: Path, engine: str) -> Path:
    (folder / "best").mkdir()
    files = {"model.onnx": b"model", "model.packed": b"packed", "certificate.json": b"{}"}
    for name, data in files.items():
        (folder / "best" / name).write_bytes(data)
    hashes = {name: sha256_bytes(data) for name, data in files.items()}
    document = {"points": [{"id": "p1", "engine": engine, "files": hashes}]}
    (folder / "front.json").write_text(json.dumps(document))
    return folder


def test_front_points_are_found_by_hash(tmp_path: Path) -> None:
    (entry,) = front(run_folder(tmp_path, "openvino precision=bf16"))
    assert entry.contender is not None
    assert (entry.contender.engine, entry.contender.settings) == ("openvino", (("precision", "bf16"),))
    assert entry.files == (tmp_path / "best" / "model.onnx",)
    assert entry.packed == tmp_path / "best" / "model.packed"


def test_a_changed_file_is_refused(tmp_path: Path) -> None:
    folder = run_folder(tmp_path, "onnxruntime")
    (folder / "best" / "model.onnx").write_bytes(b"another")
    with pytest.raises(OutputError, match=r"lacks model\.onnx of point p1"):
        front(folder)


def test_openvinos_own_format_runs_wherever_openvino_does() -> None:
    """In a process of its own: whoever imports the engine registers it for all tests to come."""
    lines = (
        "import benchmarks.compress.stock.ir as ir; "
        "print((ir.OpenVinoIr().missing() is None) == (ir.OpenVino().missing() is None))"
    )
    said = subprocess.run([sys.executable, "-c", lines], cwd=ROOT, capture_output=True, text=True, check=True)
    assert said.stdout == "True\n"


def test_files_of_other_versions_of_the_tools_are_not_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    first = peers._makers()
    monkeypatch.setattr(peers, "versions", lambda: {"nncf": "0"})
    assert peers._makers() != first
