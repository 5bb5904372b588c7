"""Memory is what a file adds, size is of all its files, energy comes with the right word."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from linear_model import save_linear
from tensmith.engine import nvml
from tensmith.engine.engines import cuda
from tensmith.errors import EngineError, ModelError
from tensmith.evaluate.contender import Contender
from tensmith.evaluate.energy import (
    Counter,
    contender_energy,
    estimate_energy,
    measure_energy,
    nvml_counter,
    rapl_counter,
)
from tensmith.evaluate.memory import measure_memory
from tensmith.evaluate.size import file_bytes, native_bytes, weight_bytes
from tensmith.hardware import load_target


def test_memory_counts_the_weights(tmp_path: Path) -> None:
    weights = np.random.default_rng(0).standard_normal((2048, 4096))
    path = save_linear(tmp_path / "big.onnx", "batch", weights)
    memory = measure_memory(Contender("onnxruntime", path), {"x": np.ones((1, 2048), np.float32)})
    assert 32 << 20 <= memory.value < 256 << 20
    assert memory.low <= memory.value <= memory.high


def test_sizes_with_and_without_external_data(tmp_path: Path) -> None:
    path = save_linear(tmp_path / "inside.onnx", "batch", np.zeros((64, 64)))
    assert file_bytes(path).value == path.stat().st_size
    assert weight_bytes(path).value == 64 * 64 * 4
    outside = tmp_path / "outside.onnx"
    onnx.save(onnx.load(path), outside, save_as_external_data=True, location="outside.data", size_threshold=0)
    assert file_bytes(outside).value == outside.stat().st_size + 64 * 64 * 4
    assert weight_bytes(outside).value == 64 * 64 * 4
    (tmp_path / "outside.data").unlink()
    with pytest.raises(ModelError, match=r"outside\.data"):
        file_bytes(outside)


def test_a_compiled_model_has_all_files_of_its_model(tmp_path: Path) -> None:
    model = onnx.load(save_linear(tmp_path / "m.onnx", "n", np.zeros((64, 64), np.float32)))
    onnx.save(model, tmp_path / "mixed.onnx", save_as_external_data=True, location="mixed.onnx.data")
    (tmp_path / "libmixed.so").write_bytes(bytes(100))
    expected = 100 + (tmp_path / "mixed.onnx").stat().st_size + 64 * 64 * 4
    assert native_bytes("mixed", tmp_path).value == expected


def test_constants_and_less_than_bytes_count(tmp_path: Path) -> None:
    constant = helper.make_node("Constant", [], ["c"], value=numpy_helper.from_array(np.zeros(10, np.int8)))
    use = helper.make_node("Identity", ["c"], ["y"])
    packed = helper.make_tensor("q", TensorProto.INT4, [5], [1, 2, 3, 4, 5])
    fourths = helper.make_tensor("r", TensorProto.UINT2, [5], [0, 1, 2, 3, 0])
    output = helper.make_tensor_value_info("y", TensorProto.INT8, [10])
    path = tmp_path / "m.onnx"
    path.write_bytes(
        helper.make_model(
            helper.make_graph([constant, use], "g", [], [output], [packed, fourths])
        ).SerializeToString()
    )
    assert weight_bytes(path).value == 10 + 3 + 2


@pytest.mark.parametrize("location", ["../secret", "", "/etc/passwd"])
def test_files_outside_the_folder_are_refused(tmp_path: Path, location: str) -> None:
    path = save_linear(tmp_path / "m.onnx", "batch", np.zeros((4, 4)))
    model = onnx.load(path)
    onnx.external_data_helper.set_external_data(model.graph.initializer[0], location=location)
    path.write_bytes(model.SerializeToString())
    with pytest.raises(ModelError, match="outside its folder"):
        file_bytes(path)


def test_not_a_model(tmp_path: Path) -> None:
    (tmp_path / "m.onnx").write_bytes(b"\xff" * 40)
    for path in (tmp_path / "m.onnx", tmp_path / "nosuch.onnx"):
        with pytest.raises(ModelError, match=path.name):
            weight_bytes(path)


def test_estimated_energy_follows_the_table() -> None:
    target = load_target("raspberry-pi-4")
    small = estimate_energy(target, {"fp32": 1e6}, 1e6, working_set=1e5)
    large = estimate_energy(target, {"fp32": 1e6}, 1e6, working_set=1e8)
    assert small.evidence == large.evidence == "estimated"
    assert small.value == pytest.approx((1e6 * 4.6 + 1e6 * 1.25) * 1e-9)
    assert large.value == pytest.approx((1e6 * 4.6 + 1e6 * 160) * 1e-9)
    assert (small.low, small.high) == (large.low, large.high)
    int8 = estimate_energy(target, {"int8": 1e6}, 0, working_set=1e5)
    assert int8.value == pytest.approx(0.3e-3)


@pytest.mark.parametrize("name", ["microcontroller-cortex-m4", "microcontroller-cortex-m7"])
def test_a_microcontroller_has_its_memory_on_the_chip(name: str) -> None:
    target = load_target(name)
    assert target.flash_bytes is not None
    held = target.ram_bytes + target.flash_bytes
    inside, outside = (estimate_energy(target, {"int8": 1e6}, 1e6, size) for size in (held, held + 1))
    assert inside.value == inside.low < outside.value == outside.high


def test_a_counter_is_measured_and_wraps() -> None:
    reading = 0

    def run(count: int) -> None:
        nonlocal reading
        reading = (reading + 5_000 * count) % 60_000

    metric = measure_energy(Counter("fake", lambda: reading, wrap=60_000), run, count=4)
    assert (metric.value, metric.unit, metric.evidence) == (5.0, "mJ", "measured")


class Boards:
    """Answers as NVML does for boards by number and by place, each with another energy."""

    def __init__(self) -> None:
        self.energy = {0: 100, b"0000:65:00.0": 200}
        self.code = 0

    def __getattr__(self, name: str) -> Any:
        def handle(key: int | bytes, found: Any) -> int:
            found._obj.value = 1 + list(self.energy).index(key)
            return 0

        def energy(board: Any, found: Any) -> int:
            found._obj.value = list(self.energy.values())[board.value - 1]
            return self.code

        return energy if name == "nvmlDeviceGetTotalEnergyConsumption" else handle


@pytest.mark.parametrize(("place", "energy"), [(None, 100), ("0000:65:00.0", 200)])
def test_the_board_that_cuda_computes_on_is_read(
    place: str | None, energy: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    boards = Boards()
    monkeypatch.setattr(nvml, "library", lambda: boards)
    monkeypatch.setattr(cuda, "pci_bus_id", lambda: place)
    counter = nvml_counter()
    assert counter is not None and counter.read() == 1000 * energy
    boards.code = 15  # NVML_ERROR_GPU_IS_LOST
    with pytest.raises(EngineError, match="NVML's error 15"):
        counter.read()


def test_inferences_are_measured_by_the_counter_there_is(tmp_path: Path) -> None:
    """A fake powercap folder whose package spends 2 J at each look."""
    zone = tmp_path / "intel-rapl:0"
    zone.mkdir()
    (zone / "max_energy_range_uj").write_text("1000000000")
    (zone / "energy_uj").write_text("0")
    found = rapl_counter(tmp_path)
    assert found is not None

    def read() -> int:
        (zone / "energy_uj").write_text(str(found.read() + 2_000_000))
        return found.read()

    path = save_linear(tmp_path / "m.onnx", "batch", np.zeros((64, 64)))
    contender, inputs = Contender("onnxruntime", path), {"x": np.ones((1, 64), np.float32)}
    metric = contender_energy(replace(found, read=read), contender, inputs, 1, seconds=0.1)
    assert metric is not None and (metric.unit, metric.evidence) == ("mJ", "measured")
    assert 0 < metric.low <= metric.value <= metric.high <= 2000
    still = replace(found, read=lambda: 7)
    assert contender_energy(still, contender, inputs, 1, seconds=0.01) is None


def test_rapl_sums_packages_and_skips_their_parts(tmp_path: Path) -> None:
    for zone, energy in (("intel-rapl:0", 100), ("intel-rapl:1", 900), ("intel-rapl:0:0", 50)):
        (tmp_path / zone).mkdir()
        (tmp_path / zone / "energy_uj").write_text(f"{energy}\n")
        (tmp_path / zone / "max_energy_range_uj").write_text("1000\n")
    (tmp_path / "intel-rapl:2").mkdir()
    (tmp_path / "intel-rapl:2" / "name").write_text("psys\n")  # the whole platform, packages among it
    counter = rapl_counter(tmp_path)
    assert counter is not None
    before = counter.read()
    (tmp_path / "intel-rapl:0" / "energy_uj").write_text("130")
    (tmp_path / "intel-rapl:1" / "energy_uj").write_text("20")
    assert counter.spent(before, counter.read()) == 30 + 120


def test_no_counter_is_none(tmp_path: Path) -> None:
    assert rapl_counter(tmp_path) is None
    (tmp_path / "intel-rapl:0").mkdir()
    assert rapl_counter(tmp_path) is None
    counter = nvml_counter()
    assert counter is None or counter.read() >= 0
