"""Tensors as strided views of dense memory: what reshapes, transposes, slices and expansions come to.

address(i) = offset + sum(axis; i[axis] * strides[axis])        in elements
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

Shape = tuple[int, ...]


@dataclass(frozen=True)
class StridedView:
    """A tensor of `shape` in somebody's memory. Strides may be 0 (expanded axes) or negative."""

    shape: Shape
    strides: Shape
    offset: int = 0

    @staticmethod
    def dense(shape: Shape) -> StridedView:
        """Row-major, without gaps."""
        strides = tuple(math.prod(shape[axis + 1 :]) for axis in range(len(shape)))
        return StridedView(shape, strides)

    @property
    def size(self) -> int:
        """Elements."""
        return math.prod(self.shape)

    @property
    def is_dense(self) -> bool:
        """Whether the elements lie in row-major order from the beginning of the memory."""
        wanted = StridedView.dense(self.shape).strides
        steps = zip(self.shape, self.strides, wanted)
        return self.offset == 0 and all(size == 1 or here == there for size, here, there in steps)

    def transposed(self, axes: Sequence[int]) -> StridedView:
        """Axis i is the one that was axes[i]."""
        return StridedView(
            tuple(self.shape[a] for a in axes), tuple(self.strides[a] for a in axes), self.offset
        )

    def sliced(self, starts: Sequence[int], steps: Sequence[int], sizes: Shape) -> StridedView:
        """sizes[axis] elements from starts[axis], every steps[axis]-th."""
        offset = self.offset + sum(start * stride for start, stride in zip(starts, self.strides))
        return StridedView(sizes, tuple(stride * step for stride, step in zip(self.strides, steps)), offset)

    def expanded(self, shape: Shape) -> StridedView:
        """Broadcast to `shape`, as ONNX does: axes of size 1 are repeated, new ones stand in front."""
        new = len(shape) - len(self.shape)
        kept = [0 if mine == 1 else stride for mine, stride in zip(self.shape, self.strides)]
        return StridedView(shape, (*([0] * new), *kept), self.offset)

    def reshaped(self, shape: Shape) -> StridedView | None:
        """The same elements in the same order; None where no strides can say that."""
        if not self.size:
            return StridedView.dense(shape)
        runs = _runs([(n, s) for n, s in zip(self.shape, self.strides) if n != 1])
        strides = [0] * len(shape)
        size, stride = 1, 1
        for axis in range(len(shape) - 1, -1, -1):
            if shape[axis] == 1:
                continue
            if size == 1:
                size, stride = runs.pop()
            if size % shape[axis]:
                return None
            strides[axis] = stride
            size, stride = size // shape[axis], stride * shape[axis]
        return StridedView(shape, tuple(strides), self.offset)


def _runs(axes: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """(size, stride) of axes after joining neighbours that one stride walks through."""
    runs: list[tuple[int, int]] = []
    for size, stride in axes:
        if runs and runs[-1][1] == size * stride:
            runs[-1] = (runs[-1][0] * size, stride)
        else:
            runs.append((size, stride))
    return runs


def collapsed(shape: Shape, views: Sequence[StridedView]) -> tuple[Shape, list[Shape]]:
    """(shape, strides of each view) of the fewest loops that visit all of `shape` in row-major order."""
    sizes: list[int] = []
    strides: list[list[int]] = [[] for _ in views]
    for axis, size in enumerate(shape):
        if size == 1:
            continue
        joined = bool(sizes) and all(
            mine[-1] == view.strides[axis] * size for mine, view in zip(strides, views)
        )
        for mine, view in zip(strides, views):
            mine[-1 if joined else len(mine) :] = [view.strides[axis]]
        sizes[-1 if joined else len(sizes) :] = [size * (sizes[-1] if joined else 1)]
    return tuple(sizes), [tuple(mine) for mine in strides]
