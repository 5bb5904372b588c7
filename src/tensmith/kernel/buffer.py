"""How an image lies in memory: channels in blocks, and zeros around it so that kernels test no borders.

    address(c, y, x) = ((c / block * (top + height + bottom) + top + y) * (left + width + right) + left + x)
                       * block + c % block

    block = 1: planes (NCHW). block = lanes: NCHWc. block >= channels: channels last (NHWC), padded.

Lanes past the last channel hold anything: no kernel lets them reach a channel that exists.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from tensmith.formula.arith import Array
from tensmith.kernel.view import StridedView

ELEMENT_BYTES = {"f32": 4, "i64": 8, "i32": 4, "bf16": 2, "f16": 2, "i8": 1, "u8": 1, "bool": 1}
C_TYPES = {
    "f32": "float", "i64": "int64_t", "i32": "int32_t", "i8": "int8_t", "u8": "uint8_t", "bool": "uint8_t",
}  # fmt: skip
# Of all that one memory holds: a cache line.
ALIGNMENT = 64


def aligned(size: int) -> int:
    """The least multiple of ALIGNMENT from `size` bytes on."""
    return size + -size % ALIGNMENT


class Halo(NamedTuple):
    """Rows and columns of zeros around an image."""

    top: int = 0
    left: int = 0
    bottom: int = 0
    right: int = 0

    def union(self, other: Halo) -> Halo:
        """The least halo that holds both."""
        return Halo(*map(max, self, other))


NO_HALO = Halo()


@dataclass(frozen=True)
class Buffer:
    """One image in memory. Sizes are in elements unless they say bytes."""

    channels: int
    height: int
    width: int
    block: int = 1
    halo: Halo = NO_HALO
    dtype: str = "f32"

    @property
    def row(self) -> int:
        """From a position to the one below it."""
        return (self.halo.left + self.width + self.halo.right) * self.block

    @property
    def plane(self) -> int:
        """From a block of channels to the next one."""
        return (self.halo.top + self.height + self.halo.bottom) * self.row

    @property
    def blocks(self) -> int:
        """Blocks of channels, the last one perhaps not full."""
        return -(-self.channels // self.block)

    @property
    def size(self) -> int:
        """Elements, halo and padding included."""
        return self.blocks * self.plane

    @property
    def bytes(self) -> int:
        """Bytes, halo and padding included."""
        return self.size * ELEMENT_BYTES[self.dtype]

    @property
    def c_type(self) -> str:
        """The element type in C."""
        return C_TYPES[self.dtype]

    @property
    def flat(self) -> bool:
        """Whether the positions of a block lie in one run."""
        return self.halo == NO_HALO or (self.height == 1 and not (self.halo.top or self.halo.bottom))

    def address(self, channel: int, y: int, x: int) -> int:
        """Where an element lies; y and x may point into the halo."""
        block, lane = divmod(channel, self.block)
        return block * self.plane + (self.halo.top + y) * self.row + (self.halo.left + x) * self.block + lane

    def view(self) -> StridedView:
        """The image [blocks, height, width, block] in its memory, lanes past the last channel included."""
        shape = (self.blocks, self.height, self.width, self.block)
        return StridedView(shape, (self.plane, self.row, self.block, 1), self.address(0, 0, 0))

    def _image(self, memory: Array) -> Array:
        rows, columns = self.plane // self.row, self.row // self.block
        blocked = memory.reshape(self.blocks, rows, columns, self.block)
        return blocked[
            :, self.halo.top : self.halo.top + self.height, self.halo.left : self.halo.left + self.width
        ]

    def lay(self, image: Array, padding: float = 0, border: float = 0) -> Array:
        """The memory of an image [channels, height, width].

        `padding` fills the lanes past the channels, `border` the halo.
        """
        memory = np.full(self.size, border, image.dtype)
        full = np.full((self.blocks * self.block, self.height, self.width), padding, image.dtype)
        full[: self.channels] = image
        blocked = full.reshape(self.blocks, self.block, self.height, self.width)
        self._image(memory)[...] = blocked.transpose(0, 2, 3, 1)
        return memory

    def read(self, memory: Array) -> Array:
        """The image [channels, height, width] in `memory`."""
        full = self._image(memory).transpose(0, 3, 1, 2)
        return full.reshape(self.blocks * self.block, self.height, self.width)[: self.channels]
