"""Numbers onto a grid of bytes, and into another layout on the way: how a network's input is read."""

from __future__ import annotations

from dataclasses import dataclass

from tensmith.kernel.buffer import Buffer
from tensmith.kernel.grid_code import codes_of
from tensmith.kernel.quantized import QuantizationParameters
from tensmith.kernel.routine import Routine
from tensmith.kernel.routines.copy import Copy
from tensmith.kernel.routines.strided import Strided, StridedStatement

# Bytes of a number in which the channels of a place lie.
_PIXEL = 4


@dataclass(frozen=True)
class Quantize(Routine):
    """y = clamp(round(x / scale) + zero_point) for planes x and any blocks of bytes y."""

    grid: QuantizationParameters
    lanes: int

    def code(self, name: str, sources: tuple[Buffer, ...], target: Buffer) -> str:
        """Row by row: the blocks of y that are full, and the channels of the last one."""
        (source,) = sources
        if self._in_pixels(source, target):
            return self._pixels(name, source, target)
        code = codes_of("{0}", self.grid)
        moves = Copy().moves(source, target)
        parts = tuple(StridedStatement(code, (operand,), written) for operand, written in moves)
        return Strided(parts, self.lanes, target.dtype).code(name, sources, target)

    def _in_pixels(self, source: Buffer, target: Buffer) -> bool:
        """Whether y has all channels of a place beside each other, few enough for one number of a vector."""
        alike = source.block == 1 and source.dtype == "f32" and source.width >= self.lanes
        return alike and 1 < target.channels == target.block <= _PIXEL

    def _pixels(self, name: str, source: Buffer, target: Buffer) -> str:
        """A vector of places at a time, the last one of a row over its neighbour. Numbers of four bytes are
        written one after the other, each over what the one before had too much."""
        channels, lanes = source.channels, self.lanes
        codes = " | ".join(
            f"(rint_i({codes_of(f'load(x + {channel * source.plane})', self.grid)}) & 255) << {8 * channel}"
            for channel in range(channels)
        )
        body = f"""\
    for (int i = 0; i < {source.height}; i++) for (int n = 0; n < {source.width}; n += {lanes}) {{
        const int j = n < {source.width - lanes} ? n : {source.width - lanes};
        const float *x = in[0] + {source.address(0, 0, 0)} + i * {source.row} + j;
        uint8_t *y = (uint8_t *)out + {target.address(0, 0, 0)} + i * {target.row} + j * {channels};
        const vi codes = {codes};
        UNROLL for (int c = 0; c < {lanes - 1}; c++) *(quad *)(y + c * {channels}) = codes[c];
        UNROLL for (int k = 0; k < {channels}; k++)
            y[{(lanes - 1) * channels} + k] = codes[{lanes - 1}] >> 8 * k;
    }}
"""
        image = f"{channels}x{source.height}x{source.width}"
        return self.function(name, f"Codes of {image}, all channels of a place together.", body)
