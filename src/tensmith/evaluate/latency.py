"""Interleaved comparison: contenders take turns, each in its own process, only one running at a time.

What disturbs a machine (its clock, its neighbours) drifts over seconds and so hits every contender of a round
alike; the ratio is taken inside a round, and its interval over the rounds.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from tensmith.engine.base import Arrays, sizes_of
from tensmith.engine.signature import read_signature
from tensmith.engine.worker import Worker
from tensmith.evaluate.metric import Metric, spread
from tensmith.evaluate.statistics import Array, median_interval

_TURN_SECONDS = 0.03
_MOST_PER_TURN = 500
_FEWEST_ROUNDS = 8
_MOST_ROUNDS = 400
_PRECISE_ENOUGH = 0.005
_LOOK_EVERY = 8


@dataclass(frozen=True)
class Contender:
    """An engine with a file: one of those compared."""

    engine: str
    path: Path
    settings: tuple[tuple[str, str], ...] = ()

    @property
    def name(self) -> str:
        """How it is printed: `onnxruntime:model.onnx`."""
        return f"{self.engine}:{self.path.name}"

    def start(self, inputs: Arrays, threads: int, timeout: float = 120.0) -> Worker:
        """A worker that has loaded the file for the sizes of `inputs`, been fed them, and run once."""
        sizes = sizes_of(read_signature(self.path).inputs, inputs)
        worker = Worker(self.engine, self.path, threads, sizes=sizes, timeout=timeout, **dict(self.settings))
        try:
            worker.feed(inputs)
        except BaseException:
            worker.close()
            raise
        return worker


@dataclass(frozen=True)
class Latency:
    """One contender's latency in ms, and `ratio` = baseline / its own: above 1 it is the faster one."""

    contender: Contender
    baseline: str
    latency: Metric
    ratio: Metric
    rounds: int

    @property
    def verdict(self) -> str:
        """ "faster" or "slower" than the baseline only when the ratio's interval excludes 1."""
        if self.ratio.low > 1:
            return "faster"
        return "slower" if self.ratio.high < 1 else "no difference shown"


def compare(
    contenders: Sequence[Contender],
    inputs: Arrays | Sequence[Arrays],
    threads: int = 1,
    seconds: float = 10.0,
    seed: int = 0,
) -> tuple[Latency, ...]:
    """Latencies of all contenders on `threads` threads each; the first one is the baseline.

    `inputs` are one set for all, or one for each. Takes about `seconds` after loading, less when the ratios
    are known to half a per cent. EngineError if a contender cannot be loaded or run.
    """
    fed = [inputs] * len(contenders) if isinstance(inputs, Mapping) else list(inputs)
    with ExitStack() as stack:
        workers = [
            stack.enter_context(contender.start(arrays, threads))
            for contender, arrays in zip(contenders, fed, strict=True)
        ]
        rounds = take_turns([worker.time for worker in workers], seconds, seed)
    return summarize(contenders, rounds, seed)


def take_turns(timers: Sequence[Callable[[int], Array]], seconds: float, seed: int = 0) -> Array:
    """Median nanoseconds of each contender in each round: float64 [rounds, contenders].

    `timers[i](count)` times `count` inferences of contender i. The first inference of a turn finds caches
    that another process has filled, and is dropped; so is a whole warm-up turn. Rounds go on until every
    ratio is precise or the time is up. That rule looks at the width of the intervals only, never at where
    they lie, so stopping early does not favour anybody.
    """
    counts = [_turn_length(timer) for timer in timers]
    rounds: list[list[float]] = []
    deadline = time.monotonic() + seconds
    while len(rounds) < _MOST_ROUNDS:
        rounds.append([float(np.median(timer(count + 1)[1:])) for timer, count in zip(timers, counts)])
        if len(rounds) < _FEWEST_ROUNDS:
            continue
        if time.monotonic() > deadline:
            break
        if len(rounds) % _LOOK_EVERY == 0 and _precise(np.array(rounds), seed):
            break
    return np.array(rounds)


def _turn_length(timer: Callable[[int], Array]) -> int:
    """How many inferences fill a turn; also warms the contender up for two turns."""
    first = max(1.0, float(np.min(timer(2))))
    warm = max(1, min(_MOST_PER_TURN, round(2 * _TURN_SECONDS * 1e9 / first)))
    typical = max(1.0, float(np.median(timer(warm))))
    return max(1, min(_MOST_PER_TURN, round(_TURN_SECONDS * 1e9 / typical)))


def _precise(rounds: Array, seed: int) -> bool:
    for index in range(rounds.shape[1]):
        ratios = rounds[:, 0] / rounds[:, index]
        low, high = median_interval(ratios, seed)
        if high - low > 2 * _PRECISE_ENOUGH * float(np.median(ratios)):
            return False
    return True


def summarize(contenders: Sequence[Contender], rounds: Array, seed: int = 0) -> tuple[Latency, ...]:
    """Medians over the rounds [rounds, contenders] in ns, with bootstrap intervals of latency and ratio."""
    return tuple(
        Latency(
            contender,
            contenders[0].name,
            _median(rounds[:, index] / 1e6, "ms", seed),
            _median(rounds[:, 0] / rounds[:, index], "x", seed),
            len(rounds),
        )
        for index, contender in enumerate(contenders)
    )


def _median(samples: np.ndarray[Any, Any], unit: str, seed: int) -> Metric:
    return spread(float(np.median(samples)), *median_interval(samples, seed), unit)
