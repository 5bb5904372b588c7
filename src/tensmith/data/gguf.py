"""GGUF files: metadata and a directory of tensors, read without believing anything the file says of itself.

Source: the GGUF specification (ggml-org/ggml, docs/gguf.md), versions 2 and 3, little-endian:

    "GGUF", u32 version, u64 tensors, u64 entries of metadata
    an entry    key, u32 type, value; a string is u64 bytes, an array u32 type, u64 elements
    a tensor    name, u32 axes, u64 sizes (the innermost first), u32 block type, u64 offset into the data
    the data    from the next multiple of general.alignment (32) on, tensors at multiples of it

The file is mapped. Every count is held against the bytes that are left before anything is made of it, so that
a small file costs little memory whatever it claims.
"""

from __future__ import annotations

import math
import mmap
import struct
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import NoReturn, TypeAlias

import numpy as np

from tensmith import gate
from tensmith.data.dataset import Array
from tensmith.errors import ModelError

MAGIC = b"GGUF"
ALIGNMENT_KEY, ALIGNMENT = "general.alignment", 32

GgufValue: TypeAlias = int | float | bool | str | Array | list[str]


@dataclass(frozen=True)
class BlockType:
    """How a tensor's elements are stored: `elements` of a row in `bytes`. `code` is ggml's number."""

    name: str
    code: int
    elements: int
    bytes: int


BLOCK_TYPES = {
    kind.name: kind
    for kind in (
        BlockType("F32", 0, 1, 4), BlockType("F16", 1, 1, 2), BlockType("BF16", 30, 1, 2),
        BlockType("Q4_0", 2, 32, 18), BlockType("Q4_1", 3, 32, 20), BlockType("Q5_0", 6, 32, 22),
        BlockType("Q5_1", 7, 32, 24), BlockType("Q8_0", 8, 32, 34), BlockType("Q2_K", 10, 256, 84),
        BlockType("Q3_K", 11, 256, 110), BlockType("Q4_K", 12, 256, 144), BlockType("Q5_K", 13, 256, 176),
        BlockType("Q6_K", 14, 256, 210),
    )
}  # fmt: skip
_BY_CODE = {kind.code: kind for kind in BLOCK_TYPES.values()}
# Known by name alone.
_OTHERS = {
    9: "Q8_1", 15: "Q8_K", 16: "IQ2_XXS", 17: "IQ2_XS", 18: "IQ3_XXS", 19: "IQ1_S", 20: "IQ4_NL",
    21: "IQ3_S", 22: "IQ2_S", 23: "IQ4_XS", 24: "I8", 25: "I16", 26: "I32", 27: "I64", 28: "F64",
    29: "IQ1_M", 34: "TQ1_0", 35: "TQ2_0", 39: "MXFP4",
}  # fmt: skip

# Types of metadata by their numbers: NumPy's names, but for strings and arrays.
_STRING, _ARRAY = 8, 9
_NUMBERS = {
    0: "<u1", 1: "<i1", 2: "<u2", 3: "<i2", 4: "<u4", 5: "<i4", 6: "<f4", 7: "?", 10: "<u8", 11: "<i8",
    12: "<f8",
}  # fmt: skip
# No model has so many; each costs an object of Python's.
_MOST_ENTRIES, _MOST_TENSORS, _MOST_STRINGS = 1 << 16, 1 << 16, 1 << 22
_CUT = "it is damaged, or not whole: copy it again"
_MOST_KEY, _MOST_TEXT, _MOST_AXES, _MOST_ALIGNMENT = (1 << 16) - 1, 1 << 26, 4, 1 << 16


@dataclass(frozen=True)
class GgufTensor:
    """A tensor in a file: sizes with the outermost first, and its bytes, a view of the file."""

    name: str
    shape: tuple[int, ...]
    kind: BlockType
    data: Array


