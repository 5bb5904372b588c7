"""What one compression is of and for."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from tensmith.data import Splits
from tensmith.engine.base import ENGINES, Arrays
from tensmith.engine.device import DeviceEngine
from tensmith.evaluate.contender import Contender
from tensmith.evaluate.energy import Counter, contender_energy, program_energy
from tensmith.evaluate.memory import measure_memory
from tensmith.evaluate.task import Task
from tensmith.hardware import Target
from tensmith.ir import Program
from tensmith.report.metric import Metric
from tensmith.search.objective import Objective

# What engines compute on that have no device of their own.
PROCESSOR = "cpu"


def meter(engine: str) -> str:
    """Whose energy counter speaks of an engine: the PROCESSOR's, or that of the engine's own device."""
    return engine if isinstance(ENGINES[engine], DeviceEngine) else PROCESSOR


@dataclass(frozen=True)
class RunDescription:
    """The description that all parts of a run share: made once, changed never.

    model: the original's file, of `program`; source: as the user knows it. baseline: that file in the best
    stock runtime; every speed-up is against it. example: the sample that latency is measured on. sizes: of
    the program's symbols for that. judging_threads: of what needs no quiet machine. time_budget: in seconds.
    folder: takes what is built. fingerprint: of the samples and their splits. counters: of energy, by the
    engines' devices (see `meter`), where the machine has some and speaks of the target.
    """

    model: Path
    source: Path
    program: Program
    baseline: Contender
    task: Task
    splits: Splits
    example: Arrays
    sizes: Mapping[str, int]
    target: Target
    engines: tuple[str, ...]
    objective: Objective
    threads: int
    judging_threads: int
    time_budget: float
    seed: int
    folder: Path
    fingerprint: str = ""
    counters: Mapping[str, Counter] = field(default_factory=dict)

    def taken(
        self, contender: Contender, program: Program, processes: int, seconds: float
    ) -> dict[str, Metric]:
        """Memory and energy of an inference.

        Memory is measured in so many processes; energy for so many seconds with the counter of what
        computes, if there is one and it moves, else it is estimated for the target.
        """
        energy = None
        if counter := self.counters.get(meter(contender.engine)):
            energy = contender_energy(counter, contender, self.example, self.threads, seconds)
        if energy is None:
            energy = program_energy(program, self.target, self.sizes)
        memory = measure_memory(contender, self.example, self.threads, processes)
        return {"peak_bytes": memory, "energy_mj": energy}
