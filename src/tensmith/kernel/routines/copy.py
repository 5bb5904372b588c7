"""Copies an image, or a part of one, into another layout or into a part of another image."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from tensmith.kernel.buffer import ELEMENT_BYTES, Buffer
from tensmith.kernel.routine import Routine

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

    def code(self, name: str, sources: tuple[Buffer, ...], target: Buffer) -> str:
        """Runs of channels that are neighbours on both sides move together, and whole rows where they can."""
        (source,) = sources
        channels, height, width = self.extent or (source.channels, source.height, source.width)
        clear = self._clear(target) if self.fill else ""
        body = "".join(
            self._rows(run, (height, width), source, target) for run in self._runs(channels, source, target)
        )
        says = f"{channels}x{height}x{width}: blocks of {source.block} to {target.block}."
        return self.function(name, says, clear + body)

    @staticmethod
    def _clear(target: Buffer) -> str:
        """Zeros at every position of y, row by row: what lies around may be the rest of a larger image."""
        size = target.width * target.block * ELEMENT_BYTES[target.dtype]
        return f"""\
    for (int c = 0; c < {target.blocks}; c++) {{
        {target.c_type} *y = ({target.c_type} *)out + c * {target.plane} + {target.address(0, 0, 0)};
        for (int i = 0; i < {target.height}; i++) memset(y + i * {target.row}, 0, {size});
    }}
"""

    def _runs(self, channels: int, source: Buffer, target: Buffer) -> Iterator[tuple[int, int, int]]:
        """(first channel, length, how many alike) of channels that lie beside each other on both sides."""
        if source.block == 1 or target.block == 1:
            yield 0, 1, channels
            return
        first = 0
        while first < channels:
            left = source.block - (self.start[0] + first) % source.block
            right = target.block - (self.at[0] + first) % target.block
            length = min(left, right, channels - first)
            yield first, length, 1
            first += length

    def _rows(
        self, run: tuple[int, int, int], extent: tuple[int, int], source: Buffer, target: Buffer
    ) -> str:
        """The loops that move one run at every position."""
        first, length, count = run
        read, write = (
            f"(c + {channel}) / {b.block} * {b.plane} + (c + {channel}) % {b.block} + {b.address(0, i, j)}"
            for b, channel, i, j in (
                (source, first + self.start[0], *self.start[1:]),
                (target, first + self.at[0], *self.at[1:]),
            )
        )
        whole = source.block == target.block == length and self.steps[1] == 1
        columns = 1 if whole else extent[1]
        size = ELEMENT_BYTES[source.dtype] * length * (extent[1] if whole else 1)
        return f"""\
    for (int c = 0; c < {count}; c++) {{
        const {source.c_type} *x = (const {source.c_type} *)in[0] + {read};
        {target.c_type} *y = ({target.c_type} *)out + {write};
        for (int i = 0; i < {extent[0]}; i++) for (int j = 0; j < {columns}; j++)
            memcpy(y + i * {target.row} + j * {target.block},
                   x + i * {self.steps[0] * source.row} + j * {self.steps[1] * source.block}, {size});
    }}
"""
