"""GGUF files, written: metadata, a directory of tensors, their bytes. `data.gguf` says what lies where."""

from __future__ import annotations

import math
import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from tensmith.data.gguf import ALIGNMENT, ALIGNMENT_KEY, BLOCK_TYPES, MAGIC
from tensmith.formula.arith import Array

_VERSION = 3
# ggml's numbers of what metadata are made of.
_U32, _I32, _F32, _BOOL, _STRING, _ARRAY, _U64, _I64 = 4, 5, 6, 7, 8, 9, 10, 11
_ARRAYS = {"uint32": _U32, "int32": _I32, "float32": _F32, "uint64": _U64, "int64": _I64}


@dataclass(frozen=True)
class TensorToWrite:
    """A tensor to write: sizes with the outermost first, the name of its block type, and its bytes."""

    shape: tuple[int, ...]
    kind: str
    data: bytes


def entry(value: object) -> bytes:
    """A value of metadata as it is written: a number, text, truth value, texts or numbers of one type."""
    if isinstance(value, bool):
        return struct.pack("<I?", _BOOL, value)
    if isinstance(value, int):
        code, layout = (_U32, "I") if 0 <= value < 1 << 32 else (_U64, "Q") if value > 0 else (_I64, "q")
        return struct.pack(f"<I{layout}", code, value)
    if isinstance(value, float):
        return struct.pack("<If", _F32, value)
    if isinstance(value, str):
        return struct.pack("<I", _STRING) + _text(value)
    if isinstance(value, np.ndarray):
        head = struct.pack("<IIQ", _ARRAY, _ARRAYS[value.dtype.name], value.size)
        return head + np.ascontiguousarray(value).tobytes()
    assert isinstance(value, Sequence)
    return struct.pack("<IIQ", _ARRAY, _STRING, len(value)) + b"".join(map(_text, value))


def gguf_bytes(entries: Mapping[str, bytes], tensors: Mapping[str, TensorToWrite]) -> bytes:
    """The bytes of a file; entries are metadata as `entry` makes them, alignment is the usual one."""
    kept = {key: value for key, value in entries.items() if key != ALIGNMENT_KEY}
    head = [MAGIC, struct.pack("<IQQ", _VERSION, len(tensors), len(kept))]
    head += [_text(key) + value for key, value in kept.items()]
    offset, data = 0, []
    for name, tensor in tensors.items():
        kind = BLOCK_TYPES[tensor.kind]
        assert len(tensor.data) == math.prod(tensor.shape) // kind.elements * kind.bytes, name
        sizes = struct.pack(f"<I{len(tensor.shape)}Q", len(tensor.shape), *reversed(tensor.shape))
        head.append(_text(name) + sizes + struct.pack("<IQ", kind.code, offset))
        data.append(_padded(tensor.data))
        offset += len(data[-1])
    return b"".join([_padded(b"".join(head)), *data])


def _text(text: str) -> bytes:
    data = text.encode("utf-8", "surrogateescape")
    return struct.pack("<Q", len(data)) + data


def _padded(data: bytes) -> bytes:
    return data + bytes(-len(data) % ALIGNMENT)


def q8_0(codes: Array, scales: Array) -> bytes:
    """Codes int8 [..., d] with scales [..., d / 32] as Q8_0."""
    halves = scales.astype(np.float16).reshape(-1, 1).view(np.uint8)
    return np.concatenate([halves, codes.astype(np.int8).reshape(-1, 32).view(np.uint8)], 1).tobytes()


def q4_0(codes: Array, scales: Array) -> bytes:
    """Codes -8..7 [..., d] with scales [..., d / 32] as Q4_0: of 32 the first 16 in the lower halves."""
    halves = scales.astype(np.float16).reshape(-1, 1).view(np.uint8)
    above = (codes.astype(np.int8).reshape(-1, 32) + 8).astype(np.uint8)
    return np.concatenate([halves, above[:, :16] | above[:, 16:] << 4], 1).tobytes()
