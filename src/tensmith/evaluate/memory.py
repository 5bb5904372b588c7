"""Peak of what a model adds to the resident memory of its engine's process, in fresh processes."""

from __future__ import annotations

from statistics import median

from tensmith.engine.base import Arrays
from tensmith.evaluate.contender import Contender
from tensmith.report.metric import Evidence, Metric

PROCESSES = 3
_INFERENCES = 5


def measure_memory(
    contender: Contender, inputs: Arrays, threads: int = 1, processes: int = PROCESSES
) -> Metric:
    """The most bytes that a file adds, while it runs, to a process which holds its engine already.

    The median over fresh processes, lowest and highest as the interval; EngineError if it cannot run. The
    engine's own libraries and the interpreter are the same for every file, and are left out.
    """
    samples = [_sample(contender, inputs, threads) for _ in range(processes)]
    peaks = [peak for peak, _ in samples]
    evidence: Evidence = "measured" if all(exact for _, exact in samples) else "estimated"
    return Metric(median(peaks), min(peaks), max(peaks), "bytes", evidence)


def _sample(contender: Contender, inputs: Arrays, threads: int) -> tuple[int, bool]:
    with contender.start(inputs, threads, fresh=True) as worker:
        peak, before = worker.peak(_INFERENCES), worker.resident_before
    return max(0, peak.resident - before), peak.exact
