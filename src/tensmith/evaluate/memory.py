"""Peak resident memory while running, in fresh processes."""

from __future__ import annotations

from dataclasses import dataclass
from statistics import median

from tensmith.engine.base import Arrays
from tensmith.evaluate.contender import Contender
from tensmith.report.metric import Evidence, Metric

PROCESSES = 3
_INFERENCES = 5


@dataclass(frozen=True)
class MemoryUse:
    """The most bytes that a file adds, while it runs, to a process which holds its engine already.

    The engine's own libraries and the interpreter are the same for every file and are in `engine` instead.
    """

    running: Metric
    engine: Metric


def measure_memory(
    contender: Contender, inputs: Arrays, threads: int = 1, processes: int = PROCESSES
) -> MemoryUse:
    """Medians over fresh processes, lowest and highest as the interval; EngineError if it cannot run."""
    samples = [_sample(contender, inputs, threads) for _ in range(processes)]
    evidence: Evidence = "measured" if all(exact for *_, exact in samples) else "estimated"
    running, engine, _ = zip(*samples)
    return MemoryUse(_bytes(running, evidence), _bytes(engine, evidence))


def _sample(contender: Contender, inputs: Arrays, threads: int) -> tuple[int, int, bool]:
    with contender.start(inputs, threads, fresh=True) as worker:
        peak, before = worker.peak(_INFERENCES), worker.resident_before
    return max(0, peak.resident - before), before, peak.exact


def _bytes(samples: tuple[int, ...], evidence: Evidence) -> Metric:
    return Metric(median(samples), min(samples), max(samples), "bytes", evidence)
