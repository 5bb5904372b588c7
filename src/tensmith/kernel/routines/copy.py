"""Copies an image, or a part of one, into another layout or into a part of another image."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from tensmith.formula.expr import Num, Read
from tensmith.formula.types import MachineType
from tensmith.kernel.buffer import Buffer
from tensmith.kernel.routine import Routine
from tensmith.kernel.routines.strided import Strided, StridedOperand, StridedStatement
from tensmith.kernel.view import Shape, StridedView

Place = tuple[int, int, int]


@dataclass(frozen=True)
class Copy(Routine):
    """y[at + (c, i, j)] = x[start + (c, i * steps[0], j * steps[1])] for (c, i, j) < extent.

    `extent` None is all of x. The rest of y becomes zero if `fill`, else it stays.
    """

    at: Place = (0, 0, 0)
    start: Place = (0, 0, 0)
    steps: tuple[int, int] = (1, 1)
    extent: Place | None = None
    fill: bool = False

    def takes_planes(self, read: int, written: int) -> bool:
        """Whatever their width: it copies numbers."""
        return True

    def code(self, name: str, sources: tuple[Buffer, ...], target: Buffer) -> str:
        """Whole rows at once where they lie alike, else runs of channels that are so on both sides."""
        dtype = MachineType(target.dtype)
        parts = [StridedStatement(Num(0, dtype), (), target.view())] if self.fill else []
        for operand, written in self.moves(sources[0], target):
            parts.append(StridedStatement(Read("0", (), dtype), (operand,), written))
        return Strided(tuple(parts), target.block, target.dtype).code(name, sources, target)

    def moves(self, source: Buffer, target: Buffer) -> Iterator[tuple[StridedOperand, StridedView]]:
        """What is read and where it is written, part by part."""
        channels, *extent = self.extent or (source.channels, source.height, source.width)
        for first, count, length in self._runs(channels, source, target):
            shape = (count, length, *extent)
            read = _view(source, self.start, first, self.steps, shape)
            written = _view(target, self.at, first, (1, 1), shape)
            if source.block > 1 and target.block > 1:
                read, written = (view.transposed((0, 2, 3, 1)) for view in (read, written))
            yield StridedOperand(0, read, source.dtype), written

    def _runs(self, channels: int, source: Buffer, target: Buffer) -> Iterator[tuple[int, int, int]]:
        """(first channel, how many alike, length) of blocks on both sides, and of parts of blocks."""
        first = 0
        while first < channels:
            sides = ((source, self.start[0] + first), (target, self.at[0] + first))
            left = [b.block - channel % b.block for b, channel in sides if b.block > 1]
            length = min([*left, channels - first])
            whole = all(b.block in (1, length) for b, _ in sides)
            count = (channels - first) // length if whole else 1
            yield first, count, length
            first += count * length


def _view(buffer: Buffer, place: Place, first: int, steps: tuple[int, int], shape: Shape) -> StridedView:
    """Runs of channels of an image from the `first` one behind a place on, every so many rows and columns."""
    channel, i, j = place
    runs = (buffer.plane, 1) if buffer.block > 1 else (shape[1] * buffer.plane, buffer.plane)
    strides = (*runs, steps[0] * buffer.row, steps[1] * buffer.block)
    return StridedView(shape, strides, buffer.address(channel + first, i, j))
