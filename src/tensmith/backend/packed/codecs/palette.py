"""Tensors of few distinct values: clustered weights, constants, booleans stored wide."""

from __future__ import annotations

import numpy as np

from tensmith.backend.packed.codec import Codec, codec
from tensmith.backend.packed.elements import PackedSpec, bit_patterns
from tensmith.backend.packed.integers import decode_integers, encode_integers
from tensmith.backend.packed.streams import EncodedTensor, StreamReader, number
from tensmith.errors import ModelError

_MAX_VALUES = 1024
_SAMPLE = 4096


@codec("palette")
class Palette(Codec):
    """A codebook in ascending order and the index of each element; a constant's indices cost nothing."""

    tag = 4
    least_bits = 9

    def encode(self, data: bytes, spec: PackedSpec, most: float) -> EncodedTensor | None:
        """None past 1024 values or one for every two elements."""
        patterns = bit_patterns(data, spec.type.bits)
        limit = min(_MAX_VALUES, patterns.size // 2)
        if np.unique(patterns[:_SAMPLE]).size > limit:
            return None
        values, indices = np.unique(patterns, return_inverse=True)
        if values.size > limit:
            return None
        order = np.argsort(_ascending(values, spec), kind="stable")
        ranks = np.empty_like(order)
        ranks[order] = np.arange(order.size)
        codebook = EncodedTensor(number(values.size), values[order].tobytes())
        part = encode_integers(ranks[indices].astype(np.int64), spec.shape)
        return None if part is None else codebook + part

    def decode(self, reader: StreamReader, spec: PackedSpec) -> bytes:
        size = reader.parameters.number(1, _MAX_VALUES)
        codebook = bit_patterns(reader.plain.take(size * spec.type.bits // 8), spec.type.bits)
        indices = decode_integers(reader, spec.shape, spec.elements)
        if indices.min() < 0 or indices.max() >= size:
            raise ModelError("the packed model points outside a tensor's codebook; the file is damaged")
        return codebook[indices].tobytes()


def _ascending(
    values: np.ndarray[tuple[int, ...], np.dtype[np.uint64]], spec: PackedSpec
) -> np.ndarray[tuple[int, ...], np.dtype[np.uint64]]:
    """Keys that order bit patterns as the numbers they mean: negative ones last among unsigned patterns."""
    top = values.dtype.type(1 << (spec.type.bits - 1))
    if not spec.type.mantissa:
        return values ^ top if spec.type.signed else values
    return np.where(values & top, ~values, values | top)
