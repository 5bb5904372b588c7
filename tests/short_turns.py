"""Contenders are measured briefly where tests run them: no test is about how sure a latency is.

A run on a small model times a dozen pairs, each for half a second of turns of 30 ms; a point that is verified
with its data is timed for 3 s. Memory is measured in a dozen programs, each of which imports an engine: here
forks do, and tests/evaluate has a program.
"""

from __future__ import annotations

from typing import Any

_TURN, _AGAIN = 0.001, 0.1  # seconds


def take_short_turns() -> None:
    """From now on this process, and what is forked from it, measures models briefly."""
    from tensmith.deploy import again
    from tensmith.evaluate import latency
    from tensmith.search import race, run
    from tensmith.study import run as study

    latency._TURN_SECONDS = race._TURN_SECONDS = _TURN
    again._LATENCY_SECONDS = _AGAIN
    again.measure_memory = run.measure_memory = study.measure_memory = _memory


def _memory(contender: Any, inputs: Any, threads: int = 1, *_: int) -> Any:
    """As evaluate.memory measures it, in one process that is forked."""
    from tensmith.report.metric import exact

    with contender.start(inputs, threads) as worker:
        peak, before = worker.peak(1), worker.resident_before
    return exact(float(max(0, peak.resident - before)), "bytes", "measured" if peak.exact else "estimated")