@dataclass(frozen=True)
class GgufFile:
    """A file's metadata and tensors; `entries` are the metadata as they are written, type and value."""

    label: str
    metadata: Mapping[str, GgufValue]
    entries: Mapping[str, bytes]
    tensors: Mapping[str, GgufTensor]

    @property
    def architecture(self) -> str:
        """What kind of model it says it is."""
        return self.text("general.architecture")

    def text(self, key: str, default: str | None = None) -> str:
        """A string of the metadata; ModelError where there is none and no default."""
        found = self.metadata.get(key, default)
        if not isinstance(found, str):
            raise self.wrong(f"lacks the text '{key}'" if found is None else f"has no text as '{key}'")
        return found

    def count(self, key: str, default: int | None = None) -> int:
        """A whole number from 1 of the metadata; ModelError where there is none and no default."""
        found = self.metadata.get(key, default)
        if isinstance(found, bool) or not isinstance(found, int) or found < 1:
            raise self.wrong(f"lacks the number '{key}'" if found is None else f"has no count as '{key}'")
        return found

    def real(self, key: str, default: float | None = None) -> float:
        """A finite positive number of the metadata; ModelError where there is none and no default."""
        found = self.metadata.get(key, default)
        if isinstance(found, bool) or not isinstance(found, int | float):
            raise self.wrong(f"lacks the number '{key}'" if found is None else f"has no number as '{key}'")
        if not 0 < found < math.inf:
            raise self.wrong(f"has {found} as '{key}', which must be above 0")
        return float(found)

    def wrong(self, what: str, todo: str = "convert the model again") -> ModelError:
        """The error that this file has something wrong."""
        return ModelError(f"{self.label} {what}; {todo}")


def is_gguf(path: Path) -> bool:
    """Whether a path is of a GGUF file: by what it begins with, or else by what it is called."""
    try:
        with gate.open_file(path, gate.GGUF) as file:
            begins = file.read(len(MAGIC))
    except ModelError:
        begins = b""  # whoever opens it says why it cannot be read
    return begins == MAGIC or path.suffix == ".gguf"


def open_gguf(source: Path | bytes) -> GgufFile:
    """The GGUF file at a path, mapped, or in some bytes. ModelError for whatever is wrong with it."""
    if isinstance(source, bytes):
        return _Cursor(source, "the given bytes").file()
    return _Cursor(gate.mapped(source, gate.GGUF), str(source)).file()


