"""Byte tensors that hold two 4-bit weights a byte, as block-quantized matmuls store them."""

from __future__ import annotations

import numpy as np

from tensmith.backend.packed.codec import Codec, codec
from tensmith.backend.packed.elements import PackedSpec, pack_nibbles, unpack_nibbles
from tensmith.backend.packed.integers import decode_integers, encode_integers
from tensmith.backend.packed.streams import EncodedTensor, StreamReader


@codec("nibbles")
class Nibbles(Codec):
    """An uint8 tensor [..., n] read as 4-bit integers [..., 2n], low half first."""

    tag = 2

    def encode(self, data: bytes, spec: PackedSpec, most: float) -> EncodedTensor | None:
        """None for any other element type."""
        if spec.type.name != "uint8":
            return None
        return encode_integers(unpack_nibbles(data).astype(np.int64), _shape(spec))

    def decode(self, reader: StreamReader, spec: PackedSpec) -> bytes:
        return pack_nibbles(decode_integers(reader, _shape(spec), 2 * spec.elements))


def _shape(spec: PackedSpec) -> tuple[int, ...]:
    return (*spec.shape[:-1], 2 * spec.shape[-1]) if spec.shape else (2,)
