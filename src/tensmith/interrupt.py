"""Work that Ctrl-C must not cut in two."""

from __future__ import annotations

import contextlib
import signal
import threading
from collections.abc import Callable, Iterator
from types import FrameType


@contextlib.contextmanager
def postponed() -> Iterator[Callable[[], bool]]:
    """Lets the first Ctrl-C (or SIGTERM where it is handled) wait; the second one interrupts as usual.

    Yields a function that says whether one came. Outside the main thread signals never arrive.
    """
    came = False
    before = {}
    if threading.current_thread() is threading.main_thread():
        handlers = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
        before = {number: handler for number, handler in handlers.items() if callable(handler)}

    def remember(number: int, frame: FrameType | None) -> None:
        nonlocal came
        if came:
            before[signal.Signals(number)](number, frame)
        came = True

    for number in before:
        signal.signal(number, remember)
    try:
        yield lambda: came
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
