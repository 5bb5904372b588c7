"""Direct convolution over blocked channels: a register tile of positions x filter blocks.

    y[k,o] = sum(b, r, l < block; x[b*block + l, o*strides + r*dilations - pads] * w[k, b*block + l, r])

One weight vector holds as many filters as there are lanes; each of its uses multiplies it by one broadcast
element of x, so a tile of P positions and B blocks does P*B multiply-adds for P + B loads. "Spatial pack" is
the name that TVM gave to the layout (Chen et al., OSDI 2018); Georganas et al., SC 2018, argue the tile.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from typing import ClassVar

import numpy as np

from tensmith.kernel.algorithm import SIGNATURE, Array, Cost, Kernel, algorithm
from tensmith.kernel.buffer import Buffer
from tensmith.kernel.epilogue import Epilogue
from tensmith.kernel.groups import wide_groups, widen_groups
from tensmith.kernel.isa import Isa
from tensmith.kernel.problem import ConvolutionProblem
from tensmith.kernel.register_tiles import Chunk, RegisterTiles, cheapest, layouts, store_tile, tilings
from tensmith.kernel.tiles import Extent, load_weights, read_buffer, vector_chunks, walked_extent

_FEW_CHANNELS = 8
# Reading planes, compilers spill what fills all registers, and every element is a load of its own.
_PLANE_REGISTERS = 0.75
# From so many blocks of channels on it pays to fetch the next one: behind the last there is none.
_MANY_BLOCKS = 16
# Rows that lie this many bytes apart share the few places of one line in the first cache.
_CACHE_SPAN, _CACHE_WAYS = 4096, 8


@algorithm
@dataclass(frozen=True)
class SpatialPack(RegisterTiles):
    """Takes any stride, dilation, group and pad. `block` is the source's, in channels.

    A block of all channels reads a matrix product's rows as they lie, and writes rows too.

    Groups narrower than a vector are computed as wider ones whose foreign weights are zero; there an infinity
    in one channel makes its neighbours NaN.
    """

    name: ClassVar[str] = "spatial_pack"
    adds_in_place: ClassVar[bool] = True

    block: int

    @classmethod
    def candidates(cls, problem: ConvolutionProblem, isa: Isa) -> Iterator[Kernel]:
        """Tiles that fit the registers, cheapest first; few channels are read as planes."""
        few = problem.channels < _FEW_CHANNELS and problem.groups == 1
        for block in layouts(problem, 1 if few else isa.lanes):
            fits = partial(isa.fits, share=_PLANE_REGISTERS if block == 1 else 1)
            yield from cheapest(cls(problem, isa, *tile, block) for tile in tilings(problem, isa.lanes, fits))

    @property
    def rank(self) -> tuple[float, ...]:
        """Cycles; of equals, the one whose first tile has most to do while weights arrive."""
        return self.cost().cycles, -self.positions * self.blocks

    @property
    def source(self) -> Buffer:
        """Blocked, with the pads that are read as a halo."""
        return read_buffer(self.problem, self.block)

    @property
    def target(self) -> Buffer:
        """One vector a block, or rows."""
        block = self.problem.filters if self._in_rows else self.isa.lanes
        return Buffer(self.problem.filters, *self.problem.output, block)

    @property
    def _in_rows(self) -> bool:
        """Whether positions lie as rows of all channels."""
        return self.problem.height == 1 and self.block not in (1, self.isa.lanes)

    def cost(self) -> Cost:
        """A multiply-add, or what it takes to load its operands."""
        groups, channels, filters = wide_groups(self.problem, self.isa.lanes)
        depth = channels * math.prod(self.problem.window)
        load = self._load_cycles
        cycles = self.tile_cycles(
            depth,
            lambda here, blocks: max(here * blocks, here * load + blocks),
            lambda tile, blocks: 2 * math.prod(tile) * blocks,
        )
        moved = 4 * (self.source.size + self.target.size + groups * depth * self.isa.round_up(filters))
        return Cost(cycles, moved)

    @property
    def _load_cycles(self) -> float:
        """Cycles to load and broadcast one element."""
        if self._in_rows:
            row = 4 * self.problem.channels
            together = self.positions * math.gcd(row, _CACHE_SPAN) / _CACHE_SPAN
            if together > _CACHE_WAYS:
                return 3
            return 0.5 if self.positions * row <= _CACHE_WAYS * _CACHE_SPAN else 2
        return 1.5 if self.block == 1 else 0.5

    def pack(self, weights: Array) -> Array:
        """[group][chunk of filter blocks][channel block][window][channel in block][filter in chunk]."""
        lanes = self.isa.lanes
        groups, channels, filters = wide_groups(self.problem, lanes)
        wide = widen_groups(weights, self.problem.groups, groups)
        full = np.zeros((groups, self.isa.round_up(filters), *wide.shape[2:]), np.float32)
        full[:, :filters] = wide
        width = self.blocks * lanes
        return np.concatenate([
            group[start : start + width, first : first + self.block].transpose(2, 3, 1, 0).reshape(-1)
            for group in full
            for start in range(0, len(group), width)
            for first in range(0, channels, self.block)
        ])  # fmt: skip

    def code(self, name: str, source: Buffer, target: Buffer, epilogue: Epilogue) -> str:
        """One function for each shape of tile, and one that walks over groups, filters and positions."""
        p, lanes = self.problem, self.isa.lanes
        _, channels, filters = wide_groups(p, lanes)
        kept = epilogue.residual or target
        image = walked_extent(p, source, target, kept)
        depth = lanes * channels * math.prod(p.window)
        # Rows end where they end; whatever lies in blocks has room for a whole vector.
        parts = [
            Chunk(blocks, times, last, blocks * depth, blocks)
            for blocks, times, last in vector_chunks(filters, self.blocks, lanes, target.block != lanes)
        ]
        read = f"x + i * {p.strides[0] * source.row} + j * {p.strides[1] * source.block}"
        add, write = (f"i * {buffer.row} + j * {buffer.block}" for buffer in (kept, target))
        entry = f"""\