class _Cursor:
    """One pass over the header."""

    def __init__(self, data: mmap.mmap | bytes, label: str) -> None:
        self._bytes = np.frombuffer(data, np.uint8)
        self._size = self._bytes.size
        self._label = label
        self._at = self._strings = 0

    def file(self) -> GgufFile:
        """See open_gguf."""
        if self._take(len(MAGIC), "its first bytes").tobytes() != MAGIC:
            self._refuse("is no GGUF file: it begins with something else", "check the path")
        version = self._number("<I", "its version")
        if version not in (2, 3):
            swapped = int(version).to_bytes(4, "little")[::-1] in (b"\2\0\0\0", b"\3\0\0\0")
            what = "is written for big-endian machines" if swapped else f"is of version {version}, not 2 or 3"
            self._refuse(what, "convert the model again, for this kind of machine")
        tensors = self._bounded(_MOST_TENSORS, "tensors")
        entries = self._bounded(_MOST_ENTRIES, "entries of metadata")
        metadata: dict[str, GgufValue] = {}
        written: dict[str, bytes] = {}
        for _ in range(entries):
            key = self._string("a key of the metadata", _MOST_KEY)
            if not key or key in metadata:
                self._refuse(f"has the key '{key}' twice" if key else "has a key without a name")
            start = self._at
            metadata[key] = self._value(key)
            written[key] = self._bytes[start : self._at].tobytes()
        alignment = metadata.get(ALIGNMENT_KEY, ALIGNMENT)
        powers = [1 << n for n in range(3, _MOST_ALIGNMENT.bit_length())]
        if isinstance(alignment, bool) or not isinstance(alignment, int) or alignment not in powers:
            self._refuse(f"has {str(alignment)[:20]} as '{ALIGNMENT_KEY}', which is a power of two from 8")
        heads = [self._tensor_head() for _ in range(tensors)]
        found = self._placed(heads, self._at + -self._at % alignment, alignment)
        return GgufFile(self._label, metadata, written, found)

    # Metadata

    def _value(self, key: str) -> GgufValue:
        code = self._number("<I", f"the type of '{key}'")
        if code == _STRING:
            return self._string(f"'{key}'", _MOST_TEXT)
        if code == _ARRAY:
            return self._array(key)
        number: GgufValue = self._plain(code, 1, key)[0].item()
        return number

    def _array(self, key: str) -> Array | list[str]:
        code = self._number("<I", f"the element type of '{key}'")
        count = self._number("<Q", f"the length of '{key}'")
        if code != _STRING:
            return self._plain(code, count, key)
        self._strings += count
        if count * 8 > self._size - self._at or self._strings > _MOST_STRINGS:
            self._refuse(f"says that '{key}' has {count} texts, more than it can hold")
        return [self._string(f"'{key}'", _MOST_TEXT) for _ in range(count)]

    def _plain(self, code: int, count: int, key: str) -> Array:
        if code not in _NUMBERS:
            self._refuse(f"has a value of type {code} as '{key}', which is none it may hold there")
        dtype = np.dtype(_NUMBERS[code])
        raw = self._take(count * dtype.itemsize, f"'{key}'")
        if code == 7 and (raw > 1).any():
            self._refuse(f"has a truth value that is neither 0 nor 1 as '{key}'")
        return raw.view(dtype)

    def _string(self, what: str, most: int) -> str:
        length = self._number("<Q", f"the length of {what}")
        if length > most:
            self._refuse(f"says that {what} has {length} bytes, and at most {most} may come")
        # Pieces of a vocabulary may be parts of characters.
        return self._take(length, what).tobytes().decode("utf-8", "surrogateescape")

    # Tensors

    def _tensor_head(self) -> tuple[str, tuple[int, ...], BlockType, int]:
        name = self._string("a tensor's name", _MOST_KEY)
        axes = self._number("<I", f"the axes of '{name}'")
        if not name or not 1 <= axes <= _MOST_AXES:
            self._refuse(f"has a tensor '{name}' of {axes} axes, where 1 to {_MOST_AXES} may be")
        sizes = tuple(self._number("<Q", f"the sizes of '{name}'") for _ in range(axes))
        code = self._number("<I", f"the type of '{name}'")
        offset = self._number("<Q", f"the offset of '{name}'")
        if code not in _BY_CODE:
            self._refuse(
                f"stores '{name}' as {_OTHERS.get(code, f'type {code}')}, which tensmith does not read",
                f"quantize the model as one of {', '.join(BLOCK_TYPES)}",
            )
        return name, sizes[::-1], _BY_CODE[code], offset

    def _placed(
        self, heads: list[tuple[str, tuple[int, ...], BlockType, int]], start: int, alignment: int
    ) -> dict[str, GgufTensor]:
        found: dict[str, GgufTensor] = {}
        spans = []
        for name, shape, kind, offset in heads:
            row, rest = divmod(shape[-1], kind.elements)
            size = math.prod(shape[:-1]) * row * kind.bytes
            if name in found:
                self._refuse(f"has the tensor '{name}' twice")
            if not all(shape) or rest:
                self._refuse(f"has '{name}' of shape {list(shape)}, which is none of {kind.name}")
            if offset % alignment:
                self._refuse(f"has '{name}' at {offset}, which is no multiple of {alignment}")
            if start + offset + size > self._size:
                room = max(0, self._size - start)
                self._refuse(f"has '{name}' at {offset}, {size} bytes, where {room} are in all", _CUT)
            found[name] = GgufTensor(name, shape, kind, self._bytes[start + offset : start + offset + size])
            spans.append((offset, offset + size, name))
        for (_, end, first), (begin, _, second) in pairwise(sorted(spans)):
            if begin < end:
                self._refuse(f"has '{first}' and '{second}' in the same place")
        return found

    # Bytes

    def _bounded(self, most: int, what: str) -> int:
        count = self._number("<Q", f"how many {what} it has")
        if count > most:
            self._refuse(f"says that it has {count} {what}, and at most {most} may come")
        return count

    def _number(self, code: str, what: str) -> int:
        (number,) = struct.unpack(code, self._take(struct.calcsize(code), what).tobytes())
        return int(number)

    def _take(self, size: int, what: str) -> Array:
        if size > self._size - self._at:
            self._refuse(f"ends in {what}", _CUT)
        self._at += size
        return self._bytes[self._at - size : self._at]

    def _refuse(self, what: str, todo: str = "it is damaged: convert the model again") -> NoReturn:
        raise ModelError(f"{self._label} {what}; {todo}")
