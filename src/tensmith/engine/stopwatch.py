"""How long calls take one by one, and whether others had the processors meanwhile."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

_TASKS = Path("/proc/self/task")
# The share of a turn that its threads may wait before it counts as disturbed.
_CALM = 0.03


@dataclass(frozen=True)
class Turn:
    """Nanoseconds of each call [calls]. After the first one, which finds caches that others filled: `waited`,
    how long threads were ready to run and did not, and `held`, how much of that the thread did that ran most.
    """

    nanoseconds: np.ndarray[Any, Any]
    waited: int = 0
    held: int = 0

    @property
    def later(self) -> np.ndarray[Any, Any]:
        """The calls after the first."""
        return self.nanoseconds[1:]

    @property
    def disturbed(self) -> bool:
        """Whether so much of the turn was spent waiting that single calls tell little.

        Who shares a processor loses it every few milliseconds: long calls are all interrupted, most short
        ones are not, so that a ratio of their medians favours the short ones.
        """
        return self.waited > _CALM * float(self.later.sum())

    @property
    def mean(self) -> float:
        """Nanoseconds of a later call without waiting, which favours the short as well: who has slept through
        the turns of others may run at once, and for a few milliseconds.
        """
        running = (float(self.later.sum()) - self.held) / len(self.later)
        return max(running, 1.0)


def in_a_row(turns: Sequence[Turn]) -> Turn:
    """Turns that follow one another as one; nobody else's turn lies between them."""
    spent = np.concatenate([turn.nanoseconds for turn in turns])
    return Turn(spent, sum(turn.waited for turn in turns), sum(turn.held for turn in turns))


def time_calls(run: Callable[[], Any], count: int, after: Callable[[], Any] | None = None) -> Turn:
    """Times `count` calls one by one; `after` each one comes what is not timed."""
    clock = time.perf_counter_ns
    spent = np.empty(count, np.int64)
    before: dict[str, tuple[int, int]] = {}
    for index in range(count):
        if index == 1:
            before = _threads()
        began = clock()
        run()
        spent[index] = clock() - began
        if after is not None:
            after()
    found = [
        (ran - before[name][0], max(0, waited - before[name][1]))
        for name, (ran, waited) in _threads().items()
        if name in before
    ]
    return Turn(spent, sum(waited for _, waited in found), max(found, default=(0, 0))[1])


def _threads() -> dict[str, tuple[int, int]]:
    """Nanoseconds that each thread has run and has waited for a processor, as Linux tells; elsewhere none."""
    found = {}
    with contextlib.suppress(OSError):
        for task in _TASKS.iterdir():
            with contextlib.suppress(OSError, ValueError, IndexError):  # a thread that just ended
                ran, waited, *_ = (task / "schedstat").read_text().split()
                found[task.name] = int(ran), int(waited)
    return found
