"""How long calls take one by one, and whether others had the processors meanwhile."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

_TASKS = Path("/proc/self/task")
# The share of a turn that its threads may wait before it counts as disturbed.
_CALM = 0.03


@dataclass(frozen=True)
class Turn:
    """Nanoseconds of each call [calls]; `waited`: of how many the process was ready to run and did not."""

    nanoseconds: np.ndarray[Any, Any]
    waited: int = 0

    @property
    def disturbed(self) -> bool:
        """Whether so much of the turn was spent waiting that single calls tell little.

        Who shares a processor loses it every few milliseconds: long calls are all interrupted, most short
        ones are not, so that a ratio of their medians favours the short ones.
        """
        return self.waited > _CALM * float(self.nanoseconds.sum())


def time_calls(run: Callable[[], Any], count: int, after: Callable[[], Any] | None = None) -> Turn:
    """Times `count` calls one by one; `after` each one comes what is not timed."""
    clock = time.perf_counter_ns
    spent = np.empty(count, np.int64)
    before = _waited()
    for index in range(count):
        began = clock()
        run()
        spent[index] = clock() - began
        if after is not None:
            after()
    return Turn(spent, max(0, _waited() - before))


def _waited() -> int:
    """Nanoseconds that all threads together have waited for processors, as Linux tells; elsewhere 0."""
    total = 0
    with contextlib.suppress(OSError):
        for task in _TASKS.iterdir():
            with contextlib.suppress(OSError, ValueError, IndexError):  # a thread that just ended
                total += int((task / "schedstat").read_text().split()[1])
    return total
