"""A plan beyond the budget is trained back: a point of the front that verifies, resumes and says so."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

pytest.importorskip("torch", reason="the torch extra is not installed")

from digit_lessons import interrupted_at
from digit_runs import COARSE, DIGITS, run, train_few_steps, trained_point
from tensmith.compression import Interrupted
from tensmith.errors import UsageError, VerificationError
from tensmith.verify.folder import verify_folder
from watched import Watch


@pytest.fixture(autouse=True)
def few_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    """One plan to train, for as many steps on every machine."""
    train_few_steps(monkeypatch)


@pytest.fixture(autouse=True)
def unseen(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Neither search nor training looks at what is held out."""
    watch = Watch(monkeypatch)
    yield
    assert not watch.touched and watch.seen


def outcomes(folder: Path) -> dict[str, str]:
    return {found.claim: found.outcome for found in verify_folder(folder, DIGITS / "digits.onnx").findings}


def test_a_stopped_run_goes_on_to_a_point_that_verifies(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    interrupted_at(monkeypatch, 30)
    with pytest.raises(Interrupted):
        run(tmp_path / "out")
    assert "training was interrupted" in (tmp_path / "out" / "report.json").read_text()
    front = run(tmp_path / "out", resume=True)
    point = trained_point(front)
    (last,) = (step for step in point.trail if step["rule"] == "recover")
    assert last["kind"] == "lossy" and last["params"]["steps"] > 30
    assert point.within_budget and point.metrics["accuracy_drop"].value <= 20
    tried = json.loads((tmp_path / "out" / "report.json").read_text())["tried"]
    before = next(each for each in tried if each["id"] == COARSE.id)
    assert before["metrics"]["accuracy_drop"]["value"] > 40

    again = run(tmp_path / "out", resume=True, recover=0)
    assert trained_point(again).id == point.id

    point = trained_point(again)
    found = outcomes(point.folder)
    assert found["model.onnx is what the trail leads to"] == "holds"
    assert found["training finds these weights"] == "not checked"
    assert "does not hold" not in found.values()
    begun = {"plan": point.folder / "plan.yaml", "recover": 0}
    with pytest.raises(
        UsageError, match=r"plan.yaml:\d+: its weights were trained in a run of other samples"
    ):
        run(tmp_path / "other", seed=1, **begun)
    assert trained_point(run(tmp_path / "other", **begun)).trail == point.trail
    (weights,) = point.folder.glob("trained-*.npz")
    kept = weights.read_bytes()
    weights.unlink()
    assert outcomes(point.folder)["model.onnx is what the trail leads to"] == "not checked"
    weights.write_bytes(kept[:-1] + bytes([kept[-1] ^ 1]))
    with pytest.raises(VerificationError, match="SHA-256"):
        verify_folder(point.folder, DIGITS / "digits.onnx")
