"""Pooling over windows, and over whole images, of channels in blocks; maxima of bytes also channels last."""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import Literal

from tensmith.kernel.buffer import Buffer
from tensmith.kernel.epilogue import literal
from tensmith.kernel.grid_code import numbers_of
from tensmith.kernel.quantized import QuantizationParameters
from tensmith.kernel.routine import Routine
from tensmith.kernel.routines.plane_pool import Windows, plane_maximum

# Columns of a window whose maxima are one expression; columns, or rows of a window, that lie on the stack.
_MOST_WRITTEN, _WIDEST = 16, 1024


Kind = Literal["max", "average"]


@dataclass(frozen=True)
class PoolRoutine(Routine):
    """y[c,o] = the maximum or mean of x over the window at o * strides - pads, inside the image.

    `counted` is (height, width) of the padded image if a mean counts padding as zeros, else None. Bytes have
    a maximum only.
    """

    kind: Kind
    window: tuple[int, int]
    strides: tuple[int, int]
    pads: tuple[int, int]
    lanes: int
    dilations: tuple[int, int] = (1, 1)
    counted: tuple[int, int] | None = None

    def takes_planes(self, read: int, written: int) -> bool:
        """Maxima of every column or every second one, where rows fill vectors; they are written out."""
        tall, wide = self.window
        reach = max(read, written, tall, self.pads[1], (wide - 1) * self.dilations[1])
        few = self.strides[1] <= 2 and wide <= _MOST_WRITTEN and reach <= _WIDEST
        return self.kind == "max" and few and min(read, written) >= self.lanes

    @property
    def takes_channels_last(self) -> bool:
        """Maxima, vector by vector."""
        return self.kind == "max"

    def code(self, name: str, sources: tuple[Buffer, ...], target: Buffer) -> str:
        """Windows are cut at the borders; those inside are unrolled."""
        (source,) = sources
        if source.block == 1:
            windows = Windows(self.window, self.strides, self.pads, self.dilations)
            return plane_maximum(name, windows, source, target, self.lanes)
        bytes_ = source.dtype == "u8"
        vector, unaligned = ("vb", "vb") if bytes_ else ("vf", "vfu")
        read_from = f"(const {source.c_type} *)in[0] + {source.address(0, 0, 0)}"
        write_to = f"({target.c_type} *)out + {target.address(0, 0, 0)}"
        combine = ("bmax(m, e)" if bytes_ else "vmaximum(m, e)") if self.kind == "max" else "m + e"
        start = "splat(-INFINITY)" if self.kind == "max" and not bytes_ else "(" + vector + "){0}"
        finish = "m" if self.kind == "max" else "m / (float)count"
        tall, wide = self.window
        counted = self.counted or (source.height, source.width)
        low = (-self.pads[0], -self.pads[1]) if self.counted else (0, 0)
        read = (
            f"*(const {unaligned} *)(x + (i + u * {self.dilations[0]}) * {source.row}"
            f" + (j + v * {self.dilations[1]}) * {source.block} + c)"
        )
        inside = (
            f"i >= 0 && i + {(tall - 1) * self.dilations[0]} < {source.height}"
            f" && j >= 0 && j + {(wide - 1) * self.dilations[1]} < {source.width}"
        )
        ends = (counted[0] + low[0], counted[1] + low[1])
        down, across = (
            functools.partial(_taps_before, *axis) for axis in zip("ij", self.dilations, self.window)
        )
        body = f"""\
    for (int b = 0; b < {source.blocks}; b++) {{
        const {source.c_type} *x = {read_from} + b * {source.plane};
        {target.c_type} *y = {write_to} + b * {target.plane};
        for (int oi = 0; oi < {target.height}; oi++) for (int oj = 0; oj < {target.width}; oj++) {{
            int i = oi * {self.strides[0]} - {self.pads[0]}, j = oj * {self.strides[1]} - {self.pads[1]};
            for (int c = 0; c < {source.block}; c += {self.lanes}) {{
                int count = {tall * wide};
                {vector} m = {start};
                if ({inside}) {{
                    {_unroll(tall)}for (int u = 0; u < {tall}; u++)
                    {_unroll(wide)}for (int v = 0; v < {wide}; v++) {{
                        {vector} e = {read};
                        m = {combine};
                    }}
                }} else {{
                    count = ({down(ends[0])} - {down(low[0])}) * ({across(ends[1])} - {across(low[1])});
                    const int top = {down(0)}, bottom = {down(source.height)};
                    const int left = {across(0)}, right = {across(source.width)};
                    for (int u = top; u < bottom; u++) for (int v = left; v < right; v++) {{
                        {vector} e = {read};
                        m = {combine};
                    }}
                }}
                (void)count;
                *({unaligned} *)(y + oi * {target.row} + oj * {target.block} + c) = {finish};
            }}
        }}
    }}
"""
        image = f"{source.channels}x{source.height}x{source.width}"
        strides = f"{self.strides[0]}x{self.strides[1]}"
        says = f"{self.kind} of {tall}x{wide} windows, strides {strides}, of {image}."
        return self.function(name, says, body)


@dataclass(frozen=True)
class GlobalPoolRoutine(Routine):
    """y[c] = the maximum or mean of x over all positions.

    grid: of x where that is of bytes; y is of the numbers that these stand for.
    """

    kind: Kind
    lanes: int
    grid: QuantizationParameters | None = None

    def code(self, name: str, sources: tuple[Buffer, ...], target: Buffer) -> str:
        """Rows are summed apart, so that rounding grows with their length and not with the image's."""
        (source,) = sources
        combine = "vmaximum({0}, {1})" if self.kind == "max" else "{0} + {1}"
        start = "splat(-INFINITY)" if self.kind == "max" else "splat(0)"
        found = "all" if self.kind == "max" else f"all * {literal(1 / (source.height * source.width))}"
        found = numbers_of(found, self.grid) if self.grid else found
        load, ctype = ("widen", "uint8_t") if self.grid else ("load", "float")
        read = f"{load}(x + i * {source.row} + j * {self.lanes})"
        body = f"""\
    for (int b = 0; b < {source.blocks}; b++) {{
        const {ctype} *x = (const {ctype} *)in[0] + {source.address(0, 0, 0)} + b * {source.plane};
        vf all = {start};
        for (int i = 0; i < {source.height}; i++) {{
            vf row = {start};
            for (int j = 0; j < {source.width}; j++) row = {combine.format("row", read)};
            all = {combine.format("all", "row")};
        }}
        store(out + {target.address(0, 0, 0)} + b * {target.plane}, {found});
    }}
"""
        image = f"{source.channels}x{source.height}x{source.width}"
        return self.function(name, f"{self.kind} of each channel of {image}.", body)


def _taps_before(first: str, step: int, taps: int, end: int) -> str:
    """C that counts the taps at `first` and every `step` from there that lie before `end`."""
    most = f"({end + step - 1} - {first}) / {step}"
    return f"({first} >= {end} ? 0 : {most} < {taps} ? {most} : {taps})"


def _unroll(count: int) -> str:
    return "UNROLL " if count <= 7 else ""
