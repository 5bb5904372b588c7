"""The child's side of a timer: it loads one kernel's library and times it, and may die of that.

    python -m tensmith.tune.serve

A request is a frame (see engine.frame) of a library's path, buffer sizes in bytes, and a trial's arrays; the
answer holds the seconds of a call and, where `back` asks for it, what was computed. The process ends when its
parent closes the pipe.
"""

from __future__ import annotations

import ctypes
import time
from collections.abc import Callable
from typing import Any

import numpy as np

from tensmith.backend.native.emit.loader import page_memory
from tensmith.engine.frame import Answer, Array, serve, take_stdout
from tensmith.kernel.alone import ENTRY

_LINE = 64
# A batch of calls is long beside what reading the clock costs, and beside its steps.
_BATCH_SECONDS = 1e-3


def timed(request: dict[str, Any], arrays: dict[str, Array]) -> Answer:
    """The least processor time of a call, over `seconds` of batches, and the target's bytes if they go back.

    Weights come from `copies` in turns.
    """
    raw = _bytes(arrays["weights"])
    step, copies = -(-raw.nbytes // _LINE) * _LINE, request["copies"]
    stored = _memory(copies * step)
    stored[: copies * step].reshape(copies, step)[:, : raw.nbytes] = raw
    source = _memory(arrays["source"].nbytes)
    source[: arrays["source"].nbytes] = _bytes(arrays["source"])
    written = [_memory(request["target_bytes"]), _memory(request["scratch_bytes"])]
    kept = [source, stored, arrays["constants"], *written]
    pointers = [ctypes.c_void_p(array.ctypes.data) for array in kept]
    function = getattr(ctypes.CDLL(request["library"]), ENTRY)
    function.restype = None

    def call(first: int, count: int) -> None:
        function(*map(ctypes.c_long, (first, count, copies, step)), *pointers)

    return {"seconds": _least(call, request["seconds"])}, {"target": written[0]} if request["back"] else {}


def _least(call: Callable[[int, int], None], seconds: float) -> float:
    """Batches grow until the clock sees them well: a first call, which touches new pages, says little."""

    def batch() -> float:
        start = time.thread_time()
        call(first, count)
        return time.thread_time() - start

    first, count, end = 0, 1, time.perf_counter() + seconds
    while (took := batch()) < _BATCH_SECONDS:
        first, count = first + count, 2 * count
    best = took / count
    while time.perf_counter() < end:
        first += count
        best = min(best, batch() / count)
    return best


def _memory(size: int) -> Array:
    """As a loaded model has it."""
    found: Array = np.frombuffer(page_memory(size), np.uint8)
    return found


def _bytes(array: Array) -> Array:
    return array.reshape(-1).view(np.uint8)


def main() -> None:
    """Answers until the pipe closes."""
    serve(take_stdout(), timed)


if __name__ == "__main__":
    main()
