"""Bounds on the processor time of a piece of work, so that no source makes the lift hang."""

from __future__ import annotations

import contextlib
import signal
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from types import FrameType

_PATIENCE = 10.0  # seconds by the clock for one of processor time, on a busy machine
_AGAIN = 0.5  # seconds of processor time after which TimeUp is raised again


class TimeUp(Exception):
    """The time is over."""


@dataclass(frozen=True)
class Deadline:
    """An end for work that looks at it now and then: in processor time, and much later by the clock."""

    processor: float
    clock: float

    @staticmethod
    def within(seconds: float) -> Deadline:
        """So much processor time from now on."""
        return Deadline(time.process_time() + seconds, time.monotonic() + _PATIENCE * seconds)

    @property
    def passed(self) -> bool:
        """Whether the time is over."""
        return time.process_time() > self.processor or time.monotonic() > self.clock


@contextlib.contextmanager
def limited(seconds: float) -> Iterator[None]:
    """Raises TimeUp inside the block once it has used `seconds` of processor time, however busy the machine.

    By an interval timer, so in the main thread of a system that has one; elsewhere the block just runs. What
    is raised where Python drops exceptions (a finalizer, a callback of a foreign library) is raised again.
    """
    if threading.current_thread() is not threading.main_thread() or not hasattr(signal, "setitimer"):
        yield
        return

    def stop(_signal: int, _frame: FrameType | None) -> None:
        raise TimeUp

    before = signal.signal(signal.SIGPROF, stop)
    left, interval = signal.setitimer(signal.ITIMER_PROF, seconds, _AGAIN)
    try:
        yield
    finally:
        while True:  # until no TimeUp comes in between
            try:
                signal.setitimer(signal.ITIMER_PROF, left, interval)
                signal.signal(signal.SIGPROF, before)
                break
            except TimeUp:
                continue
