"""Energy of an inference: a hardware counter where there is one (measured), else a table (estimated).

CPU: Intel RAPL through Linux powercap. GPU: NVML's total energy counter. Both count the whole package or
board, idle power and other processes included: what is measured is what the machine draws while this runs.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from tensmith.engine import nvml
from tensmith.engine.base import Arrays
from tensmith.errors import EngineError
from tensmith.evaluate.contender import Contender
from tensmith.evaluate.count import node_costs
from tensmith.evaluate.statistics import median_interval
from tensmith.hardware.target import Target
from tensmith.ir import Program
from tensmith.ir.program import array_bytes
from tensmith.report.metric import Metric, spread

_POWERCAP = Path("/sys/class/powercap")
_REPEATS = 9
_WARM_UP = 5
_PJ_IN_MJ = 1e-9


@dataclass(frozen=True)
class Counter:
    """An energy counter: `read` gives microjoules, starting over after `wrap` (None: never)."""

    name: str
    read: Callable[[], int]
    wrap: int | None = None

    def spent(self, before: int, after: int) -> int:
        """Microjoules between two readings."""
        return after - before if self.wrap is None or after >= before else after - before + self.wrap


def rapl_counter(folder: Path = _POWERCAP) -> Counter | None:
    """The energy of all CPU packages; None where the machine has no counter or does not let us read it.

    A zone named psys counts the whole platform, packages among it, and is left out.
    """
    zones = sorted(
        zone for zone in folder.glob("intel-rapl:*") if zone.name.count(":") == 1 and not _is_platform(zone)
    )
    try:
        wraps = [int((zone / "max_energy_range_uj").read_text()) for zone in zones]
        counters = [Counter(zone.name, _reader(zone / "energy_uj"), wrap) for zone, wrap in zip(zones, wraps)]
        for counter in counters:
            counter.read()
    except (OSError, ValueError):
        return None
    if len(counters) == 1:
        return counters[0]
    return _Sum(counters).counter() if counters else None


def _is_platform(zone: Path) -> bool:
    name = zone / "name"
    return name.exists() and name.read_text().strip() == "psys"


def _reader(file: Path) -> Callable[[], int]:
    return lambda: int(file.read_text())


class _Sum:
    """Several counters as one that never wraps."""

    def __init__(self, counters: list[Counter]) -> None:
        self._counters = counters
        self._last = [counter.read() for counter in counters]
        self._total = 0

    def counter(self) -> Counter:
        return Counter("+".join(counter.name for counter in self._counters), self._read)

    def _read(self) -> int:
        now = [counter.read() for counter in self._counters]
        self._total += sum(
            c.spent(before, after) for c, before, after in zip(self._counters, self._last, now)
        )
        self._last = now
        return self._total


def nvml_counter() -> Counter | None:
    """The energy of the NVIDIA board that CUDA computes on, else of the first one, else None.

    (nvmlDeviceGetTotalEnergyConsumption, Volta and later.) NVML counts boards in another order than CUDA.
    """
    library = nvml.library()
    if library is None:
        return None
    from tensmith.engine.engines.cuda import pci_bus_id

    handle, total, place = ctypes.c_void_p(), ctypes.c_ulonglong(), pci_bus_id()
    if place is None:
        unknown = library.nvmlDeviceGetHandleByIndex_v2(0, ctypes.byref(handle))
    else:
        unknown = library.nvmlDeviceGetHandleByPciBusId_v2(place.encode(), ctypes.byref(handle))
    if unknown or library.nvmlDeviceGetTotalEnergyConsumption(handle, ctypes.byref(total)):
        return None

    def read() -> int:
        if code := library.nvmlDeviceGetTotalEnergyConsumption(handle, ctypes.byref(total)):
            raise EngineError(f"the energy that the GPU took cannot be read: NVML's error {code}")
        return total.value * 1000

    return Counter(f"nvml:{place or 0}", read)


def energy_counter(device: str) -> Counter | None:
    """This machine's counter of what computes, "cpu" or an engine's own device; None where it has none."""
    if device == "cpu":
        return rapl_counter()
    return nvml_counter() if device == "cuda" else None


def measure_energy(counter: Counter, run: Callable[[int], object], count: int) -> Metric:
    """Millijoules an inference, where `run(count)` does `count` of them; choose it to last a second or so."""
    run(count)
    samples = []
    for _ in range(_REPEATS):
        before = counter.read()
        run(count)
        samples.append(counter.spent(before, counter.read()) / 1000 / count)
    values = np.array(samples)
    return spread(float(np.median(values)), *median_interval(values), "mJ")


def contender_energy(
    counter: Counter, contender: Contender, inputs: Arrays, threads: int, seconds: float
) -> Metric | None:
    """Millijoules an inference costs the machine, measured for about `seconds`; EngineError if it fails.

    None of a counter that stands still.
    """
    with contender.start(inputs, threads) as worker:
        nanoseconds = float(np.median(worker.time(_WARM_UP).nanoseconds))
        a_run = 1e9 * seconds / (_REPEATS + 1)
        spent = measure_energy(counter, worker.time, max(1, round(a_run / max(nanoseconds, 1.0))))
        return spent if spent.low > 0 else None


def program_energy(program: Program, target: Target, sizes: Mapping[str, int]) -> Metric:
    """Millijoules an inference, estimated from the target's table by counting operations and bytes."""
    macs: dict[str, float] = {}
    moved = largest = 0.0
    for _, cost in node_costs(program, sizes):
        macs[cost.dtype] = macs.get(cost.dtype, 0.0) + cost.macs + cost.elementwise_ops
        moved += cost.bytes_read + cost.bytes_written
        largest = max(largest, cost.bytes_written)
    weights = sum(map(array_bytes, program.constants.values()))
    return estimate_energy(target, macs, moved, weights + largest)


def estimate_energy(target: Target, macs: Mapping[str, float], moved: float, working_set: float) -> Metric:
    """Millijoules from the target's table: multiply-adds by dtype, and `moved` bytes read and written.

    Bytes cost a cache access if `working_set` bytes (weights and the largest activations) fit the last cache
    or a microcontroller's own memory, else a memory access; the interval runs from all of them the one way to
    all of them the other.
    """
    table = target.energy
    compute = sum(count * table.of(dtype) for dtype, count in macs.items())
    low, high = compute + moved * table.sram_byte, compute + moved * table.dram_byte
    value = low if working_set <= target.on_chip_bytes else high
    return Metric(value * _PJ_IN_MJ, low * _PJ_IN_MJ, high * _PJ_IN_MJ, "mJ", "estimated")
