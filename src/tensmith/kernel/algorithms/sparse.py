"""Convolution by sparse weights: zeros cost nothing, wherever they lie.

    rows[(c,r), o] = x[c, o*strides + r*dilations - pads]
    y[k,o] = sum(n < count[k]; value[k,n] * rows[place[k,n], o])

Lanes are positions: a weight that is not zero is broadcast and multiplies whole vectors of one row. The rows
of a tile of positions are gathered first, so that any window is a matrix product whose right side lies dense
and aligned in the nearest cache; where not all rows fit there, they come in blocks of channels, and sums wait
in scratch memory between two blocks. The weights are read once for each tile, as a `sparse_stream`: they are
compressed rows (CSR), data like any other. A compiled kernel takes any pattern of zeros and any number of
them; how dense weights are decides only which kernel is chosen.
Elsen et al., "Fast Sparse ConvNets", CVPR 2020, do the same for 1x1 windows, without the gathering.

Where the zeros of neighbouring filters lie together (BSR: blocks of 4x1, 16x1, 4x4), a row is loaded once
for four filters, which is 1.25 times as fast on the layers of ResNet-50 at 90 % zeros. N:M patterns are zeros
like any others: rows need no regular distance.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from tensmith.formula.arith import Array
from tensmith.kernel.algorithm import Cost, Kernel, algorithm
from tensmith.kernel.buffer import Buffer
from tensmith.kernel.epilogue import Epilogue
from tensmith.kernel.isa import Isa
from tensmith.kernel.problem import ConvolutionProblem
from tensmith.kernel.runs import copy_run, pieces, vector_types
from tensmith.kernel.sparse_stream import pack_stream
from tensmith.kernel.stream_kernel import StreamKernel
from tensmith.kernel.tiles import Extent, output_extent, tiles

_MOST_VECTORS = 8
_MOST_CANDIDATES = 8
# Bytes of rows to gather at a time that are worth trying: shares of a first cache, and of a second one.
_BUDGETS = (12 << 10, 24 << 10, 32 << 10, 38 << 10, 64 << 10, 128 << 10)
# Places are numbers of 16 bits.
_MOST_FLOATS = 1 << 16
# Filters whose zeros may lie together.
_STRIP = 4
# Chains of additions that keep the multiply-add units busy for their latency.
_CHAINS = 3
# Cycles: of a weight, of a strip in a block, of a vector gathered by steps of 1, 2 and others, of a run
# of positions that is stored apart. Bytes of rows that the first cache serves at full speed.
_WEIGHT, _FILTER, _GATHER, _RUN = 0.7, 12.0, (2.5, 4.0, 16.0), 4.0
_NEAR_BYTES = 36 << 10
# Bytes of a stream of weights that a second cache keeps from tile to tile; cycles of a byte from beyond.
_KEPT_STREAM, _FAR_BYTE = 512 << 10, 0.1
# Bytes of an image that the nearest caches do not keep; cycles until a line of it arrives; floats of a line.
_FAR_IMAGE, _WAIT, _LINE = 256 << 10, 250, 16


@algorithm("sparse")
@dataclass(frozen=True)
class SparseKernel(StreamKernel):
    """Takes weights that are half zeros or more: any window, stride, dilation, pad and group.

    A tile has up to `positions`; `block` channels of it are gathered at a time. `strip` neighbouring filters
    have their zeros together, 1 or 4: a row is then loaded once for all of them. What a weight of zero
    multiplies is not looked at unless one of its strip is not zero: NaN and infinity there do not reach y.
    """

    element = "float"

    block: int
    strip: int = 1

    @property
    def adds_in_place(self) -> bool:
        """Strip by strip."""
        return True

    @classmethod
    def candidates(cls, problem: ConvolutionProblem, isa: Isa) -> Iterator[Kernel]:
        """Whole vectors of positions, and whole rows of the image, by as many channels as fit a cache."""
        whole = problem.filters // problem.groups % _STRIP == 0 and problem.strips < 1
        found = {
            cls(problem, isa, length, 1, strip)._gathering(budget)
            for length in cls.lengths(problem, isa.lanes, _MOST_VECTORS)
            for budget in _BUDGETS
            for strip in (1, _STRIP)[: 1 + whole]
        }
        order = sorted(
            (kernel for kernel in found if kernel._fits),
            key=lambda kernel: (kernel.cost().cycles, kernel.positions, kernel.block),
        )
        yield from order[:_MOST_CANDIDATES]

    @property
    def _fits(self) -> bool:
        """Whether rows have numbers, and the sums and weights of a strip have registers."""
        sums = self.strip * len(pieces(self.positions, self.isa.lanes))
        held = self.strip == 1 or sums + self.strip < self.isa.registers
        return held and self._tile_floats <= _MOST_FLOATS

    def _gathering(self, budget: int) -> SparseKernel:
        """The kernel whose blocks of rows take about `budget` bytes and are of one size."""
        channels = self.problem.channels // self.problem.groups
        each = 4 * self._pitch * math.prod(self.problem.window)
        blocks = math.ceil(channels / max(1, budget // each))
        return replace(self, block=math.ceil(channels / blocks))

    @property
    def scratch_bytes(self) -> int:
        """The rows of a tile, and the sums of all filters if there are several blocks of rows."""
        waiting = self.problem.filters // self.problem.groups * self._pitch if self._blocks > 1 else 0
        return 4 * (self._tile_floats + waiting)

    @property
    def _blocks(self) -> int:
        return -(-(self.problem.channels // self.problem.groups) // self.block)

    @property
    def _pitch(self) -> int:
        """Floats from one row of a tile to the next: whole vectors, or a narrow one."""
        parts = pieces(self.positions, self.isa.lanes)
        return len(parts) * parts[0][1]

    @property
    def _tile_floats(self) -> int:
        """Floats of a tile: a row of zeros, the rows, and what the last run may write too much."""
        floats = (1 + self.block * math.prod(self.problem.window)) * self._pitch + self.isa.lanes
        return self.isa.round_up(floats)

    @property
    def _chains(self) -> int:
        """Sums that run beside each other for one filter and position."""
        return max(1, _CHAINS // (self.strip * len(pieces(self.positions, self.isa.lanes))))

    def cost(self) -> Cost:
        """Cycles of every tile: gathering, weights, filters; rows beyond the first cache are slower."""
        p, lanes = self.problem, self.isa.lanes
        filters = p.filters // p.groups
        flat = p.pointwise
        slow = 1 + max(0.0, 1 - _NEAR_BYTES / (4 * self._tile_floats))
        left = p.density if self.strip == 1 else p.strips
        stream = (4 + 2 / self.strip) * left * p.filters * p.depth
        cycles = 0.0
        for (rows, columns), count in tiles(output_extent(p, flat), self.positions):
            vectors = sum(1 if width == lanes else 0.5 for _, width in pieces(rows * columns, lanes))
            gather = rows * math.ceil(columns / lanes) * _GATHER[min(p.strides[1], 3) - 1]
            store = 2 * vectors if flat else 2 * vectors + _RUN * rows
            loads = slow if self.strip == 1 else max(1.0, slow / 2)
            weights = left * filters * (vectors * loads + _WEIGHT)
            passes = filters * (self._blocks * (_FILTER / self.strip + 2 * vectors) - vectors)
            cycles += count * (p.depth * (gather + weights) + passes + filters * store)
            cycles += count * _FAR_BYTE * max(0.0, stream / p.groups - _KEPT_STREAM)
        return Cost(p.groups * cycles, 4 * (self.source.size + self.target.size) + stream)

    def pack(self, weights: Array) -> Array:
        """The stream of `pack_stream`; a row's place is counted in floats, from a row of zeros on."""
        rows = self.block * math.prod(self.problem.window)
        return pack_stream(weights, self.problem.groups, rows, self._pitch, self._chains, self.strip)

    @property
    def counts(self) -> int:
        """One for each strip in each block of rows."""
        return self._blocks * self.problem.filters // self.strip

    def helpers(self, name: str, runs: Sequence[int]) -> str:
        """Types of vectors, and functions that gather and copy."""
        copies = [
            copy_run(f"{name}_{word}{columns}", columns, step, self.isa.lanes)
            for columns in runs
            for word, step in (("gather", self.problem.strides[1]), ("copy", 1))
        ]
        return "".join([vector_types(name, self.isa.lanes), "\n", *copies])

    def walk(self, target: Buffer, epilogue: Epilogue) -> tuple[str, str, str]:
        """A row of zeros; the bias; planes and biases of the next group."""
        filters, kept = self.problem.filters // self.problem.groups, epilogue.residual or target
        move = f"""\
        y += {filters * target.plane}; r += {filters * kept.plane}; b += {filters if epilogue.bias else 0};
"""
        return f"    memset(scratch, 0, {4 * self._pitch});\n", "b", move

    def tile(self, name: str, tile: Extent, source: Buffer, target: Buffer, epilogue: Epilogue) -> str:
        """Block by block of gathered rows, strip by strip."""
        p = self.problem
        rows, columns = tile
        filters, channels = p.filters // p.groups, p.channels // p.groups
        full, rest = divmod(channels, self.block)
        width = f"block < {full} ? {self.block} : {rest}" if rest else f"{self.block}"
        parts = pieces(rows * columns, self.isa.lanes)
        begin = "".join(
            f"            {name}_{wide} a{chain}_{at} = {{0}};\n"
            for chain in range(self._chains * self.strip)
            for at, wide in parts
        )
        step = "".join(self._weight(name, chain, parts) for chain in range(self._chains))
        join = "".join(
            f"            a0_{at} += a{chain}_{at};\n" for chain in range(1, self._chains) for at, _ in parts
        )
        fetch = self._fetch(tile, "y", target) + self._fetch(tile, "r", epilogue.residual)
        cut = columns % self.isa.lanes
        store_one = self._store_runs if cut else self._store_vectors
        store = "".join(store_one(name, tile, target, epilogue, n) for n in range(self.strip))
        return f"""\
static void {name}_{rows}x{columns}(const float *x, {name}_stream *stream, const float *b, const float *r,
        float *y, float *scratch)
{{
    {name}_stream s = *stream;
    float *sums = scratch + {self._tile_floats}, whole[{self._whole}] = {{0}}, kept[{self._whole}] = {{0}};
    (void)b; (void)r; (void)sums; (void)whole; (void)kept;
    for (int block = 0; block < {self._blocks}; block++) {{
        float *t = scratch + {self._pitch};
        int channels = {width};
        for (int c = 0; c < channels; c++, x += {source.plane})
            {self.gather(name, tile, source, self._pitch)}
        for (int k = 0; k < {filters}; k += {self.strip}) {{
{fetch}{begin}            for (int n = *s.counts++; n > 0; n -= {self._chains}) {{
{step}            }}
{join}{self._between(name, parts)}{store}        }}
    }}
    *stream = s;
}}
"""

    def _fetch(self, tile: Extent, image: str, buffer: Buffer | None) -> str:
        """C that asks for what a filter further on adds or writes: planes lie too far apart to be guessed."""
        if buffer is None or buffer.bytes < _FAR_IMAGE:
            return ""
        p = self.problem
        rows, columns = tile if tile[1] < buffer.row else (1, math.prod(tile))
        weights = p.density * p.depth / self._blocks
        cycles = weights * len(pieces(math.prod(tile), self.isa.lanes)) + _FILTER
        ahead = self.strip * math.ceil(_WAIT / cycles)
        last = f"if (block == {self._blocks - 1}) " if self._blocks > 1 else ""
        return f"""\
            {last}for (int i = 0; i < {rows}; i++)
                UNROLL for (int j = 0; j < {columns}; j += {_LINE})
                    FETCH({image} + (k + {ahead}) * {buffer.plane} + i * {buffer.row} + j);
"""

    @property
    def _whole(self) -> int:
        """Floats of a tile's positions in whole vectors."""
        return self.isa.round_up(self.positions)

    def _weight(self, name: str, chain: int, parts: list[tuple[int, int]]) -> str:
        """C that multiplies one row by the weights of a strip."""
        lines = "".join(
            f"                    const {name}_{wide} x{at} = *(const {name}_{wide} *)(p + {at});\n"
            + "".join(
                f"                    a{chain + filter_}_{at} += e[{filter_}] * x{at};\n"
                for filter_ in range(self.strip)
            )
            for at, wide in parts
        )
        return f"""\
                {{
                    const float *p = scratch + *s.rows++, *e = s.values;
                    s.values += {self.strip};
{lines}                }}
"""

    def _between(self, name: str, parts: list[tuple[int, int]]) -> str:
        """C that takes up the sums of the block before and leaves those for the next one."""
        if self._blocks == 1:
            return ""
        places = [
            (f"*({name}_{wide} *)(sums + (k + {n}) * {self._pitch} + {at})", f"a{n}_{at}")
            for n in range(self.strip)
            for at, wide in parts
        ]
        take = " ".join(f"{sum_} += {place};" for place, sum_ in places)
        leave = " ".join(f"{place} = {sum_};" for place, sum_ in places)
        return f"""\
            if (block > 0) {{ {take} }}
            if (block < {self._blocks - 1}) {{ {leave} continue; }}
"""

    def _store_vectors(self, name: str, tile: Extent, target: Buffer, epilogue: Epilogue, n: int) -> str:
        """C of the epilogue of the n-th filter, where each vector of positions lies in one run of y."""
        kept = epilogue.residual or target
        lines = []
        for at, _ in pieces(math.prod(tile), self.isa.lanes):
            i, j = divmod(at, tile[1])
            residual = f"load(r + (k + {n}) * {kept.plane} + {i * kept.row + j})"
            value = epilogue.apply(f"a{n}_{at}", f"splat(b[k + {n}])", residual)
            place = f"y + (k + {n}) * {target.plane} + {i * target.row + j}"
            lines.append(f"            store({place}, {value});\n")
        return "".join(lines)

    def _store_runs(self, name: str, tile: Extent, target: Buffer, epilogue: Epilogue, n: int) -> str:
        """C of the epilogue of the n-th filter, where vectors of positions must be cut into the runs of y."""
        rows, columns = tile
        lanes = self.isa.lanes
        kept = epilogue.residual or target
        parts = pieces(rows * columns, lanes)
        put = "".join(f"            *({name}_{wide} *)(whole + {at}) = a{n}_{at};\n" for at, wide in parts)
        add = f"            for (int i = 0; i < {rows}; i++)\n                "
        add += f"{name}_copy{columns}(kept + i * {columns}, r + (k + {n}) * {kept.plane} + i * {kept.row});\n"
        place = f"y + (k + {n}) * {target.plane}"
        value = epilogue.apply("load(whole + i)", f"splat(b[k + {n}])", "load(kept + i)")
        return f"""\
{put}{add if epilogue.residual else ""}\
            UNROLL for (int i = 0; i < {lanes * len(parts)}; i += {lanes}) store(whole + i, {value});
            for (int i = 0; i < {rows}; i++)
                {name}_copy{columns}({place} + i * {target.row}, whole + i * {columns});
"""
