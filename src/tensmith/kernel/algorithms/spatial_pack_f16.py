"""Direct convolution in 16-bit floats: spatial_pack with twice as many filters in a vector.

    y[k,o] = sum(b, r, l; x[b*block + l, o*strides + r*dilations - pads] * w[k, b*block + l, r])

x and y are floats in memory, weights are halves; a vector of x is rounded to halves once for all filters of a
tile. Sums are halves too and widened for the epilogue, so that with u = 2^-11

    |error| <= (depth + 2) u / (1 - (depth + 2) u) * sum |x||w|       (Higham, 2002, eq. 3.5)

unless numbers leave the range of halves: products and sums beyond 65504 become infinite, as they do in ONNX
models of 16-bit floats.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from typing import ClassVar

import numpy as np

from tensmith.errors import EngineError
from tensmith.formula.expr import Formula
from tensmith.kernel.algorithm import SIGNATURE, Array, Cost, Kernel, algorithm
from tensmith.kernel.buffer import Buffer
from tensmith.kernel.epilogue import Epilogue
from tensmith.kernel.formulas import blocked_sum
from tensmith.kernel.groups import wide_groups, widen_groups
from tensmith.kernel.isa import Isa
from tensmith.kernel.problem import ConvolutionProblem
from tensmith.kernel.register_tiles import Chunk, RegisterTiles, cheapest, tilings, vector_step
from tensmith.kernel.tiles import Extent, chunks, read_buffer, walked_extent


@algorithm
@dataclass(frozen=True)
class SpatialPackF16(RegisterTiles):
    """Takes any stride, dilation, group and pad. `blocks` are vectors of halves.

    Groups narrower than a vector are computed as wider ones whose foreign weights are zero.
    """

    name: ClassVar[str] = "spatial_pack_f16"
    dtypes = ("f16",)

    @classmethod
    def lacks(cls, problem: ConvolutionProblem, isa: Isa) -> str | None:
        """Instruction sets that do not multiply halves."""
        return None if isa.has_halves else f"{isa.name} has no instructions for halves here"

    @classmethod
    def candidates(cls, problem: ConvolutionProblem, isa: Isa) -> Iterator[Kernel]:
        """Tiles whose sums, weights and elements fit the registers, cheapest first."""
        yield from cheapest(cls(problem, isa, *tile) for tile in tilings(problem, 2 * isa.lanes, isa.fits))

    @property
    def vector(self) -> int:
        """Halves in a vector."""
        return 2 * self.isa.lanes

    @property
    def source(self) -> Buffer:
        """Blocks of one vector of floats, with the pads that are read as a halo."""
        return read_buffer(self.problem, self.isa.lanes)

    @property
    def target(self) -> Buffer:
        """Blocks of one vector of floats."""
        return Buffer(self.problem.filters, *self.problem.output, self.isa.lanes)

    def formula(self) -> Formula:
        """spatial_pack's, groups joined to fill vectors of halves."""
        return blocked_sum(self.problem, self.vector, self.source)

    def cost(self) -> Cost:
        """A multiply-add, narrowing and loading its operands."""
        groups, channels, filters = wide_groups(self.problem, self.vector)
        depth = channels * math.prod(self.problem.window)
        cycles = self.tile_cycles(
            depth,
            lambda here, blocks: max(here * blocks + here / self.isa.lanes, here * 0.5 + blocks),
            lambda tile, blocks: 4 * math.prod(tile) * blocks,
        )
        weights = 2 * groups * depth * -(-filters // self.vector) * self.vector
        return Cost(cycles, self.source.bytes + self.target.bytes + weights)

    def pack(self, weights: Array) -> Array:
        """[group][chunk of filter blocks][channel block][window][channel in block][filter in chunk]."""
        groups, channels, filters = wide_groups(self.problem, self.vector)
        wide = widen_groups(weights, self.problem.groups, groups)
        full = np.zeros((groups, -(-filters // self.vector) * self.vector, *wide.shape[2:]), np.float16)
        with np.errstate(over="ignore"):
            full[:, :filters] = wide
        if not np.isfinite(full).all():
            raise EngineError(f"a weight of a {self.problem} is beyond 65504, the largest 16-bit float")
        width, block = self.blocks * self.vector, self.isa.lanes
        return np.concatenate([
            group[start : start + width, first : first + block].transpose(2, 3, 1, 0).reshape(-1)
            for group in full
            for start in range(0, len(group), width)
            for first in range(0, channels, block)
        ])  # fmt: skip

    def _parts(self, filters: int) -> list[tuple[int, int, int]]:
        """(vectors of halves, how many such chunks, vectors of floats in one) of all filters."""
        found = [
            (blocks, times, 2 * blocks) for blocks, times in chunks(-(-filters // self.vector), self.blocks)
        ]
        if -(-filters // self.isa.lanes) % 2:
            blocks, times, whole = found.pop()
            found += [*([(blocks, times - 1, whole)] if times > 1 else []), (blocks, 1, whole - 1)]
        return found

    def code(self, name: str, source: Buffer, target: Buffer, epilogue: Epilogue) -> str:
        """One function for each shape of tile, and one that walks over groups, filters and positions."""
        p = self.problem
        _, channels, filters = wide_groups(p, self.vector)
        kept = epilogue.residual or target
        image = walked_extent(p, source, target, kept)
        depth = self.vector * channels * math.prod(p.window)
        parts = [
            Chunk(blocks, times, stored, blocks * depth, stored)
            for blocks, times, stored in self._parts(filters)
        ]
        read = f"x + i * {p.strides[0] * source.row} + j * {p.strides[1] * source.block}"
        add, write = (f"i * {buffer.row} + j * {buffer.block}" for buffer in (kept, target))
        entry = f"""\
static void {name}({SIGNATURE})
{{
    const float *x = (const float *)in + {source.address(0, -p.pads[0], -p.pads[1])}, *b = bias;
    const half *w = weights;
    float *y = (float *)out + {target.address(0, 0, 0)};
    const float *r = {f"(const float *)residual + {kept.address(0, 0, 0)}" if epilogue.residual else "y"};
    (void)residual; (void)scratch;"""
        return self.walk(
            name, partial(self._tile, name, source, target, epilogue), entry,
            channels // source.block * source.plane, image, parts, f"{read}, w, b, r + {add}, y + {write}",
            target, epilogue, self.isa.lanes if epilogue.bias else 0,
        )  # fmt: skip

    def _tile(
        self, name: str, source: Buffer, target: Buffer, epilogue: Epilogue, tile: Extent, blocks: int,
        stored: int,
    ) -> str:  # fmt: skip
        """The register tile: all channels and window positions of `tile` positions and `blocks` blocks."""
        lanes = self.isa.lanes
        rows, columns = tile
        whole, rest = divmod(wide_groups(self.problem, self.vector)[1], source.block)
        kept = epilogue.residual or target
        add, at = (
            f"i * {buffer.row} + j * {buffer.block} + k * {vector_step(buffer, lanes)}"
            for buffer in (kept, target)
        )
        sums = "half_of(a[i][j][k / 2], k % 2)"
        value = epilogue.apply(sums, f"load(b + k * {lanes})", f"load(r + {add})")
        steps = self._steps(tile, blocks, whole, source.block, source) if whole else ""
        steps += self._steps(tile, blocks, 1, rest, source) if rest else ""
        return f"""\
static void {name}_{rows}x{columns}x{blocks}_{stored}(const float *restrict x, const half *restrict w,
        const float *b, const float *r, float *y)
{{
    vh a[{rows}][{columns}][{blocks}];
    (void)b; (void)r;
    UNROLL for (int i = 0; i < {rows}; i++) UNROLL for (int j = 0; j < {columns}; j++)
        UNROLL for (int k = 0; k < {blocks}; k++) a[i][j][k] = (vh){{0}};
{steps}    UNROLL for (int i = 0; i < {rows}; i++) UNROLL for (int j = 0; j < {columns}; j++)
        UNROLL for (int k = 0; k < {stored}; k++)
            store(y + {at}, {value});
}}
"""

    def _steps(self, tile: Extent, blocks: int, count: int, channels: int, source: Buffer) -> str:
        """The multiply-adds of `count` blocks of which `channels` exist."""
        p, (rows, columns) = self.problem, tile
        taps = f"u * {p.dilations[0] * source.row} + v * {p.dilations[1] * source.block}"
        element = f"i * {p.strides[0] * source.row} + j * {p.strides[1] * source.block}"
        return f"""\
    for (int cb = 0; cb < {count}; cb++, x += {source.plane})
    for (int u = 0; u < {p.window[0]}; u++)
    for (int v = 0; v < {p.window[1]}; v++) {{
        const float *t = x + {taps};
        vq e[{rows}][{columns}];
        UNROLL for (int i = 0; i < {rows}; i++) UNROLL for (int j = 0; j < {columns}; j++)
            e[i][j] = narrow(load(t + {element}));
        UNROLL for (int c = 0; c < {channels}; c++, w += {blocks * self.vector}) {{
            vh f[{blocks}];
            UNROLL for (int k = 0; k < {blocks}; k++) f[k] = hload(w + k * {self.vector});
            UNROLL for (int i = 0; i < {rows}; i++) UNROLL for (int j = 0; j < {columns}; j++)
                UNROLL for (int k = 0; k < {blocks}; k++) a[i][j][k] += e[i][j][c] * f[k];
        }}
    }}
"""
