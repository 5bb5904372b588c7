"""Cutting an image into tiles of one length, several of which are summed at once.

A tile is part of a row. The last one of a row is moved back into it, and so computes a few positions again:
to change the shape of tiles costs more.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

from tensmith.kernel.tiles import spans


class TileSet(NamedTuple):
    """Tiles that are summed at once: in each of so many `rows`, at these columns from the first one's."""

    rows: int
    starts: tuple[int, ...]

    @property
    def places(self) -> list[tuple[int, int]]:
        """(row, column) of each tile."""
        return [(i, j) for i in range(self.rows) for j in self.starts]


@dataclass(frozen=True)
class TileSets:
    """An image of `height` x `width` positions in tiles of at most `longest`, at most `most` at once."""

    height: int
    width: int
    longest: int
    most: int

    @property
    def length(self) -> int:
        """Positions of a tile."""
        return -(-self.width // -(-self.width // self.longest))

    @property
    def overlap(self) -> bool:
        """Whether positions are computed twice."""
        return self.width % self.length > 0

    @property
    def counted(self) -> dict[TileSet, int]:
        """The different sets, and how many there are of each."""
        found: dict[TileSet, int] = {}
        for top, bottom, rows in self._rows():
            for _, times, starts in self._columns():
                one = TileSet(rows, starts)
                found[one] = found.get(one, 0) + (bottom - top) // rows * times
        return found

    def walk(self, call: str, indent: int) -> str:
        """C loops over the sets, at row i and column j: `call` with {number}, a set's among `counted`."""
        numbers = {one: number for number, one in enumerate(self.counted)}
        pad, step, lines = " " * indent, self.most * self.length, []
        for top, bottom, rows in self._rows():
            lines.append(f"{pad}for (int i = {top}; i < {bottom}; i += {rows}) {{")
            for first, times, starts in self._columns():
                lines.append(f"{pad}    for (int j = {first}; j < {first + times * step}; j += {step})")
                lines.append(f"{pad}        {call.format(number=numbers[TileSet(rows, starts)])}")
            lines.append(f"{pad}}}")
        return "\n".join(lines)

    def _rows(self) -> list[tuple[int, int, int]]:
        """(from, to, step) of the rows whose tiles are summed at once."""
        return spans(self.height, min(self.height, max(1, self.most // -(-self.width // self.longest))))

    def _columns(self) -> Iterator[tuple[int, int, tuple[int, ...]]]:
        """(first column, how many sets, their starts) along a row."""
        starts = [min(first, self.width - self.length) for first in range(0, self.width, self.length)]
        *others, last = (starts[n : n + self.most] for n in range(0, len(starts), self.most))
        if others:
            yield 0, len(others), tuple(others[0])
        yield last[0], 1, tuple(start - last[0] for start in last)
