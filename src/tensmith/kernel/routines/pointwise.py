"""A group of elementwise ops in one pass."""

from __future__ import annotations

from dataclasses import dataclass, replace

from tensmith.kernel.buffer import Buffer
from tensmith.kernel.routine import Routine
from tensmith.kernel.routines.strided import Strided, StridedOperand, StridedStatement
from tensmith.kernel.view import StridedView


@dataclass(frozen=True)
class Pointwise(Routine):
    """y[c,i,j] = expression of the leaves at the same place; all images lie in blocks of one vector.

    `expression` is C over vectors, with {0}, {1}... for the leaves: the images read, of one position or as
    large as y, by number, or None for the next table of `constants`. A table has one number a channel and is
    as long as y's channels rounded up to a vector. Bytes are read and written as codes.
    """

    expression: str
    leaves: tuple[int | None, ...]
    lanes: int

    def code(self, name: str, sources: tuple[Buffer, ...], target: Buffer) -> str:
        """Loops over all blocks, lanes past the last channel included."""
        written = target.view()
        table = StridedView.dense((target.blocks, 1, 1, self.lanes))
        starts = iter(range(0, len(self.leaves) * table.size, table.size))
        operands = []
        for leaf in self.leaves:
            view = replace(table, offset=next(starts)) if leaf is None else sources[leaf].view()
            dtype = "f32" if leaf is None else sources[leaf].dtype
            operands.append(StridedOperand(leaf, view.expanded(written.shape), dtype))
        part = StridedStatement(self.expression, tuple(operands), written)
        return Strided((part,), self.lanes, target.dtype).code(name, sources, target)
