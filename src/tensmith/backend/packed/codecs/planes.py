"""Numbers split into planes of bits, each entropy-coded by itself.

A trained float's exponent is skewed and its mantissa is not, so the exponent is one plane and the sign and
mantissa are cut into bytes from the top. Halves stored as float32 leave planes of zeros, which cost nothing.
Wide integers are zigzagged, so that small ones of either sign leave their upper planes zero.
"""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np

from tensmith.backend.packed.codec import Codec, codec
from tensmith.backend.packed.elements import ElementType, Integers, PackedSpec, bit_patterns
from tensmith.backend.packed.integers import decode_integers, encode_integers, entropy
from tensmith.backend.packed.streams import EncodedTensor, StreamReader

LEAST = 0.5  # of the entropy of planes' symbols: neighbours tell less than half of what they hold


@codec("planes")
class Planes(Codec):
    """Floats of 16 bits and up, integers likewise."""

    tag = 3
    least_bits = 9
    slow = True

    def encode(self, data: bytes, spec: PackedSpec, most: float) -> EncodedTensor | None:
        """None where a plane cannot be written, or all of them take more than `most` bits."""
        patterns = _gather(bit_patterns(data, spec.type.bits), spec.type)

        def plane(shift: int, width: int) -> Integers:
            return ((patterns >> np.uint64(shift)) & np.uint64((1 << width) - 1)).astype(np.int64)

        places = _planes(spec.type)
        if most < math.inf and sum(entropy(plane(*place)) for place in places) * LEAST > most:
            return None
        encoded = EncodedTensor()
        for place in places:
            part = encode_integers(plane(*place), spec.shape)
            if part is None:
                return None
            encoded += part
            if encoded.bits > most:
                return None
        return encoded

    def decode(self, reader: StreamReader, spec: PackedSpec) -> bytes:
        """Inverse of `encode`."""
        patterns = np.zeros(spec.elements, np.uint64)
        for shift, width in _planes(spec.type):
            plane = decode_integers(reader, spec.shape, spec.elements) & ((1 << width) - 1)
            patterns |= plane.astype(np.uint64) << np.uint64(shift)
        return _scatter(patterns, spec.type).astype(f"<u{spec.type.bits // 8}").tobytes()


_Patterns = np.ndarray[Any, np.dtype[np.uint64]]


def _planes(element: ElementType) -> list[tuple[int, int]]:
    """Shift and width of each plane of a gathered pattern, highest first."""
    bottom = element.mantissa + 1 if element.mantissa else element.bits
    top = [(bottom, element.bits - bottom)] if bottom < element.bits else []
    stops = [*range(bottom, 0, -8), 0]
    return top + [(low, high - low) for high, low in itertools.pairwise(stops)]


def _gather(patterns: _Patterns, element: ElementType) -> _Patterns:
    """Exponent on top, then sign, then mantissa; integers zigzagged."""
    wide = patterns.astype(np.uint64)
    one, mantissa = np.uint64(1), np.uint64(element.mantissa)
    sign = wide >> np.uint64(element.bits - 1)
    magnitude = wide & np.uint64((1 << element.bits - 1) - 1)
    if element.mantissa:
        fraction = wide & ((one << mantissa) - one)
        wide = (magnitude >> mantissa) << (mantissa + one) | sign << mantissa | fraction
    elif element.signed:
        wide = (magnitude ^ sign * np.uint64((1 << element.bits - 1) - 1)) << one | sign
    return wide


def _scatter(patterns: _Patterns, element: ElementType) -> _Patterns:
    """Inverse of `_gather`."""
    one, mantissa = np.uint64(1), np.uint64(element.mantissa)
    top = np.uint64(element.bits - 1)
    if element.mantissa:
        sign = patterns >> mantissa & one
        fraction = patterns & ((one << mantissa) - one)
        patterns = sign << top | (patterns >> (mantissa + one)) << mantissa | fraction
    elif element.signed:
        sign = patterns & one
        patterns = (patterns >> one) ^ sign * np.uint64((1 << element.bits - 1) - 1) | sign << top
    return patterns
