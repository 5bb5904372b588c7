"""Interleaved comparison: contenders take turns, each in its own process, only one running at a time.

What disturbs a machine (its clock, its neighbours) drifts over seconds and so hits every contender of a round
alike; the ratio is taken inside a round, and its interval over the rounds. Rounds in which a contender had to
wait for a processor are dropped.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from tensmith.engine.base import Arrays
from tensmith.engine.stopwatch import Turn
from tensmith.errors import EngineError
from tensmith.evaluate.contender import Contender
from tensmith.evaluate.statistics import median_interval, quantile_interval
from tensmith.formula.arith import Array
from tensmith.report.metric import Metric, spread

_TURN_SECONDS = 0.03
_MOST_PER_TURN = 500
_FEWEST_ROUNDS = 9  # of fewer, the interval of the median is from the least to the greatest
_MOST_ROUNDS = 400
_PRECISE_ENOUGH = 0.005
_PATIENCE = 2
_WARM_UP_TURNS = 2

# What is said of the slowest runs: a percentile each, and how many runs tell all of them.
PERCENTILES = (95, 99)
FEWEST_RUNS = 400

BUSY = "the machine was busy with other work, so latencies are means, less certain than medians"


@dataclass(frozen=True)
class Tail:
    """Milliseconds that so many per cent of all `runs` do not exceed, where there were enough to tell.

    Every run counts, also of rounds in which somebody else had the processor: leaving those out would cut off
    what is asked for. On a machine that is not quiet a tail is that machine's as much as the model's.
    """

    percentiles: Mapping[int, Metric]
    runs: int

    def to_json(self) -> dict[str, Any]:
        """{"p95_ms", "p99_ms", "runs"}; null where there were too few runs."""
        told = {name: self.percentiles.get(name) for name in PERCENTILES}
        found = {f"p{name}_ms": metric.to_json() if metric else None for name, metric in told.items()}
        return {**found, "runs": self.runs}


def tail_of(nanoseconds: Array) -> Tail:
    """The tail of the times of single runs [runs]."""
    found: dict[int, Metric] = {}
    for name in PERCENTILES:
        interval = quantile_interval(nanoseconds / 1e6, name / 100)
        if interval is not None:
            found[name] = spread(float(np.percentile(nanoseconds / 1e6, name)), *interval, "ms")
    return Tail(found, len(nanoseconds))


@dataclass(frozen=True)
class Latency:
    """One contender's latency in ms, and `ratio` = baseline / its own: above 1 it is the faster one.

    `busy`: as in `Rounds`.
    """

    contender: Contender
    baseline: str
    latency: Metric
    ratio: Metric
    busy: bool = False
    tail: Tail = field(default_factory=lambda: Tail({}, 0))

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
    limit: float = math.inf,
    turn_seconds: float | None = None,
    refusals: dict[Contender, str] | None = None,
) -> tuple[Latency, ...]:
    """Latencies of all contenders on `threads` threads each; the first one is the baseline.

    `inputs` are one set for all, or one for each. Takes about `seconds` after loading, less when the ratios
    are known to half a per cent, more (see `take_turns`) on a busy machine. EngineError if a contender cannot
    be loaded or run; where there are `refusals`, those behind the baseline are left out for it, and why is
    noted there; where the baseline dies in its turn, or one of several, each is timed again, alone against
    the baseline. Where all are left out, nothing is timed.
    """
    fed = [inputs] * len(contenders) if isinstance(inputs, Mapping) else list(inputs)
    pairs = list(zip(contenders, fed, strict=True))
    return _compared(pairs, threads, seconds, limit, turn_seconds, refusals)


def _compared(
    fed: Sequence[tuple[Contender, Arrays]],
    threads: int,
    seconds: float,
    limit: float,
    turn_seconds: float | None,
    refusals: dict[Contender, str] | None,
    again: bool = False,
) -> tuple[Latency, ...]:
    """See `compare`. Two that are timed `again` are so for the last time, whoever dies."""
    with ExitStack() as stack:
        timers: dict[Contender, Callable[[int], Turn]] = {}
        died: dict[Contender, str] = {}
        for contender, arrays in fed:
            try:
                timers[contender] = stack.enter_context(contender.start(arrays, threads)).time
            except EngineError as error:
                if refusals is None or not timers:
                    raise
                refusals[contender] = str(error)
        if len(timers) == 1 < len(fed):
            return ()
        began = time.monotonic()
        try:
            rounds = take_turns(watched(timers, died), seconds, limit, turn_seconds=turn_seconds)
            return summarize(tuple(timers), rounds)
        except EngineError as error:
            if refusals is None or len(timers) == 1:
                raise
            reason = str(error)
    baseline, *others = (pair for pair in fed if pair[0] in timers)
    if len(others) == 1 and (again or others[0][0] in died):
        refusals[others[0][0]] = reason
        return ()
    limit = max(0.0, limit - (time.monotonic() - began)) / len(others)
    seconds = min(seconds / len(others), limit)
    found: dict[Contender, Latency] = {}
    for other in others:
        alone = _compared((baseline, other), threads, seconds, limit, turn_seconds, refusals, again=True)
        found = {latency.contender: latency for latency in alone} | found
    return tuple(found[contender] for contender in timers if contender in found)


def watched(
    timers: Mapping[Contender, Callable[[int], Turn]], died: dict[Contender, str]
) -> list[Callable[[int], Turn]]:
    """The timers; one that fails in its turn is noted in `died`, and why."""

    def of(contender: Contender) -> Callable[[int], Turn]:
        def time_turn(count: int) -> Turn:
            try:
                return timers[contender](count)
            except EngineError as error:
                died[contender] = str(error)
                raise

        return time_turn

    return list(map(of, timers))


@dataclass(frozen=True)
class Rounds:
    """Nanoseconds of an inference of each contender in each round: float64 [rounds, contenders].

    Those are medians over a turn. On a machine too `busy` for enough undisturbed rounds they are means
    without waiting, and all rounds count. `runs`: of each contender, every single run of all rounds.
    """

    nanoseconds: Array
    busy: bool = False
    runs: tuple[Array, ...] = ()


def take_turns(
    timers: Sequence[Callable[[int], Turn]], seconds: float, limit: float = math.inf, fewest: int = 0,
    turn_seconds: float | None = None,
) -> Rounds:  # fmt: skip
    """Times all contenders, round after round, at least `fewest` runs of each where the time allows it.

    A turn takes about `turn_seconds`, for which there is a default.
    `timers[i](count)` times `count` inferences of contender i. The first inference of a turn finds caches
    that another process has filled, and is dropped; so is a whole warm-up turn. Rounds go on until every
    ratio is precise or the time is up; on a busy machine they go on twice as long, up to `limit` seconds, in
    search of a few that are undisturbed. A few are always run, and as many again before a machine is called
    busy. That rule looks at the width of the intervals only, never at where they lie, so stopping early does
    not favour anybody.
    """
    counts = [_turn_length(timer, turn_seconds or _TURN_SECONDS) for timer in timers]
    calm: list[list[float]] = []
    means: list[list[float]] = []
    runs: list[list[Array]] = [[] for _ in timers]
    limit = min(limit, _PATIENCE * seconds)
    began = time.monotonic()
    while len(means) < _MOST_ROUNDS:
        turns = [timer(count + 1) for timer, count in zip(timers, counts)]
        for kept, turn in zip(runs, turns):
            kept.append(turn.later)
        means.append([turn.mean for turn in turns])
        if not any(turn.disturbed for turn in turns):
            calm.append([float(np.median(turn.later)) for turn in turns])
        spent = time.monotonic() - began
        if len(calm) < _FEWEST_ROUNDS:
            if len(means) >= _PATIENCE * _FEWEST_ROUNDS and spent > limit:
                break
        elif spent > seconds:
            break
        elif len(means) * min(counts) < fewest or len(calm) % _FEWEST_ROUNDS:
            continue
        elif _precise(np.array(calm)):
            break
    busy = len(calm) < _FEWEST_ROUNDS
    return Rounds(np.array(means if busy else calm), busy, tuple(map(np.concatenate, runs)))


def least_seconds(milliseconds: float) -> float:
    """What the fewest rounds take for a contender of that latency, warming up included."""
    inference = milliseconds / 1e3
    return (_FEWEST_ROUNDS + _WARM_UP_TURNS) * (max(_TURN_SECONDS, inference) + inference)


def _turn_length(timer: Callable[[int], Turn], seconds: float) -> int:
    """How many inferences fill a turn; also warms the contender up for two turns."""
    first = max(1.0, float(np.min(timer(2).nanoseconds)))
    warm = max(1, min(_MOST_PER_TURN, round(_WARM_UP_TURNS * seconds * 1e9 / first)))
    typical = max(1.0, float(np.median(timer(warm).nanoseconds)))
    return max(1, min(_MOST_PER_TURN, round(seconds * 1e9 / typical)))


def _precise(rounds: Array) -> bool:
    for index in range(rounds.shape[1]):
        ratios = rounds[:, 0] / rounds[:, index]
        low, high = median_interval(ratios)
        if high - low > 2 * _PRECISE_ENOUGH * float(np.median(ratios)):
            return False
    return True


def summarize(contenders: Sequence[Contender], rounds: Rounds) -> tuple[Latency, ...]:
    """Medians over the rounds, with intervals of latency and ratio."""
    times = rounds.nanoseconds
    return tuple(
        Latency(
            contender,
            contenders[0].name,
            _median(times[:, index] / 1e6, "ms"),
            _median(times[:, 0] / times[:, index], "x"),
            rounds.busy,
            tail_of(rounds.runs[index]) if rounds.runs else Tail({}, 0),
        )
        for index, contender in enumerate(contenders)
    )


def _median(samples: np.ndarray[Any, Any], unit: str) -> Metric:
    return spread(float(np.median(samples)), *median_interval(samples), unit)
