"""The three streams tensors are written to and read from: parameters, plain bytes, entropy-coded symbols.

Every tensor appends to the same three, so a tensor costs no header of its own.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import zstandard

from tensmith.backend.packed.compiled import CompiledDecoder
from tensmith.backend.packed.elements import Integers
from tensmith.backend.packed.frequency import normalise
from tensmith.backend.packed.rans import Contexts, Decoder, Shorts, SymbolBatch, Table
from tensmith.errors import ModelError


@dataclass(frozen=True)
class EncodedTensor:
    """What one tensor, or a part of it, adds to the streams; `+` appends."""

    parameters: bytes = b""
    plain: bytes = b""
    batches: tuple[SymbolBatch, ...] = ()

    def __add__(self, other: EncodedTensor) -> EncodedTensor:
        return EncodedTensor(
            self.parameters + other.parameters, self.plain + other.plain, self.batches + other.batches
        )

    @cached_property
    def bits(self) -> float:
        """Estimated cost; plain bytes count as what a fast general compressor leaves of them."""
        plain = min(len(self.plain), len(zstandard.compress(self.plain, 3))) if self.plain else 0
        return 8.0 * (len(self.parameters) + plain) + sum(batch.bits for batch in self.batches)


def number(value: int) -> bytes:
    """A signed integer as a zigzag LEB128 varint of at most ten bytes (|value| < 2^63)."""
    rest = value << 1 if value >= 0 else ((-value) << 1) - 1
    out = bytearray()
    while rest >= 0x80:
        out.append(rest & 0x7F | 0x80)
        rest >>= 7
    out.append(rest)
    return bytes(out)


class Cursor:
    """Reads a byte string front to back; ModelError past its end."""

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.at = 0

    def take(self, count: int) -> bytes:
        """The next `count` bytes."""
        if count < 0 or count > len(self.data) - self.at:
            raise ModelError("the packed model ends inside a tensor; the file is damaged, fetch it again")
        self.at += count
        return self.data[self.at - count : self.at]

    def number(self, low: int, high: int) -> int:
        """Inverse of `number`; ModelError outside low..high."""
        rest = self.take(1)[0]
        if rest >= 0x80:
            rest &= 0x7F
            for shift in range(7, 70, 7):
                byte = self.take(1)[0]
                rest |= (byte & 0x7F) << shift
                if byte < 0x80:
                    break
        value = -((rest + 1) >> 1) if rest & 1 else rest >> 1
        if not low <= value <= high:
            raise ModelError(
                f"the packed model holds {value} where {low} to {high} is allowed; the file is damaged"
            )
        return value

    def finish(self) -> None:
        """ModelError when something is left over."""
        if self.at != len(self.data):
            raise ModelError("the packed model holds more bytes than its tensors use; the file is damaged")


class StreamReader:
    """The streams of a packed file while its tensors are being read."""

    def __init__(self, parameters: bytes, plain: bytes, decoder: Decoder) -> None:
        self.parameters = Cursor(parameters)
        self.plain = Cursor(plain)
        self._decoder = decoder

    @property
    def compiled(self) -> CompiledDecoder | None:
        """What reads whole tensors at once, if that is at hand."""
        return self._decoder if isinstance(self._decoder, CompiledDecoder) else None

    def symbols(self, contexts: Contexts, frequencies: Integers | Table) -> Shorts:
        """One symbol (0..alphabet - 1) for each context, by `frequencies` [contexts, alphabet]."""
        return self._decoder.read(contexts, frequencies)

    def alike(self, count: int, weights: Integers) -> Shorts:
        """`count` symbols by one distribution, given by its weights [alphabet]."""
        if self.compiled is not None:
            return self.compiled.alike(count, weights)
        return self.symbols(np.zeros(count, np.uint8), normalise(weights[None]))

    def used(self) -> tuple[int, int, int]:
        """Bytes read so far of parameters, plain and symbols."""
        return self.parameters.at, self.plain.at, 2 * self._decoder.position

    def finish(self) -> None:
        """ModelError unless all three streams were read to their very end."""
        self.parameters.finish()
        self.plain.finish()
        self._decoder.finish()
