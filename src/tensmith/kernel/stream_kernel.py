"""Kernels that read weights which are not zero as a `sparse_stream`, for lanes that are positions.

The rows of a tile of positions are gathered first; then all filters pass over them.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from tensmith.kernel.buffer import Buffer
from tensmith.kernel.epilogue import Epilogue
from tensmith.kernel.isa import Isa
from tensmith.kernel.planes import OverPlanes
from tensmith.kernel.problem import ConvolutionProblem
from tensmith.kernel.sparse_stream import MOST_DENSE
from tensmith.kernel.tiles import Extent, output_extent, over_tiles, tile_extent, tiles, walked_extent


@dataclass(frozen=True)
class StreamKernel(OverPlanes):
    """Takes weights that are half zeros or more; a tile has up to `positions`.

    `element` is the C type of the stream's values.
    """

    skips_zeros = True
    element: ClassVar[str]

    positions: int

    @classmethod
    def lacks(cls, problem: ConvolutionProblem, isa: Isa) -> str | None:
        """Weights that are mostly not zero."""
        return None if problem.density <= MOST_DENSE else f"{problem.density:.0%} of the weights are not zero"

    @staticmethod
    def lengths(problem: ConvolutionProblem, width: int, most: int) -> list[int]:
        """Positions of tiles: whole vectors of `width`, and whole rows of the image, up to `most` vectors."""
        image = output_extent(problem, problem.pointwise)
        rows = (image[1] * count for count in range(1, image[0] + 1))
        found = {*range(width, most * width + 1, width), *(row for row in rows if row <= most * width)}
        return sorted({math.prod(tile_extent(image, length)) for length in found})

    @property
    @abstractmethod
    def counts(self) -> int:
        """How many counts the stream begins with."""

    @abstractmethod
    def helpers(self, name: str, runs: Sequence[int]) -> str:
        """C of the functions that tiles call, such as NAME_gatherN for each length N of `runs`."""

    @abstractmethod
    def tile(self, name: str, tile: Extent, source: Buffer, target: Buffer, epilogue: Epilogue) -> str:
        """C of NAME_ROWSxCOLUMNS(x, stream, more, r, y, scratch): all filters at one tile of positions."""

    @abstractmethod
    def walk(self, target: Buffer, epilogue: Epilogue) -> tuple[str, str, str]:
        """C of what is done first, of what tiles are told `more`, of what goes on from group to group."""

    def gather(self, name: str, tile: Extent, source: Buffer, step: int) -> str:
        """C that gathers the rows of one channel at x into t, so many elements apart."""
        p, (rows, columns) = self.problem, tile
        read = f"(i * {p.strides[0]} + u * {p.dilations[0]}) * {source.row} + v * {p.dilations[1]}"
        return f"""\
for (int u = 0; u < {p.window[0]}; u++) for (int v = 0; v < {p.window[1]}; v++, t += {step})
            for (int i = 0; i < {rows}; i++) {name}_gather{columns}(t + i * {columns}, x + {read});"""

    def code(self, name: str, source: Buffer, target: Buffer, epilogue: Epilogue) -> str:
        """A function for each shape of tile, and one that walks over groups and positions."""
        p, kept = self.problem, epilogue.residual or target
        image = walked_extent(p, source, target, kept)
        shapes = [tile for tile, _ in tiles(image, self.positions)]
        runs = sorted({columns for _, columns in shapes})
        begin, more, move = self.walk(target, epilogue)
        x = f"x + i * {p.strides[0] * source.row} + j * {p.strides[1]}"
        walked = f"{x}, &s, {more}, r + i * {kept.row} + j, y + i * {target.row} + j, scratch"
        return f"""\
{self.helpers(name, runs)}
/* The weights that come next: how many each strip has, their values, and where their rows lie. */
typedef struct {{ const int32_t *counts; const {self.element} *values; const uint16_t *rows; }} {name}_stream;
{"".join(self.tile(name, tile, source, target, epilogue) for tile in shapes)}
{self.begun(name, source, target, epilogue, "int32_t")}
    {name}_stream next = {{w + 1, (const {self.element} *)(w + 1 + {self.counts}), 0}};
    next.rows = (const uint16_t *)(next.values + w[0]);
{begin}    for (int group = 0; group < {p.groups}; group++, x += {p.channels // p.groups * source.plane}) {{
        {name}_stream s = next;
{over_tiles(image, self.positions, f"s = next, {name}_{{rows}}x{{columns}}({walked});", 8)}
        next = s;
{move}    }}
}}
"""
