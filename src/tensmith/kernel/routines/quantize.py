"""Numbers onto a grid of bytes, and into another layout on the way: how a network's input is read."""

from __future__ import annotations

from dataclasses import dataclass

from tensmith.kernel.buffer import Buffer
from tensmith.kernel.grid_code import codes_of
from tensmith.kernel.quantized import QuantizationParameters
from tensmith.kernel.routine import Routine
from tensmith.kernel.routines.strided import Strided, StridedOperand, StridedStatement
from tensmith.kernel.view import StridedView


@dataclass(frozen=True)
class Quantize(Routine):
    """y = clamp(round(x / scale) + zero_point) for planes x and any blocks of bytes y."""

    grid: QuantizationParameters
    lanes: int

    def code(self, name: str, sources: tuple[Buffer, ...], target: Buffer) -> str:
        """Row by row: the blocks of y that are full, and the channels of the last one."""
        (x,), block = sources, target.block
        full, rest = divmod(x.channels, block)
        parts = []
        for first, blocks, lanes in ((0, full, block), (full * block, 1, rest)):
            shape = (blocks, lanes, x.height, x.width)
            read, written = (
                StridedView(shape, steps, buffer.address(first, 0, 0))
                for buffer, steps in (
                    (x, (block * x.plane, x.plane, x.row, 1)),
                    (target, (target.plane, 1, target.row, block)),
                )
            )
            if read.size:
                operand = StridedOperand(0, read)
                parts.append(StridedStatement(codes_of("{0}", self.grid), (operand,), written))
        return Strided(tuple(parts), self.lanes, target.dtype).code(name, sources, target)
