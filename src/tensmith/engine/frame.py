"""Messages between a worker and its parent: a JSON header and arrays in NumPy's .npy format, no pickle.

    frame := length of header (4 bytes, little-endian) · header (JSON, UTF-8) · one .npy block an array

The header's "arrays" lists the arrays' names in order. Both ends are ours, but the other one runs foreign
native code on foreign files: every length is bounded, and objects are never unpickled.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import struct
import sys
from collections.abc import Callable, Mapping
from typing import Any, BinaryIO

import numpy as np

_LENGTH = struct.Struct("<I")
_LONGEST_HEADER = 1 << 24

Array = np.ndarray[Any, Any]
Answer = tuple[dict[str, Any], dict[str, Array]]


class _Pipe:
    """A stream that NumPy does not take for a file on disk, whose position it would ask for."""

    def __init__(self, stream: BinaryIO) -> None:
        self.read, self.write = stream.read, stream.write


def write_frame(
    stream: BinaryIO, header: Mapping[str, Any], arrays: Mapping[str, Array] | None = None
) -> None:
    """Writes one message and flushes; `header` is JSON-serialisable."""
    arrays = arrays or {}
    pipe: Any = _Pipe(stream)
    text = json.dumps({**header, "arrays": list(arrays)}).encode()
    stream.write(_LENGTH.pack(len(text)) + text)
    for array in arrays.values():
        np.lib.format.write_array(pipe, np.asarray(array), allow_pickle=False)
    stream.flush()


def read_frame(stream: BinaryIO) -> tuple[dict[str, Any], dict[str, Array]]:
    """Reads one message; EOFError if the other end is gone, ValueError if the bytes are not a frame."""
    prefix = stream.read(_LENGTH.size)
    if len(prefix) < _LENGTH.size:
        raise EOFError
    (length,) = _LENGTH.unpack(prefix)
    if length > _LONGEST_HEADER:
        raise ValueError(f"a header of {length} bytes")
    text = stream.read(length)
    if len(text) < length:
        raise EOFError
    header: dict[str, Any] = json.loads(text)
    pipe: Any = _Pipe(stream)
    names: list[str] = header.pop("arrays", [])
    return header, {name: np.lib.format.read_array(pipe, allow_pickle=False) for name in names}


def take_stdout() -> BinaryIO:
    """A stream to the parent alone: what native code prints goes to stderr, not between the frames."""
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    return answers


def serve(answers: BinaryIO, answer: Callable[[dict[str, Any], dict[str, Array]], Answer]) -> None:
    """Answers requests on stdin until the pipe closes, or `answer` raises EOFError.

    SIGALRM ends the process when a request takes more than the seconds of its `alarm`, if it has one.
    """
    with contextlib.suppress(EOFError, BrokenPipeError):
        while True:
            request, arrays = read_frame(sys.stdin.buffer)
            signal.alarm(request.get("alarm", 0))
            found = answer(request, arrays)
            signal.alarm(0)
            write_frame(answers, *found)
