"""Winograd's minimal filtering of large filters: they are kept as they are and transformed at every run.

Transformed filters are (n / t)^2 times as large, 4 times at F(4x4, 3x3). Where no cache holds them, to read
them takes longer than to transform them in the second cache, some channels of one chunk of filters at a time;
and they need no more memory than the definition. NNPACK names these strategies "compute" and "precompute".

The bound of `winograd` holds: G g G^T, computed in floats, adds 2 (t + 1) eps at most, and with the other two
transforms stays below 8 n eps.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from tensmith.formula.arith import Array
from tensmith.kernel.algorithm import Cost, Kernel, algorithm
from tensmith.kernel.algorithms.winograd import NEAR, Winograd, tile_count
from tensmith.kernel.cook_toom import rows_code
from tensmith.kernel.isa import Isa
from tensmith.kernel.problem import ConvolutionProblem
from tensmith.kernel.tile_transforms import lines

# What the transformed filters of a slice, and their products with a chunk, may take of the second cache.
_FILTER_BYTES, _PRODUCT_BYTES = 256 << 10, 384 << 10
# Transformed tiles are read once a chunk, well ahead: they may lie in the third cache.
_TILE_BYTES = 8 << 20
# Lines that are fetched into the first cache at once; more would keep its misses waiting.
_BURST = 16


@algorithm("winograd_on_the_fly")
@dataclass(frozen=True)
class WinogradOnTheFly(Winograd):
    """`winograd` at stride 1 that transforms the filters of `slice` channels and one chunk at a time."""

    slice: int

    @classmethod
    def lacks(cls, problem: ConvolutionProblem, isa: Isa) -> str | None:
        """What `winograd` refuses, and strides."""
        return "it takes stride 1" if problem.strides != (1, 1) else super().lacks(problem, isa)

    @classmethod
    def _grouped(
        cls, problem: ConvolutionProblem, isa: Isa, size: int, positions: int, blocks: int
    ) -> Iterator[Kernel]:
        """Groups as large as the caches allow: each one transforms all filters again."""
        area = (size + problem.window[0] - 1) ** 2
        channels = isa.round_up(problem.channels)
        most = min(_PRODUCT_BYTES // (blocks * isa.bytes), _TILE_BYTES // (4 * channels)) // area
        slice_ = min(channels, _FILTER_BYTES // (area * blocks * isa.bytes) // isa.lanes * isa.lanes)
        if slice_ and most >= positions:
            register_tiles = math.ceil(tile_count(problem, size) / positions)
            groups = math.ceil(register_tiles / (most // positions))
            group = math.ceil(register_tiles / groups) * positions
            yield cls(problem, isa, size, group, positions, blocks, slice_)

    @property
    def _filter_floats(self) -> int:
        """From one of the transformed filters' matrices to the next: a vector more, against cache sets."""
        return self.slice * self.blocks * self.isa.lanes + self.isa.lanes

    @property
    def _filter_bytes(self) -> int:
        """What the transformed filters of a slice take."""
        return 4 * self._area * self._filter_floats

    @property
    def scratch_bytes(self) -> int:
        """Transformed tiles, their products with one chunk, and the transformed filters of a slice."""
        return super().scratch_bytes + self._filter_bytes

    @property
    def weight_bytes(self) -> int:
        """The filters as they are, in whole vectors."""
        return 4 * self.problem.depth * self.target.blocks * self.isa.lanes

    def cost(self) -> Cost:
        """That of `winograd`, with the filters' transforms, and sums that are loaded and stored by slices."""
        p, n, filters = self.problem, self._points, self.weight_bytes
        tiles = tile_count(p, self.size)
        groups, slices = -(-tiles // self.group), -(-p.channels // self.slice)
        chunk_count = -(-self.target.blocks // self.blocks)
        cycles = super().cost().cycles
        cycles += 3 * n * n * groups * self.target.blocks * p.channels
        cycles += 4 * (slices - 1) * tiles * self.target.blocks * n * n
        read_again = chunk_count * 4 * self._area * self._spectrum * groups
        around = self.source.bytes + self.target.bytes
        return Cost(cycles, around + filters + NEAR * ((groups - 1) * filters + read_again))

    def pack(self, weights: Array) -> Array:
        """[chunk of filter blocks][channel][window][filter in chunk]."""
        lanes, p = self.isa.lanes, self.problem
        full = np.zeros((self.target.blocks * lanes, p.channels, *p.window), np.float32)
        full[: p.filters] = weights
        width = self.blocks * lanes
        chunks = (full[start : start + width] for start in range(0, len(full), width))
        return np.concatenate([chunk.transpose(1, 2, 3, 0).reshape(-1) for chunk in chunks])

    def _products(self, name: str, blocks: int) -> str:
        """Slice by slice: filters are transformed into u, then all products of the group's tiles.

        Before each product a share of the next slice's filters is fetched, which memory has time for then.
        """
        lanes, area, channels = self.isa.lanes, self._area, self.problem.channels
        step = self._phases.taps**2 * blocks * lanes
        vectors, products = self.slice * step // lanes, area * self.group // self.positions
        share = math.ceil(vectors / products) * lanes
        fetch = "FETCH" if share <= _BURST * lanes else "FETCH_FAR"
        return f"""\
            for (int c = 0; c < {channels}; c += {self.slice}) {{
                int end = {channels} - c < {self.slice} ? {channels} : c + {self.slice};
                float *u = m + {area * self.blocks * self.group * lanes};
                {name}_filters_{blocks}(w, end - c, u);
                w += (end - c) * {step};
                const float *next = w;
                for (int q = 0; q < {area}; q++, u += {self._filter_floats})
                    for (int t = 0; t < count; t += {self.positions}, next += {share}) {{
                        for (int i = 0; i < {share}; i += {lanes}) {fetch}(next + i);
                        {name}_product_{blocks}(v + q * {self._spectrum} + t * {lanes}, c, end, u,
                            m + (t * {area} + q) * {lanes});
                    }}
            }}"""

    def _chunk(self, name: str, blocks: int) -> str:
        """Products that begin at those of the channels before, and the filters' transform."""
        begin = f"start ? load(m + (k * {self.group} + j) * {self._area * self.isa.lanes}) : splat(0)"
        return self._product(name, blocks, begin) + self._filters(name, blocks)

    def _filters(self, name: str, blocks: int) -> str:
        """G g G^T of one chunk, `count` channels of it."""
        n, taps, matrix = self._points, self._phases.taps, self.transforms.filter_matrix
        lanes, width = self.isa.lanes, blocks * self.isa.lanes
        columns = lines(matrix, rows_code, [f"x[{i}]" for i in range(taps)], [f"d[{i}][j]" for i in range(n)])
        rows = lines(matrix, rows_code, [f"d[i][{j}]" for j in range(taps)], [f"y[{j}]" for j in range(n)])
        return f"""\
static void {name}_filters_{blocks}(const float *restrict w, int count, float *restrict u)
{{
    for (int c = 0; c < count; c++, w += {taps * taps * width}, u += {width})
    for (int k = 0; k < {width}; k += {lanes}) {{
        vf d[{n}][{taps}], x[{taps}], y[{n}];
        UNROLL for (int j = 0; j < {taps}; j++) {{
            UNROLL for (int i = 0; i < {taps}; i++) x[i] = load(w + (i * {taps} + j) * {width} + k);
            {columns}
        }}
        UNROLL for (int i = 0; i < {n}; i++) {{
            {rows}
            UNROLL for (int j = 0; j < {n}; j++) store(u + (i * {n} + j) * {self._filter_floats} + k, y[j]);
        }}
    }}
}}
"""
