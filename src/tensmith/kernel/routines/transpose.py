"""Between planes and blocks of one vector: squares of channels x positions, turned in registers."""

from __future__ import annotations

from dataclasses import dataclass

from tensmith.kernel.buffer import Buffer
from tensmith.kernel.routine import Routine
from tensmith.kernel.routines.copy import Copy
from tensmith.kernel.squares import turn


@dataclass(frozen=True)
class TransposeRoutine(Routine):
    """y = x in floats, one of them in planes and the other one in blocks of `lanes`."""

    lanes: int

    def code(self, name: str, sources: tuple[Buffer, ...], target: Buffer) -> str:
        """A loop over squares, of which the last in a run overlaps its neighbour; short runs are copied."""
        (source,), lanes = sources, self.lanes
        flat = source.flat and target.flat
        height, width = (1, source.height * source.width) if flat else (source.height, source.width)
        if width < lanes:
            return Copy().code(name, sources, target)
        read, write = (self._vector(buffer) for buffer in (source, target))
        exists = f"b * {lanes} + c < {source.channels}"
        ragged = f"if ({exists}) " if source.channels % lanes else ""
        absent, needed = (ragged if buffer.block == 1 else "" for buffer in (source, target))
        body = f"""\
    const float *x = in[0] + {source.address(0, 0, 0)};
    float *y = out + {target.address(0, 0, 0)};
    for (int b = 0; b < {-(-source.channels // lanes)}; b++)
    for (int i = 0; i < {height}; i++) for (int n = 0; n < {width}; n += {lanes}) {{
        int j = n < {width - lanes} ? n : {width - lanes};
        vf a[{lanes}] = {{{{0}}}};
        UNROLL for (int c = 0; c < {lanes}; c++) {absent}a[c] = load(x + {read});
{turn("a", lanes, 8)}\
        UNROLL for (int c = 0; c < {lanes}; c++) {needed}store(y + {write}, a[c]);
    }}
"""
        image = f"{source.channels}x{source.height}x{source.width}"
        return self.function(name, f"{image}: blocks of {source.block} to {target.block}.", body)

    def _vector(self, buffer: Buffer) -> str:
        """Where the c-th vector of a square lies: of positions in planes, of channels in blocks."""
        if buffer.block == 1:
            return f"(b * {self.lanes} + c) * {buffer.plane} + i * {buffer.row} + j"
        return f"b * {buffer.plane} + i * {buffer.row} + (j + c) * {self.lanes}"
