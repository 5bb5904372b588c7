"""Numbers onto a grid of bytes, and into another layout on the way: how a network's input is read."""

from __future__ import annotations

from dataclasses import dataclass

from tensmith.kernel.buffer import Buffer
from tensmith.kernel.grid_code import codes_of
from tensmith.kernel.quantized import QuantizationParameters
from tensmith.kernel.routine import Routine
from tensmith.kernel.routines.copy import Copy
from tensmith.kernel.routines.strided import Strided, StridedStatement


@dataclass(frozen=True)
class Quantize(Routine):
    """y = clamp(round(x / scale) + zero_point) for planes x and any blocks of bytes y."""

    grid: QuantizationParameters
    lanes: int

    def code(self, name: str, sources: tuple[Buffer, ...], target: Buffer) -> str:
        """Row by row: the blocks of y that are full, and the channels of the last one."""
        code = codes_of("{0}", self.grid)
        moves = Copy().moves(sources[0], target)
        parts = tuple(StridedStatement(code, (operand,), written) for operand, written in moves)
        return Strided(parts, self.lanes, target.dtype).code(name, sources, target)
