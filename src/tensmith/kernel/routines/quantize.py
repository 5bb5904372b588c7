"""Numbers onto a grid of bytes, and into another layout on the way: how a network's input is read."""

from __future__ import annotations

from dataclasses import dataclass

from tensmith.kernel.buffer import Buffer
from tensmith.kernel.epilogue import literal
from tensmith.kernel.quantized import QuantizationParameters
from tensmith.kernel.routine import ROUTINE_SIGNATURE, UnaryRoutine


@dataclass(frozen=True)
class Quantize(UnaryRoutine):
    """y = clamp(round(x / scale) + zero_point) for planes x and any blocks of bytes y."""

    grid: QuantizationParameters
    lanes: int

    def unary_code(self, name: str, source: Buffer, target: Buffer) -> str:
        """A vector of a row at a time, whose bytes are then dealt out; the last vector of a row overlaps."""
        grid, lanes, width = self.grid, self.lanes, source.width
        bounds = ", ".join(f"isplat({n})" for n in (grid.zero_point, grid.low, grid.high))
        scale = f"splat({literal(grid.scale)})"
        row = f"(c / {target.block}) * {target.plane} + c % {target.block} + i * {target.row}"
        count = min(lanes, width)
        read = "load(x + j)" if width >= lanes else "load(rest)"
        copy = "" if width >= lanes else f"float rest[{lanes}] = {{0}}; memcpy(rest, x, {4 * width});"
        return f"""\
/* {source.channels}x{source.height}x{source.width} onto a grid. */
static void {name}({ROUTINE_SIGNATURE})
{{
    (void)constants;
    for (int c = 0; c < {source.channels}; c++) for (int i = 0; i < {source.height}; i++) {{
        const float *x = in[0] + {source.address(0, 0, 0)} + c * {source.plane} + i * {source.row};
        uint8_t *y = (uint8_t *)out + {target.address(0, 0, 0)} + {row};
        {copy}
        for (int at = 0; at < {width}; at += {lanes}) {{
            int j = at < {width - count} ? at : {width - count};
            uint8_t q[{lanes}];
            put_one(q, rint_i({read} / {scale}), {bounds});
            UNROLL for (int k = 0; k < {count}; k++) y[(j + k) * {target.block}] = q[k];
        }}
    }}
}}
"""
