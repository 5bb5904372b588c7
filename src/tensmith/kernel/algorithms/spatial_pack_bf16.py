"""Direct convolution in bfloat16, summed in floats: spatial_pack over pairs of channels.

    y[k,o] = sum(b, r, l; x[b*block + l, o*strides + r*dilations - pads] * w[k, b*block + l, r])

x and y are floats in memory. x is first rounded into scratch memory, so that each of its elements is rounded
once; weights are rounded when they are packed. With u = 2^-8 (bfloat16) and v = 2^-24 (float)

    |error| <= ((1 + u)^2 (1 + (depth + 2) v) - 1) * sum |x||w|          (Higham, 2002, eq. 3.5)

which is about 2^-7 of that sum. The instruction (VDPBF16PS, Intel SDM vol. 2) rounds to nearest even
whatever the mode is, and takes and makes zero in place of numbers below 2^-126; what is not finite stays so.
Weights beyond 3.39e38 become infinite.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from typing import ClassVar

import ml_dtypes
import numpy as np

from tensmith.kernel.algorithm import SIGNATURE, Array, Cost, Kernel, algorithm
from tensmith.kernel.buffer import Buffer
from tensmith.kernel.epilogue import Epilogue
from tensmith.kernel.groups import wide_groups, widen_groups
from tensmith.kernel.isa import Isa
from tensmith.kernel.problem import ConvolutionProblem
from tensmith.kernel.register_tiles import (
    Chunk,
    RegisterTiles,
    cheapest,
    layouts,
    store_tile,
    tilings,
    vector_step,
)
from tensmith.kernel.tiles import Extent, load_weights, read_buffer, vector_chunks, walked_extent

# Cycles to load a vector of floats, to round and to store it.
_ROUNDING = 2
# With fewer channels than these, most of a block would be zeros.
_FEW_CHANNELS = 8
_ALIGNMENT = 64


@algorithm
@dataclass(frozen=True)
class SpatialPackBf16(RegisterTiles):
    """Takes any stride, dilation, group and pad. `block` is the source's, in channels, as spatial_pack's.

    Groups narrower than a vector are computed as wider ones whose foreign weights are zero.
    """

    name: ClassVar[str] = "spatial_pack_bf16"
    dtypes = ("bf16",)

    block: int

    @classmethod
    def lacks(cls, problem: ConvolutionProblem, isa: Isa) -> str | None:
        """Few channels, instruction sets that do not multiply bfloat16."""
        if problem.channels < _FEW_CHANNELS:
            return f"{problem.channels} channels fill no block"
        return None if isa.has_bfloat else f"{isa.name} has no instructions for bfloat16 here"

    @classmethod
    def candidates(cls, problem: ConvolutionProblem, isa: Isa) -> Iterator[Kernel]:
        """Tiles that fit the registers, cheapest first."""

        def fits(positions: int, blocks: int) -> bool:
            return positions * blocks + blocks + 1 < isa.registers

        for block in layouts(problem, isa.lanes):
            yield from cheapest(cls(problem, isa, *tile, block) for tile in tilings(problem, isa.lanes, fits))

    @property
    def source(self) -> Buffer:
        """Blocks of one vector or rows of floats, with the pads that are read as a halo."""
        return read_buffer(self.problem, self.block)

    @property
    def _rounded(self) -> Buffer:
        """x in scratch memory, in blocks of one vector however the source lies."""
        return read_buffer(self.problem, self.isa.lanes, "bf16")

    @property
    def target(self) -> Buffer:
        """One vector a block, or rows."""
        in_rows = self.problem.height == 1 and self.block != self.isa.lanes
        block = self.problem.filters if in_rows else self.isa.lanes
        return Buffer(self.problem.filters, *self.problem.output, block)

    @property
    def scratch_bytes(self) -> int:
        """x rounded."""
        return -(-self._rounded.bytes // _ALIGNMENT) * _ALIGNMENT

    def cost(self) -> Cost:
        """A product of pairs or what it takes to load them, and the cycles to round x."""
        lanes = self.isa.lanes
        groups, channels, filters = wide_groups(self.problem, lanes)
        pairs = -(-channels // 2) * math.prod(self.problem.window)
        cycles = self.tile_cycles(
            pairs,
            lambda here, blocks: max(here * blocks, here * 0.5 + blocks),
            lambda tile, blocks: 2 * math.prod(tile) * blocks,
        )
        rounding = _ROUNDING * self.source.size / lanes
        weights = 4 * groups * pairs * self.isa.round_up(filters)
        return Cost(cycles + rounding, self.source.bytes + self.target.bytes + weights)

    def pack(self, weights: Array) -> Array:
        """[group][chunk of filter blocks][channel block][window][pair in block][filter in chunk][2]."""
        lanes = self.isa.lanes
        groups, channels, filters = wide_groups(self.problem, lanes)
        wide = widen_groups(weights, self.problem.groups, groups)
        shape = (groups, self.isa.round_up(filters), channels + channels % 2, *wide.shape[3:])
        full = np.zeros(shape, ml_dtypes.bfloat16)
        full[:, :filters, :channels] = wide
        paired = full.reshape(*shape[:2], -1, 2, *shape[3:])
        width, step = self.blocks * lanes, lanes // 2
        return np.concatenate([
            group[start : start + width, first : first + step].transpose(3, 4, 1, 0, 2).reshape(-1)
            for group in paired
            for start in range(0, paired.shape[1], width)
            for first in range(0, paired.shape[2], step)
        ])  # fmt: skip

    def code(self, name: str, source: Buffer, target: Buffer, epilogue: Epilogue) -> str:
        """A function that rounds x, one for each shape of tile, one that walks over all of it."""
        p, lanes, rounded = self.problem, self.isa.lanes, self._rounded
        _, channels, filters = wide_groups(p, lanes)
        kept = epilogue.residual or target
        image = walked_extent(p, target, kept)
        depth = lanes * -(-channels // 2) * math.prod(p.window)
        # Rows end where they end; whatever lies in blocks has room for a whole vector.
        parts = [
            Chunk(blocks, times, last, blocks * depth, blocks)
            for blocks, times, last in vector_chunks(filters, self.blocks, lanes, target.block != lanes)
        ]
        read = f"x + (i * {p.strides[0] * rounded.row} + j * {p.strides[1] * rounded.block}) / 2"
        add, write = (f"i * {buffer.row} + j * {buffer.block}" for buffer in (kept, target))
        entry = f"""\
