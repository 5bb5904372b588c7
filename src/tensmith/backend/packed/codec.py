"""The interface of a tensor codec, and the table of codecs: one file each in `codecs/`, found by import."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import TypeVar

from tensmith.backend.packed.elements import PackedSpec
from tensmith.backend.packed.streams import EncodedTensor, StreamReader, number
from tensmith.errors import ModelError
from tensmith.registry import Registry


class Codec(ABC):
    """A lossless way to write one tensor, of elements of at least so many bits.

    `tag` is its number in files and never changes its meaning. slow: it is asked after the others.
    """

    tag: int
    least_bits = 1
    slow = False

    @abstractmethod
    def encode(self, data: bytes, spec: PackedSpec, most: float) -> EncodedTensor | None:
        """`data` is raw_data of `spec.byte_length` bytes; None when the codec does not apply.

        It may give up where it will take more than `most` bits.
        """

    @abstractmethod
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
    best, cost = EncodedTensor(), (math.inf, 0)
    for item in sorted(CODECS.values(), key=lambda item: (item.slow, item.tag)):
        encoded = item.encode(data, spec, cost[0]) if spec.type.bits >= item.least_bits else None
        if encoded is not None:
            led = EncodedTensor(number(item.tag)) + encoded
            best, cost = min((best, cost), (led, (led.bits, item.tag)), key=lambda each: each[1])
    return best


def decode_tensor(reader: StreamReader, spec: PackedSpec) -> tuple[str, bytes]:
    """The codec's name and the tensor's raw_data."""
    tag = reader.parameters.number(0, 1 << 16)
    for name, item in CODECS.items():
        if item.tag == tag:
            if spec.type.bits < item.least_bits:
                raise ModelError(
                    f"the packed model holds {spec.type.name} elements by '{name}', which packs none of "
                    "them; the file is damaged"
                )
            data = item.decode(reader, spec)
            if len(data) != spec.byte_length:
                raise ModelError(
                    f"the packed model's '{name}' tensor has a wrong length; the file is damaged"
                )
            return name, data
    raise ModelError(f"the packed model uses tensor codec {tag}, unknown here; it needs a newer tensmith")
