"""Convolution of bytes by matrix instructions: tiles of 16 positions by 16 filters.

    sums[p,k] += sum(e < 64; x[p,e] * w[k,e])        for all p, k < 16

is TDPBUSD (Intel SDM vol. 2). Channels that lie in blocks are first put beside each other in scratch memory
where the window is one position. Sums and what follows them are those of spatial_pack, to the bit.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import product

import numpy as np

from tensmith.kernel.algorithm import Kernel, algorithm
from tensmith.kernel.buffer import Buffer, aligned
from tensmith.kernel.byte_sums import finish_cycles, finish_rows, finish_vectors
from tensmith.kernel.isa import Isa
from tensmith.kernel.problem import ConvolutionProblem
from tensmith.kernel.quantized import FIELDS
from tensmith.kernel.tile_products import (
    TILE_BYTES,
    Distances,
    FilterChunk,
    TileElements,
    TileProducts,
)
from tensmith.kernel.tiles import output_extent, read_buffer

# Images of at most so many channels are read as they lie.
_FEW_CHANNELS = 4
# Cycles to put 16 channels of a position beside others, several at once or by themselves.
_TURNED, _COPIED = 1.25, 1.5


@algorithm("amx_int8")
@dataclass(frozen=True)
class AmxInt8(TileProducts):
    """Takes any stride, group and pad, dilation down alone.

    `block` is the source's and `written` the target's, of one vector or of all channels. Weights, bias and
    element types are those of spatial_pack.
    """

    dtypes = ("u8",)
    elements = TileElements("_tile_dpbusd", 1, "uint8_t", "int8_t", "int32_t", np.int8)
    header = "const float *restrict h, "

    block: int
    written: int

    @classmethod
    def lacks(cls, problem: ConvolutionProblem, isa: Isa) -> str | None:
        """Processors without the instructions; windows whose columns are apart."""
        if not isa.has_tiles:
            return f"{isa.name} has no instructions for tiles here"
        return "its window is dilated along rows" if problem.dilations[1] > 1 else None

    @classmethod
    def candidates(cls, problem: ConvolutionProblem, isa: Isa) -> Iterator[Kernel]:
        """What fits the registers, cheapest first."""
        lanes, few = isa.lanes, problem.channels <= _FEW_CHANNELS
        read, written = (
            [lanes, all_] if problem.groups == 1 else [lanes] for all_ in (problem.channels, problem.filters)
        )
        for block, target in dict.fromkeys(product(read[1:] if few else read, written)):
            yield from cls.cheapest(problem, isa, block, target)

    @property
    def _in_runs(self) -> bool:
        """Whether a row of the window is one run of all channels."""
        return self.block != self.isa.lanes

    @property
    def _gathers(self) -> bool:
        """Whether channels are put beside each other first."""
        return not self._in_runs and self.problem.window == (1, 1) and self.wide[1] > self.isa.lanes

    @property
    def over(self) -> tuple[int, int, int]:
        """Of what lies in blocks, one after the other."""
        lanes, channels, (tall, wide) = self.isa.lanes, self.wide[1], self.problem.window
        if self._in_runs:
            return 1, tall, wide * channels
        blocks = -(-channels // lanes)
        return (1, tall, blocks * lanes) if self._gathers else (blocks, tall, wide * lanes)

    @property
    def pieces(self) -> tuple[int, int]:
        """Of one size; the last one may read beyond its run."""
        run = self.over[2]
        count = -(-run // TILE_BYTES)
        each = -(-run // count)
        return count, each + -each % 4

    @property
    def source(self) -> Buffer:
        """Blocked, or channels last with slack for what the last piece reads beyond its run; with a halo."""
        found, (count, each) = read_buffer(self.problem, self.block, "u8"), self.pieces
        beyond = 0 if self._gathers else -(-(count * each - self.over[2]) // self.block)
        return replace(found, halo=found.halo._replace(right=found.halo.right + beyond))

    @property
    def target(self) -> Buffer:
        """Blocks of one vector, or channels last."""
        return Buffer(self.problem.filters, *self.problem.output, self.written, dtype="u8")

    @property
    def _pitch(self) -> int:
        """Bytes of a position in scratch memory."""
        return self.isa.round_up(self.problem.channels)

    @property
    def scratch_bytes(self) -> int:
        """Positions with their channels beside each other, and what is read beyond."""
        return aligned(math.prod(self.problem.output) * self._pitch + TILE_BYTES) if self._gathers else 0

    @property
    def bias_elements(self) -> int:
        """Words of each filter."""
        return FIELDS * self.isa.lanes

    @property
    def prepare_cycles(self) -> float:
        """Channels that are put beside each other."""
        moved = _TURNED if self.problem.strides[1] == 1 else _COPIED
        return moved * math.prod(self.problem.output) * self._pitch / self.isa.lanes if self._gathers else 0

    def finish_cycles(self, tiles: int, length: int, blocks: int) -> float:
        """To bytes, in fours of positions or of vectors."""
        if self.written == self.isa.lanes:
            return finish_cycles((tiles, length), blocks)
        return finish_cycles((tiles * length, blocks), 1)

    def reads_flat(self, source: Buffer) -> bool:
        """In scratch memory they do."""
        return self._gathers or (self.problem.pointwise and source.flat)

    def distances(self, source: Buffer, width: int) -> Distances:
        """In the source, or in scratch memory."""
        p, channels = self.problem, self.wide[1]
        if self._gathers:
            return Distances(width * self._pitch, self._pitch, 0, 0, channels)
        (down, along), group = p.strides, channels // self.block * source.plane
        return Distances(
            down * source.row, along * source.block, source.plane, p.dilations[0] * source.row, group
        )

    def begins(self, register: int, vector: int) -> str:
        """With the words of their filters, in every row."""
        return f"_tile_loadd({register}, b + {vector * self.bias_elements}, 0);"

    def finished(self, part: FilterChunk, positions: int) -> str:
        """To bytes, as spatial_pack does."""
        lanes, blocks, target, epilogue = self.isa.lanes, part.blocks, part.target, part.epilogue
        end = (
            finish_vectors((1, positions), blocks, target, part.kept, epilogue, lanes)
            if target.block == lanes
            else finish_rows(positions, blocks, part.last, target, part.kept, epilogue, lanes)
        )
        return f"    const quad *g = (const quad *)h;\n    (void)g;\n{end}"

    def prepared(self, name: str, source: Buffer) -> tuple[str, str]:
        """Channels of a position beside each other: four blocks of four positions at once, and the rest."""
        if not self._gathers:
            return "", ""
        p, lanes, pitch = self.problem, self.isa.lanes, self._pitch
        height, width = output_extent(p, p.pointwise and source.flat)
        blocks, (down, along) = source.blocks, p.strides
        turned = (blocks - blocks % 4, width - width % 4) if along == 1 else (0, 0)
        copy = (
            f"memcpy(y + j * {pitch} + n * {lanes}, x + n * {source.plane} + j * {along * lanes}, {lanes});"
        )
        return (
            f"""\
static void {name}(const uint8_t *restrict x, uint8_t *restrict y)
{{
    for (int i = 0; i < {height}; i++, x += {down * source.row}, y += {width * pitch}) {{
        for (int n = 0; n < {turned[0]}; n += 4) for (int j = 0; j < {turned[1]}; j += 4)
            turn_bytes(y + j * {pitch} + n * {lanes}, {pitch},
                x + n * {source.plane} + j * {lanes}, {source.plane});
        for (int n = 0; n < {blocks}; n++) for (int j = n < {turned[0]} ? {turned[1]} : 0; j < {width}; j++)
            {copy}
    }}
}}
""",
            "uint8_t",
        )
