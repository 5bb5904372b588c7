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
    """Bytes that a file adds to a process which holds its engine already: `running` at most, and `loading`.

    The engine's own libraries and the interpreter are the same for every file and are in `engine` instead.
    """

    running: Metric
    loading: Metric
    engine: Metric


def measure_memory(
    contender: Contender, inputs: Arrays, threads: int = 1, processes: int = PROCESSES
) -> MemoryUse:
    """Medians over fresh processes, lowest and highest as the interval; EngineError if it cannot run."""
    samples = [_sample(contender, inputs, threads) for _ in range(processes)]
    evidence: Evidence = "measured" if all(sample[3] for sample in samples) else "estimated"
    running, loading, engine, _ = zip(*samples)
    return MemoryUse(_bytes(running, evidence), _bytes(loading, evidence), _bytes(engine, evidence))


def _sample(contender: Contender, inputs: Arrays, threads: int) -> tuple[int, int, int, bool]:
    with contender.start(inputs, threads, fresh=True) as worker:
        peak, load = worker.peak(_INFERENCES), worker.load
    return max(0, peak.resident - load.before), max(0, load.peak - load.before), load.before, peak.exact


def _bytes(samples: tuple[int, ...], evidence: Evidence) -> Metric:
    return Metric(median(samples), min(samples), max(samples), "bytes", evidence)
