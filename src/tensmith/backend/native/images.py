"""How tensors are seen as images: a batch of [channels, height, width]."""

from __future__ import annotations

import math
from typing import NamedTuple

from tensmith.ir import TensorType
from tensmith.kernel.buffer import C_TYPES


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
