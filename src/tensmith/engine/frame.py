"""Messages between a worker and its parent: a JSON header and arrays in NumPy's .npy format, no pickle.

    frame := length of header (4 bytes, little-endian) · header (JSON, UTF-8) · one .npy block an array

The header's "arrays" lists the arrays' names in order. Both ends are ours, but the other one runs foreign
native code on foreign files: every length is bounded, those of arrays by the memory of this machine, and
objects are never unpickled.
"""

from __future__ import annotations

import contextlib
import json
import math
import os
import signal
import struct
import sys
from collections.abc import Callable, Mapping
from tokenize import TokenError
from types import SimpleNamespace
from typing import Any, BinaryIO

import numpy as np

from tensmith.children import memory_bytes
from tensmith.errors import (
    DataError,
    EngineError,
    ModelError,
    OutputError,
    TensmithError,
    UsageError,
    is_of_disk,
    of_disk,
)

_LENGTH = struct.Struct("<I")
_LONGEST_HEADER = 1 << 24
# Its own header has two bytes for its length.
_NPY_VERSION = (1, 0)
# The errors that keep their kind on the way; others arrive as an EngineError.
_ERRORS = {kind.__name__: kind for kind in (DataError, EngineError, ModelError, OutputError, UsageError)}

Array = np.ndarray[Any, Any]
Answer = tuple[dict[str, Any], dict[str, Array]]


def sendable(arrays: Mapping[str, Array]) -> dict[str, Array]:
    """The arrays, objects that are texts as such; EngineError where one holds other objects."""
    return {name: _sendable(name, np.asarray(array)) for name, array in arrays.items()}


def _sendable(name: str, array: Array) -> Array:
    if not array.dtype.hasobject:
        return array
    if array.dtype != object or not all(isinstance(element, str) for element in array.flat):
        raise EngineError(f"'{name}' holds objects that are neither numbers nor texts")
    return array.astype(np.str_)


def write_frame(
    stream: BinaryIO, header: Mapping[str, Any], arrays: Mapping[str, Array] | None = None
) -> None:
    """Writes one message and flushes; `header` is JSON-serialisable, and `arrays` are sendable."""
    arrays = arrays or {}
    pipe: Any = SimpleNamespace(write=stream.write)  # of a file, NumPy would ask the position
    text = json.dumps({**header, "arrays": list(arrays)}).encode()
    stream.write(_LENGTH.pack(len(text)) + text)
    for array in arrays.values():
        np.lib.format.write_array(pipe, array, _NPY_VERSION, allow_pickle=False)
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
    try:
        header = json.loads(text)
    except RecursionError as error:
        raise ValueError("a header of too many levels") from error
    names = header.pop("arrays", []) if isinstance(header, dict) else None
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        raise ValueError("a header of another form")
    arrays: dict[str, Array] = {}
    left = memory_bytes()
    for name in names:
        arrays[name] = _read_array(stream, left)
        left -= arrays[name].nbytes
    return header, arrays


def _read_array(stream: BinaryIO, most: int) -> Array:
    """The array of one .npy block; ValueError where it holds objects, or is larger than `most` bytes."""
    if np.lib.format.read_magic(stream) != _NPY_VERSION:
        raise ValueError("an array in another format")
    try:
        shape, in_columns, dtype = np.lib.format.read_array_header_1_0(stream)
    except (RecursionError, SyntaxError, TokenError, TypeError) as error:  # of NumPy's for what is no header
        raise ValueError("an array without a header") from error
    size = math.prod(shape) * dtype.itemsize
    if dtype.hasobject or min(shape, default=0) < 0 or size > most:
        raise ValueError(f"an array of {size} bytes of {dtype}")
    found = np.empty(shape[::-1] if in_columns else shape, dtype)
    rest = found.reshape(-1).view(np.uint8).data
    while rest:
        count = stream.readinto(rest)  # type: ignore[attr-defined]
        if not count:
            raise EOFError
        rest = rest[count:]
    return found.T if in_columns else found


def take_stdout() -> BinaryIO:
    """A stream to the parent alone: what native code prints goes to stderr, not between the frames."""
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    return answers


def answered(answer: Callable[..., Answer], *asked: Any) -> Answer:
    """What `answer` says to what is asked; where it raises an error, that as a message for `checked`."""
    try:
        found, arrays = answer(*asked)
        return found, sendable(arrays)
    except Exception as error:
        raised = (of_disk(error) if isinstance(error, OSError) else None) or error
        kind = type(raised).__name__
        says = str(raised) if isinstance(raised, TensmithError) else f"{kind}: {raised}"
        disk = isinstance(raised, TensmithError) and is_of_disk(raised)
        return {"error": kind, "says": says, "disk": disk}, {}


def checked(answer: Answer) -> Answer:
    """An answer as it came; raises the error that it holds."""
    found, _ = answer
    if "error" in found:
        told = _ERRORS.get(found["error"], EngineError)(found["says"])
        raise told from (OSError(found["says"]) if found.get("disk") else None)
    return answer


def serve(answers: BinaryIO, answer: Callable[[dict[str, Any], dict[str, Array]], Answer]) -> None:
    """Answers requests on stdin until the pipe closes; an error is an answer, too (see `answered`).

    SIGALRM ends the process when a request takes more than the seconds of its `alarm`, if it has one.
    """
    with contextlib.suppress(EOFError, BrokenPipeError):
        while True:
            request, arrays = read_frame(sys.stdin.buffer)
            signal.alarm(request.get("alarm", 0))
            found = answered(answer, request, arrays)
            signal.alarm(0)
            write_frame(answers, *found)
