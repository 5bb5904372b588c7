"""The element types of ONNX tensors: their width, their integer view, and how sub-byte types are packed."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

Integers = np.ndarray[Any, np.dtype[np.int64]]
AnyIntegers = np.ndarray[Any, np.dtype[np.signedinteger[Any]]]
Bytes = np.ndarray[Any, np.dtype[np.uint8]]
Payload = bytes | memoryview  # a tensor's raw_data, its own or a view of the file's bytes


@dataclass(frozen=True)
class ElementType:
    """One `TensorProto.DataType`, `bits` wide: a float if it has a `mantissa`, else an integer."""

    name: str
    bits: int
    signed: bool = False
    mantissa: int = 0

    def payload_bytes(self, elements: int) -> int:
        """Bytes that `elements` of them take in raw_data (sub-byte types packed, the last byte padded)."""
        return (elements * self.bits + 7) // 8


FLOAT = 1
FLOAT64 = 11
ELEMENT_TYPES: dict[int, ElementType] = {
    FLOAT: ElementType("float32", 32, mantissa=23),
    2: ElementType("uint8", 8),
    3: ElementType("int8", 8, signed=True),
    4: ElementType("uint16", 16),
    5: ElementType("int16", 16, signed=True),
    6: ElementType("int32", 32, signed=True),
    7: ElementType("int64", 64, signed=True),
    9: ElementType("bool", 8),
    10: ElementType("float16", 16, mantissa=10),
    FLOAT64: ElementType("float64", 64, mantissa=52),
    12: ElementType("uint32", 32),
    13: ElementType("uint64", 64),
    16: ElementType("bfloat16", 16, mantissa=7),
    17: ElementType("float8e4m3fn", 8),
    18: ElementType("float8e4m3fnuz", 8),
    19: ElementType("float8e5m2", 8),
    20: ElementType("float8e5m2fnuz", 8),
    21: ElementType("uint4", 4),
    22: ElementType("int4", 4, signed=True),
    23: ElementType("float4e2m1", 4),
}


@dataclass(frozen=True)
class PackedSpec:
    """What both sides know of a tensor before its contents: element type and shape."""

    type: ElementType
    shape: tuple[int, ...]

    @cached_property
    def elements(self) -> int:
        """Product of the shape."""
        return math.prod(self.shape)

    @cached_property
    def byte_length(self) -> int:
        """Length of the tensor's raw_data."""
        return self.type.payload_bytes(self.elements)


def bit_patterns(data: bytes, bits: int) -> np.ndarray[Any, Any]:
    """Unsigned little-endian patterns of whole-byte elements, without a copy."""
    return np.frombuffer(data, f"<u{bits // 8}")


def unpack_nibbles(data: bytes) -> Bytes:
    """Two 4-bit elements a byte, the lower half first (the ONNX order)."""
    both = np.frombuffer(data, np.uint8)
    return np.stack([both & 15, both >> 4], axis=1).ravel()


def pack_nibbles(values: AnyIntegers) -> bytes:
    """Inverse of `unpack_nibbles` on the lowest 4 bits; a last half byte is padded with zeros."""
    narrow = np.zeros(values.size + values.size % 2, np.uint8)
    narrow[: values.size] = values.astype(np.uint8)
    pairs = narrow.view("<u2")
    return (pairs & 0x0F | pairs >> 4 & 0xF0).astype(np.uint8).tobytes()


def moved(values: AnyIntegers, by: int) -> AnyIntegers:
    """`values`, which are int64 or below 2^12, plus a number."""
    if by == 0:
        return values
    small = values.dtype == np.int64 or abs(by) < 1 << 14
    found: AnyIntegers = (values if small else values.astype(np.int64)) + by
    return found


def to_integers(data: bytes, element: ElementType, elements: int) -> Integers | None:
    """Values of an integer tensor up to 32 bits wide; None for other types and for nonzero padding."""
    if element.mantissa or element.bits > 32:
        return None
    if element.bits >= 8:
        return np.frombuffer(data, f"<{'i' if element.signed else 'u'}{element.bits // 8}").astype(np.int64)
    patterns = unpack_nibbles(data).astype(np.int64)
    if patterns[elements:].any():
        return None
    values = patterns[:elements]
    half = 1 << (element.bits - 1)
    return (values ^ half) - half if element.signed else values


def from_integers(values: AnyIntegers, element: ElementType) -> bytes:
    """Inverse of `to_integers`; values wrap to the type's width."""
    if element.bits < 8:
        return pack_nibbles(values)
    return values.astype(f"<u{element.bits // 8}").tobytes()
