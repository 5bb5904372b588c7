"""Any tensor as its bytes, left to the general compressor of the container."""

from __future__ import annotations

from tensmith.backend.packed.codec import codec
from tensmith.backend.packed.elements import TensorSpec
from tensmith.backend.packed.streams import Encoded, Reader


@codec("raw")
class Raw:
    """Wins on what repeats at a distance (copies, tables) rather than by its statistics."""

    tag = 0

    def encode(self, data: bytes, spec: TensorSpec) -> Encoded | None:
        """Always applies."""
        return Encoded(plain=data)

    def decode(self, reader: Reader, spec: TensorSpec) -> bytes:
        """The next `spec.byte_length` bytes."""
        return reader.plain.take(spec.byte_length)
