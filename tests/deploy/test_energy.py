"""Energy is measured where the machine has a counter, and estimated for other devices or without one."""

from __future__ import annotations

from pathlib import Path

import pytest

from command_line import read_json
from tensmith import compress, compression
from tensmith.evaluate.energy import rapl_counter


@pytest.fixture
def powercap(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A package whose counter stands still."""
    zone = tmp_path / "powercap" / "intel-rapl:0"
    zone.mkdir(parents=True)
    (zone / "energy_uj").write_text("7")
    (zone / "max_energy_range_uj").write_text("1000")
    monkeypatch.setattr(compression, "rapl_counter", lambda: rapl_counter(tmp_path / "powercap"))


@pytest.mark.usefixtures("powercap")
@pytest.mark.parametrize(("target", "evidence"), [("host", "measured"), ("raspberry-pi-4", "estimated")])
def test_the_counter_is_that_of_this_machine(tiny: Path, tmp_path: Path, target: str, evidence: str) -> None:
    front = compress(
        tiny / "tiny.onnx",
        f"npz:{tiny / 'tiny.npz'}",
        output=tmp_path / "out",
        engines=("onnxruntime",),
        time_budget=1,
        preprocess="raw",
        target=target,
    )
    energies = [point.metrics["energy_mj"] for point in front.points]
    assert {energy.evidence for energy in energies} == {evidence}
    assert all((energy.value == 0) == (evidence == "measured") for energy in energies)


def test_without_a_counter_it_is_estimated(finished: Path) -> None:
    wanted = {"estimated"} if rapl_counter() is None else {"measured"}
    points = read_json(finished / "front.json")["points"]
    assert {point["metrics"]["energy_mj"]["evidence"] for point in points} == wanted
