"""Images enlarged by whole factors: every element repeated."""

from __future__ import annotations

from dataclasses import dataclass

from tensmith.kernel.buffer import Buffer
from tensmith.kernel.routine import Routine
from tensmith.kernel.routines.strided import Strided, StridedOperand, StridedStatement
from tensmith.kernel.view import StridedView


@dataclass(frozen=True)
class Repeat(Routine):
    """y[c, i, j] = x[c, i / factors[0], j / factors[1]], rounded down; both lie in blocks of one size."""

    factors: tuple[int, int]

    def code(self, name: str, sources: tuple[Buffer, ...], target: Buffer) -> str:
        """A copy of each vector of channels to every position that it fills."""
        (x,), (tall, wide) = sources, self.factors
        shape = (x.blocks, x.height, tall, x.width, wide, x.block)
        read = StridedView(shape, (x.plane, x.row, 0, x.block, 0, 1), x.address(0, 0, 0))
        steps = (target.plane, tall * target.row, target.row, wide * target.block, target.block, 1)
        written = StridedView(shape, steps, target.address(0, 0, 0))
        part = StridedStatement("{0}", (StridedOperand(0, read, x.dtype),), written)
        return Strided((part,), x.block, target.dtype).code(name, sources, target)
