"""Any tensor as its bytes, left to the general compressor of the container."""

from __future__ import annotations

from tensmith.backend.packed.codec import Codec, codec
from tensmith.backend.packed.elements import PackedSpec
from tensmith.backend.packed.streams import EncodedTensor, StreamReader


@codec("raw")
class Raw(Codec):
    """Wins on what repeats at a distance (copies, tables) rather than by its statistics."""

    tag = 0

    def encode(self, data: bytes, spec: PackedSpec, most: float) -> EncodedTensor | None:
        """Always applies."""
        return EncodedTensor(plain=data)

    def decode(self, reader: StreamReader, spec: PackedSpec) -> bytes:
        """The next `spec.byte_length` bytes."""
        return reader.plain.take(spec.byte_length)
