"""Integer tensors of a small range: quantized weights, zero points, pruned int8."""

from __future__ import annotations

from tensmith.backend.packed.codec import Codec, codec
from tensmith.backend.packed.elements import PackedSpec, from_integers, to_integers
from tensmith.backend.packed.integers import decode_integers, encode_integers
from tensmith.backend.packed.streams import EncodedTensor, StreamReader


@codec("integers")
class Whole(Codec):
    """Integers up to 32 bits wide (packed 4-bit ones too) that span at most 2048 values."""

    tag = 1

    def encode(self, data: bytes, spec: PackedSpec, most: float) -> EncodedTensor | None:
        """None for floats and wide ranges."""
        values = to_integers(data, spec.type, spec.elements)
        return None if values is None else encode_integers(values, spec.shape)

    def decode(self, reader: StreamReader, spec: PackedSpec) -> bytes:
        return from_integers(decode_integers(reader, spec.shape, spec.elements), spec.type)
