"""Convolution in bfloat16 by matrix instructions: tiles of 16 positions by 16 filters.

    sums[p,k] += sum(e < 32; x[p,e] * w[k,e])        for all p, k < 16

is TDPBF16PS (Intel SDM vol. 2). x and y are floats in memory; x is first rounded into scratch memory, all
channels of a position beside each other, so that a row of the window is one run. Products and sums are
rounded as those of spatial_pack are, whose bound of the error holds here too.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import ml_dtypes

from tensmith.kernel.algorithm import Kernel, algorithm
from tensmith.kernel.buffer import Buffer, aligned
from tensmith.kernel.isa import Isa
from tensmith.kernel.problem import ConvolutionProblem
from tensmith.kernel.register_tiles import layouts, store_tile, vector_step
from tensmith.kernel.tile_products import (
    TILE_BYTES,
    Distances,
    FilterChunk,
    TileElements,
    TileProducts,
)
from tensmith.kernel.tiles import Extent, output_extent, read_buffer

# Elements of a tile's row.
_MOST = TILE_BYTES // 2
# Cycles to load a vector of floats, to round and to store it; to finish and to store one.
_ROUNDING, _STORING = 2, 2


@algorithm("amx_bf16")
@dataclass(frozen=True)
class AmxBf16(TileProducts):
    """Takes any stride and pad, dilation down alone. `block` is the source's: one vector, or rows of all
    channels, and then y has rows too.
    """

    dtypes = ("bf16",)
    elements = TileElements("_tile_dpbf16ps", 2, "uint16_t", "uint16_t", "float", ml_dtypes.bfloat16)

    block: int

    @classmethod
    def lacks(cls, problem: ConvolutionProblem, isa: Isa) -> str | None:
        """Processors without the instructions; groups; windows whose columns are apart."""
        if not isa.has_bfloat_tiles:
            return f"{isa.name} has no instructions for tiles of bfloat16 here"
        if problem.groups > 1:
            return "it has groups"
        return "its window is dilated along rows" if problem.dilations[1] > 1 else None

    @classmethod
    def candidates(cls, problem: ConvolutionProblem, isa: Isa) -> Iterator[Kernel]:
        """What fits the registers, cheapest first."""
        for block in layouts(problem, isa.lanes):
            yield from cls.cheapest(problem, isa, block)

    @property
    def _in_rows(self) -> bool:
        """Whether positions lie as rows of all channels."""
        return self.block != self.isa.lanes

    @property
    def source(self) -> Buffer:
        """Blocked, or rows; with a halo."""
        return read_buffer(self.problem, self.block)

    @property
    def target(self) -> Buffer:
        """As the source."""
        p = self.problem
        return Buffer(p.filters, *p.output, p.filters if self._in_rows else self.isa.lanes)

    @property
    def _pitch(self) -> int:
        """Elements of a position in scratch memory: pairs of which pieces of one size make a run."""
        channels, wide = self.problem.channels, self.problem.window[1]

        def count(pitch: int) -> int:
            return -(-wide * pitch // _MOST)

        pitches = range(channels + channels % 2, channels + _MOST + 1, 2)
        return min((one for one in pitches if wide * one % (2 * count(one)) == 0), key=count)

    @property
    def over(self) -> tuple[int, int, int]:
        """All channels are one block."""
        tall, wide = self.problem.window
        return 1, tall, wide * self._pitch

    @property
    def pieces(self) -> tuple[int, int]:
        """All of one size."""
        run = self.over[2]
        count = -(-run // _MOST)
        return count, run // count

    @property
    def _copied(self) -> Extent:
        """Rows and columns of positions in scratch memory: those that one-position windows read, else all."""
        p, source = self.problem, self.source
        if p.window == (1, 1):
            return p.output
        return source.plane // source.row, source.row // source.block

    @property
    def scratch_bytes(self) -> int:
        """x rounded, and what the last vector holds beyond."""
        return aligned(2 * (math.prod(self._copied) * self._pitch + self.isa.lanes))

    @property
    def bias_elements(self) -> int:
        """One a filter."""
        return self.isa.lanes

    @property
    def prepare_cycles(self) -> float:
        """To round x."""
        return _ROUNDING * math.prod(self._copied) * -(-self._pitch // self.isa.lanes)

    def finish_cycles(self, tiles: int, length: int, blocks: int) -> float:
        """A vector after the other."""
        return _STORING * tiles * length * blocks

    def reads_flat(self, source: Buffer) -> bool:
        """What one-position windows read is copied beside each other."""
        return self.problem.window == (1, 1)

    def distances(self, source: Buffer, width: int) -> Distances:
        """In scratch memory."""
        p, pitch = self.problem, self._pitch
        if p.window == (1, 1):
            return Distances(width * pitch, pitch, 0, 0, 0)
        row = self._copied[1] * pitch
        return Distances(p.strides[0] * row, p.strides[1] * pitch, 0, p.dilations[0] * row, 0)

    def begins(self, register: int, vector: int) -> str:
        """With zero: the bias is added at the end."""
        return f"_tile_zero({register});"

    def finished(self, part: FilterChunk, positions: int) -> str:
        """As floats."""
        return store_tile((1, positions), part.blocks, part.last, part.target, part.epilogue, self.isa.lanes)

    def prepared(self, name: str, source: Buffer) -> tuple[str, str]:
        """x rounded, position by position: what a vector holds beyond its position is written over by the
        next one's."""
        p, lanes, pitch = self.problem, self.isa.lanes, self._pitch
        (rows, columns), (down, along) = self._copied, p.strides
        if p.window == (1, 1):
            rows, columns = output_extent(p, p.pointwise and source.flat)
        else:
            down, along = 1, 1
        (full, rest), step = divmod(p.channels, lanes), vector_step(source, lanes)
        stores = [f"for (int n = 0; n < {full}; n++) put_bf16(y + n * {lanes}, load(s + n * {step}));"]
        if rest:
            stores.append(f"put_bf16(y + {full * lanes}, load_part(s + {full * step}, {rest}));")
        at = (full + bool(rest)) * lanes
        stores += [f"put_bf16(y + {past}, splat(0));" for past in range(at, pitch, lanes)]
        return (
            f"""\
static void {name}(const float *restrict x, uint16_t *restrict y)
{{
    for (int i = 0; i < {rows}; i++, x += {down * source.row}) {{
        const float *s = x;
        for (int j = 0; j < {columns}; j++, s += {along * source.block}, y += {pitch}) {{
            {(chr(10) + " " * 12).join(stores)}
        }}
    }}
}}
""",
            "uint16_t",
        )
