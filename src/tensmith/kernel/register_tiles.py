"""Kernels that sum up register tiles: some positions of an image by some vectors of filters.

They cut y, walk over it and estimate their cost alike; what they multiply, and how, is each one's own.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from tensmith.kernel.algorithm import Kernel
from tensmith.kernel.buffer import Buffer
from tensmith.kernel.epilogue import Epilogue
from tensmith.kernel.groups import wide_groups
from tensmith.kernel.problem import ConvolutionProblem
from tensmith.kernel.tiles import Extent, output_extent, over_tiles, tiles, vector_chunks

# A tile must keep the multiply-add units busy for their latency, and its loop and stores cost cycles too.
_LATENCY = 8
_TILE_OVERHEAD = 24
MOST_CANDIDATES = 8
_MOST_BLOCKS = 6


class Chunk(NamedTuple):
    """`blocks` vectors of filters that are computed together, so many `times`.

    `last` says, as the kernel counts it, what of them exists. They read `weights` elements of w and stand for
    `stored` vectors of y.
    """

    blocks: int
    times: int
    last: int
    weights: int
    stored: int


def layouts(problem: ConvolutionProblem, block: int) -> list[int]:
    """Channels that a block of x may hold: `block`, or all, where a matrix product reads rows as they lie."""
    rows = problem.pointwise and problem.groups == 1 and problem.height == 1
    return list(dict.fromkeys((block, problem.channels) if rows else (block,)))


@dataclass(frozen=True)
class RegisterTiles(Kernel):
    """Tiles of at most `positions` and at most `blocks` vectors of filters."""

    positions: int
    blocks: int

    @property
    @abstractmethod
    def vector(self) -> int:
        """Filters in a vector."""

    @property
    def halves(self) -> bool:
        """Whether half a vector's products are spared where no more filters than that are left."""
        return False

    def ends_in_half(self, last: int) -> bool:
        """Whether half of a vector is computed, of which `last` filters exist."""
        return self.halves and last <= self.vector // 2

    def tile_cycles(
        self, steps: int, step: Callable[[int, float], float], finish: Callable[[Extent, int], float]
    ) -> float:
        """Cycles of every tile, those at the ends with fewer positions or blocks included.

        A tile of some positions and blocks goes through `steps` steps, each of which takes `step`, or as long
        as a product's latency; then it is finished.
        """
        groups, _, filters = wide_groups(self.problem, self.vector)
        image = output_extent(self.problem, self.problem.pointwise)
        cycles = 0.0
        for blocks, times, last in vector_chunks(filters, self.blocks, self.vector, self.halves):
            computed = blocks - self.ends_in_half(last) / 2
            for tile, count in tiles(image, self.positions):
                each = max(step(math.prod(tile), computed), _LATENCY)
                cycles += times * count * (steps * each + finish(tile, blocks) + _TILE_OVERHEAD)
        return groups * cycles

    def walk(
        self, name: str, tile: Callable[[Extent, int, int], str], begin: str, group_step: int, image: Extent,
        parts: Sequence[Chunk], arguments: str, target: Buffer, epilogue: Epilogue, bias: int,
    ) -> str:  # fmt: skip
        """C of the function `name`, which walks over groups, chunks of filters and tiles of the image.

        After `begin`. Before it stand the functions that it calls with `arguments`, one for each
        shape of `tile` (extent, blocks, last), as NAME_ROWSxCOLUMNSxBLOCKS_LAST. `group_step` is from the
        channels of a group to the next, `bias` how many elements of b a vector of y has.
        """
        groups, _, _ = wide_groups(self.problem, self.vector)
        shapes = tiles(image, self.positions)
        step, kept = (vector_step(buffer, self.isa.lanes) for buffer in (target, epilogue.residual or target))
        text = [tile(extent, part.blocks, part.last) for part in parts for extent, _ in shapes]
        text.append(
            f"""\
{begin}
    for (int group = 0; group < {groups}; group++, x += {group_step}) {{"""
        )
        for part in parts:
            vectors = part.stored
            call = f"{name}_{{rows}}x{{columns}}x{part.blocks}_{part.last}({arguments});"
            text.append(f"""\
        for (int chunk = 0; chunk < {part.times}; chunk++) {{
{over_tiles(image, self.positions, call, 12)}
            w += {part.weights}; y += {vectors * step}; r += {vectors * kept}; b += {vectors * bias};
        }}""")
        return "\n".join([*text, "    }", "}", ""])


# More than any register file has places for.
_MOST_POSITIONS = 1024


def tilings(
    problem: ConvolutionProblem, vector: int, fits: Callable[[int, int], bool]
) -> Iterator[tuple[int, int]]:
    """(positions, blocks) of every tile that fits the registers, for vectors of so many filters."""
    filter_blocks = -(-wide_groups(problem, vector)[2] // vector)
    for blocks in range(1, min(filter_blocks, _MOST_BLOCKS) + 1):
        for positions in range(1, min(math.prod(problem.output), _MOST_POSITIONS) + 1):
            if fits(positions, blocks):
                yield positions, blocks


def store_tile(
    tile: Extent, blocks: int, last: int, target: Buffer, epilogue: Epilogue, lanes: int,
    sums: str = "a[i][j][k]",
) -> str:  # fmt: skip
    """C that finishes the `sums` of a tile and stores them at y.

    Of the last vector only `last` elements are stored, where rows end with them.
    """
    kept = epilogue.residual or target
    at, add = (
        f"i * {buffer.row} + j * {buffer.block} + k * {vector_step(buffer, lanes)}"
        for buffer in (target, kept)
    )
    bias, each = (
        f"load(b + k * {lanes})",
        (f"UNROLL for (int i = 0; i < {tile[0]}; i++) UNROLL for (int j = 0; j < {tile[1]}; j++)"),
    )
    value, end = epilogue.apply(sums, bias, f"load(r + {add})"), ""
    if last < lanes:
        ragged = f"load(r + {add})" if kept.block == lanes else f"load_part(r + {add}, {last})"
        end = f"""
    {each} {{
        enum {{ k = {blocks - 1} }};
        store_part(y + {at}, {epilogue.apply(sums, bias, ragged)}, {last});
    }}"""
    return f"""\
    {each}
        UNROLL for (int k = 0; k < {blocks - bool(end)}; k++)
            store(y + {at}, {value});{end}
"""


def vector_step(buffer: Buffer, lanes: int) -> int:
    """From one vector of channels to the next, in a buffer of blocks or of channels last."""
    return buffer.plane if buffer.block == lanes else lanes
