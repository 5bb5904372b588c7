"""Pooling over windows and whole images in blocks of channels; maxima also of planes, or of bytes in rows."""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import Literal

from tensmith.kernel.buffer import Buffer
from tensmith.kernel.epilogue import literal
from tensmith.kernel.grid_code import numbers_of
from tensmith.kernel.quantized import QuantizationParameters
from tensmith.kernel.routine import Routine
from tensmith.kernel.runs import load_second, starts

# Columns of a window whose maxima are one expression; columns, or rows of a window, that lie on the stack.
_MOST_WRITTEN, _WIDEST = 16, 1024
# Rows of maxima that wait for each other: what was just stored cannot be read from another place at once.
_ROWS = 8


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
            return self._maxima(name, source, target)
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

    def _maxima(self, name: str, source: Buffer, target: Buffer) -> str:
        """Of planes: down the columns by whole vectors, then along each row of maxima.

        Planes of x and y are at least a vector wide, windows one or two columns apart.
        """
        (tall, wide), (down, along) = self.window, self.strides
        (top, left), (apart, gap), lanes = self.pads, self.dilations, self.lanes
        reach = max(left + source.width, (target.width - 1) * along + (wide - 1) * gap + 1)

        def most(at: int) -> str:
            """The maxima of the windows from column `at` of y on."""
            places = [f"m + {at * along + v * gap}" for v in range(wide)]
            taps = [load_second(place, lanes, lanes) if along == 2 else f"load({place})" for place in places]
            return functools.reduce("vmaximum({},\n                {})".format, taps)

        put = "\n".join(f"            store(y + {at}, {most(at)});" for at in starts(target.width, lanes))
        body = f"""\
    float maxima[{_ROWS}][{reach}]; /* of the columns of windows, with borders */
    for (int i = 0; i < {_ROWS}; i++) for (int j = 0; j < {reach}; j++) maxima[i][j] = -INFINITY;
    for (int c = 0; c < {source.channels}; c++)
    for (int first = 0; first < {target.height}; first += {_ROWS}) {{
        int end = first + {_ROWS} < {target.height} ? first + {_ROWS} : {target.height};
        for (int oi = first; oi < end; oi++) {{
            const float *x = in[0] + {source.address(0, 0, 0)} + c * {source.plane}, *rows[{tall}];
            int count = 0;
            for (int u = 0; u < {tall}; u++) {{
                int i = oi * {down} - {top} + u * {apart};
                if (i >= 0 && i < {source.height}) rows[count++] = x + i * {source.row};
            }}
            for (int j = 0; j < {source.width}; j += {lanes}) {{
                int at = j < {source.width - lanes} ? j : {source.width - lanes};
                vf column = splat(-INFINITY);
                for (int u = 0; u < count; u++) column = vmaximum(column, load(rows[u] + at));
                store(maxima[oi - first] + {left} + at, column);
            }}
        }}
        for (int oi = first; oi < end; oi++) {{
            const float *m = maxima[oi - first];
            float *y = out + {target.address(0, 0, 0)} + c * {target.plane} + oi * {target.row};
{put}
        }}
    }}
"""
        image = f"{source.channels}x{source.height}x{source.width}"
        says = f"max of {tall}x{wide} windows, strides {down}x{along}, of the planes of {image}."
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
