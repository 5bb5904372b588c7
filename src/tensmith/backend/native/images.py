"""How tensors are seen as images: a batch of [channels, height, width]."""

from __future__ import annotations

import math
from typing import NamedTuple

from tensmith.errors import EngineError
from tensmith.ir import Program
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


def images_of(program: Program, value: str) -> Images:
    """A value of rank 2 to 4 as images; EngineError if it is none."""
    type_ = program.type(value)
    shape = type_.static
    if shape is None:
        raise EngineError(f"'{value}' has the symbolic shape {type_}; the native engine needs fixed sizes")
    if type_.dtype not in ("f32", "u8", "i8") or not 2 <= len(shape) <= 4:
        raise EngineError(f"'{value}' is {type_}; there is no native kernel for that yet")
    count, channels, *extent = shape
    height, width = (1, 1, *extent)[-2:]
    return Images(count, channels, height, width)


def rows_of(program: Program, value: str) -> Images:
    """A tensor as one matrix: rows are positions, the last axis the channels."""
    type_ = program.type(value)
    shape = type_.static
    if shape is None:
        raise EngineError(f"'{value}' has the symbolic shape {type_}; the native engine needs fixed sizes")
    if type_.dtype not in C_TYPES or not math.prod(shape):
        raise EngineError(f"'{value}' is {type_}; there is no native kernel for that yet")
    columns = shape[-1] if shape else 1
    return Images(1, columns, 1, math.prod(shape) // columns)