static void {name}({SIGNATURE})
{{
    const float *x = (const float *)in + {source.address(0, -p.pads[0], -p.pads[1])}, *w = weights, *b = bias;
    float *y = (float *)out + {target.address(0, 0, 0)};
    const float *r = {f"(const float *)residual + {kept.address(0, 0, 0)}" if epilogue.residual else "y"};
    (void)residual; (void)scratch;"""
        return self.walk(
            name, partial(self._tile, name, source, target, epilogue), entry,
            channels // self.block * source.plane, image, parts, f"{read}, w, b, r + {add}, y + {write}",
            target, epilogue, lanes if epilogue.bias else 0,
        )  # fmt: skip

    def _next_block(self, tile: Extent, source: Buffer) -> str:
        """C that fetches a tile's next block of channels: it lies a plane away, where no prefetcher looks."""
        down, across = self.problem.strides[0] * source.row, self.problem.strides[1] * source.block
        each = f"UNROLL for (int i = 0; i < {tile[0]}; i++) UNROLL for (int j = 0; j < {tile[1]}; j++)"
        return f"\n        {each} FETCH(x + {source.plane} + i * {down} + j * {across});"

    def _tile(
        self, name: str, source: Buffer, target: Buffer, epilogue: Epilogue, tile: Extent, blocks: int,
        last: int,
    ) -> str:  # fmt: skip
        """The register tile: all channels and window positions of `tile` positions and `blocks` blocks."""
        p, lanes = self.problem, self.isa.lanes
        rows, columns = tile
        full, rest = divmod(wide_groups(p, lanes)[1], source.block)
        limit = f"(cb < {full} ? {source.block} : {rest})" if rest and full else rest or source.block
        taps = f"u * {p.dilations[0] * source.row} + v * {p.dilations[1] * source.block}"
        element = f"i * {p.strides[0] * source.row} + j * {p.strides[1] * source.block} + c"
        deep = p.window == (1, 1) and source.block == lanes and source.blocks >= _MANY_BLOCKS
        ahead = self._next_block(tile, source) if deep else ""
        return f"""\
static void {name}_{rows}x{columns}x{blocks}_{last}(const float *restrict x, const float *restrict w,
        const float *b, const float *r, float *y)
{{
    vf a[{rows}][{columns}][{blocks}];
    (void)b; (void)r;
    UNROLL for (int i = 0; i < {rows}; i++) UNROLL for (int j = 0; j < {columns}; j++)
        UNROLL for (int k = 0; k < {blocks}; k++) a[i][j][k] = splat(0);
    for (int cb = 0; cb < {full + bool(rest)}; cb++, x += {source.plane})
    for (int u = 0; u < {p.window[0]}; u++)
    for (int v = 0; v < {p.window[1]}; v++) {{
        const float *t = x + {taps};{ahead}
        UNROLL_4 for (int c = 0; c < {limit}; c++, w += {blocks * lanes}) {{
            vf f[{blocks}];
            {load_weights(rows * columns, blocks, lanes, 4 * p.filters * p.depth)}
            UNROLL for (int i = 0; i < {rows}; i++) UNROLL for (int j = 0; j < {columns}; j++) {{
                float e = t[{element}];
                UNROLL for (int k = 0; k < {blocks}; k++) a[i][j][k] += e * f[k];
            }}
        }}
    }}
{store_tile(tile, blocks, last, target, epilogue, lanes)}}}
"""
