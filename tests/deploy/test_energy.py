"""Energy is measured where the machine has a counter, and estimated for other devices or without one."""

from __future__ import annotations

import itertools
from pathlib import Path

import pytest

from command_line import read_json
from tensmith import compress, compression
from tensmith.evaluate import energy
from tensmith.evaluate.energy import Counter, rapl_counter
from tensmith.search.run import meter


@pytest.mark.parametrize(
    ("target", "step", "evidence"),
    [("host", 5000, "measured"), ("raspberry-pi-4", 5000, "estimated"), ("host", 0, "estimated")],
)
def test_the_counter_is_that_of_this_machine_and_moves(
    tiny: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, target: str, step: int, evidence: str
) -> None:
    counts = itertools.count(7, step) if step else itertools.repeat(7)
    counter = Counter("package", lambda: next(counts))
    monkeypatch.setattr(energy, "rapl_counter", lambda: counter)
    front = compress(
        tiny / "tiny.onnx",
        f"npz:{tiny / 'tiny.npz'}",
        output=tmp_path / "out",
        engines=("onnxruntime",),
        time_budget=1,
        preprocess="raw",
        target=target,
    )
    spent = [point.metrics["energy_mj"] for point in front.points]
    assert {each.evidence for each in spent} == {evidence}
    assert all(each.low > 0 for each in spent)


def test_each_device_has_its_own_counter(monkeypatch: pytest.MonkeyPatch) -> None:
    processor, board = Counter("package", lambda: 0), Counter("board", lambda: 0)
    monkeypatch.setattr(energy, "rapl_counter", lambda: processor)
    monkeypatch.setattr(energy, "nvml_counter", lambda: board)
    found = compression._counters(("onnxruntime", "native", "opencl", "cuda"))
    assert [found.get(meter(name)) for name in ("onnxruntime", "native")] == [processor, processor]
    assert found.get(meter("cuda")) is board and found.get(meter("opencl")) is None
    assert "cuda" not in compression._counters(("onnxruntime",))


def test_without_a_counter_it_is_estimated(finished: Path) -> None:
    wanted = {"estimated"} if rapl_counter() is None else {"measured"}
    points = read_json(finished / "front.json")["points"]
    assert {point["metrics"]["energy_mj"]["evidence"] for point in points} == wanted
