"""A bound on the processor time of a piece of work, so that no source makes the lift hang."""

from __future__ import annotations

import contextlib
import signal
import threading
from collections.abc import Iterator
from types import FrameType


class TimeUp(Exception):
    """The time is over."""


@contextlib.contextmanager
def limited(seconds: float) -> Iterator[None]:
    """Raises TimeUp inside the block once it has used `seconds` of processor time, however busy the machine.

    By an interval timer, so in the main thread of a system that has one; elsewhere the block just runs.
    """
    if threading.current_thread() is not threading.main_thread() or not hasattr(signal, "setitimer"):
        yield
        return

    def stop(_signal: int, _frame: FrameType | None) -> None:
        raise TimeUp

    before = signal.signal(signal.SIGPROF, stop)
    left, interval = signal.setitimer(signal.ITIMER_PROF, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, left, interval)
        signal.signal(signal.SIGPROF, before)
