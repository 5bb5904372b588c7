"""Ctrl-C that neither cuts work in two nor gets lost. SIGTERM counts as Ctrl-C where it is handled."""

from __future__ import annotations

import contextlib
import signal
import threading
from collections.abc import Callable, Iterator
from types import FrameType

_Handler = Callable[[int, FrameType | None], object]


@contextlib.contextmanager
def postponed() -> Iterator[Callable[[], bool]]:
    """Lets the first Ctrl-C wait; the second one interrupts as usual.

    Yields a function that says whether one came. Outside the main thread signals never arrive.
    """
    came = False

    def once(usual: _Handler, number: int, frame: FrameType | None) -> None:
        nonlocal came
        if came:
            usual(number, frame)
        came = True

    with _handled(once):
        yield lambda: came


@contextlib.contextmanager
def unmissed() -> Iterator[None]:
    """A Ctrl-C in the block ends it by KeyboardInterrupt, whatever foreign code makes of the first one.

    An extension module that is interrupted while it loads raises ImportError, an engine its own error.
    """
    came = False

    def note(usual: _Handler, number: int, frame: FrameType | None) -> None:
        nonlocal came
        came = True
        usual(number, frame)

    with _handled(note):
        try:
            yield
        except Exception as error:
            if came:
                raise KeyboardInterrupt from error
            raise
        if came:
            raise KeyboardInterrupt


@contextlib.contextmanager
def _handled(handle: Callable[[_Handler, int, FrameType | None], None]) -> Iterator[None]:
    """Calls `handle` with the usual handler when a signal comes, as long as the block lasts."""
    usual: dict[signal.Signals, _Handler] = {}
    if threading.current_thread() is threading.main_thread():
        handlers = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
        usual = {number: handler for number, handler in handlers.items() if callable(handler)}

    def handler(number: int, frame: FrameType | None) -> None:
        handle(usual[signal.Signals(number)], number, frame)

    for number in usual:
        signal.signal(number, handler)
    try:
        yield
    finally:
        for number, before in usual.items():
            signal.signal(number, before)
