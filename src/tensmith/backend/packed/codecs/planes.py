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
            return (patterns >> shift & (1 << width) - 1).astype(np.int64)

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
        patterns = np.zeros(spec.elements, f"<u{spec.type.bits // 8}")
        for shift, width in _planes(spec.type):
            plane = decode_integers(reader, spec.shape, spec.elements) & ((1 << width) - 1)
            patterns |= plane.astype(patterns.dtype) << shift
        return _scatter(patterns, spec.type).tobytes()


_Patterns = np.ndarray[Any, np.dtype[Any]]  # unsigned, of the elements' own width


def _planes(element: ElementType) -> list[tuple[int, int]]:
    """Shift and width of each plane of a gathered pattern, highest first."""
    bottom = element.mantissa + 1 if element.mantissa else element.bits
    top = [(bottom, element.bits - bottom)] if bottom < element.bits else []
    stops = [*range(bottom, 0, -8), 0]
    return top + [(low, high - low) for high, low in itertools.pairwise(stops)]


def _gather(patterns: _Patterns, element: ElementType) -> _Patterns:
    """Exponent on top, then sign, then mantissa; integers zigzagged."""
    mantissa, top = element.mantissa, element.bits - 1
    sign = patterns >> top
    magnitude = patterns & (1 << top) - 1
    if mantissa:
        return magnitude >> mantissa << mantissa + 1 | sign << mantissa | patterns & (1 << mantissa) - 1
    if element.signed:
        return (magnitude ^ sign * ((1 << top) - 1)) << 1 | sign
    return patterns


def _scatter(patterns: _Patterns, element: ElementType) -> _Patterns:
    """Inverse of `_gather`."""
    mantissa, top = element.mantissa, element.bits - 1
    if mantissa:
        sign = patterns >> mantissa & 1
        return sign << top | patterns >> mantissa + 1 << mantissa | patterns & (1 << mantissa) - 1
    if element.signed:
        sign = patterns & 1
        return patterns >> 1 ^ sign * ((1 << top) - 1) | sign << top
    return patterns
