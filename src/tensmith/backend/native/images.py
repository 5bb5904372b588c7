"""How tensors are seen as images: a batch of [channels, height, width]."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import NamedTuple

from tensmith.ir import TensorType
from tensmith.kernel.buffer import C_TYPES, Buffer


class Images(NamedTuple):
    """`batch` images of [channels, height, width]."""

    batch: int
    channels: int
    height: int
    width: int

    @property
    def extent(self) -> tuple[int, int]:
        """Height and width."""
        return self.height, self.width


@dataclass(frozen=True)
class PositionWindow:
    """Some positions of an image: `height` rows from `top` on, `width` columns from `left` on."""

    top: int = 0
    height: int = 1
    left: int = 0
    width: int = 1

    def of(self, whole: Buffer) -> Buffer:
        """The window as an image in the memory of `whole`, beginning `skipped` elements into it.

        What lies beside it there counts as its halo.
        """
        below, beside = whole.height - self.height, whole.width - self.width
        halo = whole.halo._replace(bottom=whole.halo.bottom + below, right=whole.halo.right + beside)
        return replace(whole, height=self.height, width=self.width, halo=halo)

    def skipped(self, whole: Buffer) -> int:
        """Elements from the beginning of `whole` to that of the window."""
        return self.top * whole.row + self.left * whole.block


def images_of(type_: TensorType) -> Images | None:
    """A type of rank 2 to 4 and fixed sizes as images; None if it is none."""
    shape = type_.static
    if shape is None or type_.dtype not in ("f32", "u8", "i8") or not 2 <= len(shape) <= 4:
        return None
    count, channels, *extent = shape
    height, width = (1, 1, *extent)[-2:]
    return Images(count, channels, height, width)


def rows_of(type_: TensorType) -> Images | None:
    """A tensor as one matrix: rows are positions, the last axis the channels; None if it cannot be."""
    shape = type_.static
    if shape is None or type_.dtype not in C_TYPES or not math.prod(shape):
        return None
    columns = shape[-1] if shape else 1
    return Images(1, columns, 1, math.prod(shape) // columns)