static void {name}({SIGNATURE})
{{
    const quad *x = scratch;
    const float *w = weights, *b = bias;
    float *y = (float *)out + {target.address(0, 0, 0)};
    const float *r = {f"(const float *)residual + {kept.address(0, 0, 0)}" if epilogue.residual else "y"};
    (void)residual;
    {name}_round((const float *)in + {source.address(0, -rounded.halo.top, -rounded.halo.left)}, scratch);"""
        walk = self.walk(
            name, partial(self._tile, name, target, epilogue), entry,
            channels // lanes * rounded.plane // 2, image, parts, f"{read}, w, b, r + {add}, y + {write}",
            target, epilogue, lanes if epilogue.bias else 0,
        )  # fmt: skip
        return f"{self._round(name, source)}\n{walk}"

    def _round(self, name: str, source: Buffer) -> str:
        """C that rounds x, halo included; lanes past the last channel become zero, for the pair's sake."""
        rounded, lanes = self._rounded, self.isa.lanes
        rows, columns = rounded.plane // rounded.row, rounded.row // rounded.block
        full, rest = divmod(self.problem.channels, lanes)
        step = vector_step(source, lanes)
        nests = [
            f"""\
    for (int n = 0; n < {count}; n++, x += {step}, y += {rounded.plane})
        for (int i = 0; i < {rows}; i++) for (int j = 0; j < {columns}; j++)
            put_bf16(y + i * {rounded.row} + j * {lanes}, {read});
"""
            for count, read in (
                (full, f"load(x + i * {source.row} + j * {source.block})"),
                (1 if rest else 0, f"load_part(x + i * {source.row} + j * {source.block}, {rest})"),
            )
            if count
        ]
        return f"static void {name}_round(const float *x, uint16_t *y)\n{{\n{''.join(nests)}}}\n"

    def _tile(
        self, name: str, target: Buffer, epilogue: Epilogue, tile: Extent, blocks: int, last: int
    ) -> str:
        """The register tile: all channels and window positions of `tile` positions and `blocks` blocks."""
        p, lanes, rounded = self.problem, self.isa.lanes, self._rounded
        rows, columns = tile
        pairs, most = -(-wide_groups(p, lanes)[1] // 2), lanes // 2
        full, rest = divmod(pairs, most)
        limit = f"(cb < {full} ? {most} : {rest})" if rest and full else rest or most
        taps = f"(u * {p.dilations[0] * rounded.row} + v * {p.dilations[1] * rounded.block}) / 2"
        element = f"(i * {p.strides[0] * rounded.row} + j * {p.strides[1] * rounded.block}) / 2 + c"
        return f"""\
static void {name}_{rows}x{columns}x{blocks}_{last}(const quad *restrict x, const float *restrict w,
        const float *b, const float *r, float *y)
{{
    vf a[{rows}][{columns}][{blocks}];
    (void)b; (void)r;
    UNROLL for (int i = 0; i < {rows}; i++) UNROLL for (int j = 0; j < {columns}; j++)
        UNROLL for (int k = 0; k < {blocks}; k++) a[i][j][k] = splat(0);
    for (int cb = 0; cb < {full + bool(rest)}; cb++, x += {rounded.plane // 2})
    for (int u = 0; u < {p.window[0]}; u++)
    for (int v = 0; v < {p.window[1]}; v++) {{
        const quad *t = x + {taps};
        UNROLL_4 for (int c = 0; c < {limit}; c++, w += {blocks * lanes}) {{
            vf f[{blocks}];
            {load_weights(rows * columns, blocks, lanes, 2 * p.filters * p.depth)}
            UNROLL for (int i = 0; i < {rows}; i++) UNROLL for (int j = 0; j < {columns}; j++) {{
                int32_t e = t[{element}];
                UNROLL for (int k = 0; k < {blocks}; k++) a[i][j][k] = dot_bf16(a[i][j][k], e, f[k]);
            }}
        }}
    }}
{store_tile(tile, blocks, last, target, epilogue, lanes)}}}
"""
