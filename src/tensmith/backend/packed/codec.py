"""The interface of a tensor codec, and the table of codecs: one file each in `codecs/`, found by import."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol, TypeVar

from tensmith.backend.packed.elements import PackedSpec
from tensmith.backend.packed.streams import EncodedTensor, StreamReader, number
from tensmith.errors import ModelError
from tensmith.registry import Registry


class Codec(Protocol):
    """A lossless way to write one tensor, of elements of at least so many bits.

    `tag` is its number in files and never changes its meaning.
    """

    tag: int
    least_bits: int

    def encode(self, data: bytes, spec: PackedSpec) -> EncodedTensor | None:
        """`data` is raw_data of `spec.byte_length` bytes; None when the codec does not apply."""

    def decode(self, reader: StreamReader, spec: PackedSpec) -> bytes:
        """Inverse of `encode`, to the last bit."""


CODECS: Registry[Codec] = Registry("tensor codec", "tensmith.backend.packed.codecs")
_C = TypeVar("_C", bound=type[Codec])


def codec(name: str) -> Callable[[_C], _C]:
    """Registers a codec class under `name`."""

    def register(cls: _C) -> _C:
        CODECS.add(name, cls())
        return cls

    return register


def encode_tensor(data: bytes, spec: PackedSpec) -> EncodedTensor:
    """The cheapest encoding, led by its codec's tag; of equals, the lowest tag."""
    candidates = [
        EncodedTensor(number(item.tag)) + encoded
        for item in sorted(CODECS.values(), key=lambda item: item.tag)
        if spec.type.bits >= item.least_bits and (encoded := item.encode(data, spec)) is not None
    ]
    return min(candidates, key=lambda candidate: candidate.bits)


def decode_tensor(reader: StreamReader, spec: PackedSpec) -> tuple[str, bytes]:
    """The codec's name and the tensor's raw_data."""
    tag = reader.parameters.number(0, 1 << 16)
    for name, item in CODECS.items():
        if item.tag == tag:
            data = item.decode(reader, spec)
            if len(data) != spec.byte_length:
                raise ModelError(
                    f"the packed model's '{name}' tensor has a wrong length; the file is damaged"
                )
            return name, data
    raise ModelError(f"the packed model uses tensor codec {tag}, unknown here; it needs a newer tensmith")
