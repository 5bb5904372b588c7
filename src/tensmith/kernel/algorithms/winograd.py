"""Winograd's minimal filtering F(m x m, t x t) (Winograd, 1980; Lavin and Gray, 2016), also for stride 2.

    Y = A^T [sum(c; (G g_kc G^T) * (B^T d_c B))] A    (* elementwise; tiles d of n x n, n = m + t - 1)

Each tile of m x m outputs takes n^2 products a channel and filter where the definition takes m^2 t^2: for 3x3
filters 2.25, 4 and 5.06 times fewer with m = 2, 4, 6. The sum over channels is n^2 matrix products. Tiles are
worked on in groups and filters in chunks, so that what lies between the stages stays in the second cache.

At stride 2 the channels of the four phases of the image are summed over, filters of t = ceil(window / 2) taps
each; products at infinity, which only the last tap reaches, leave out the phases that have one tap less. An
image of few channels is first rearranged, so that all channels of all phases are lanes of one vector.

Equal over the reals; in floats, with E = eps * (phases * channels + 8 n), an element is off by no more than

    E * |A^T| [sum(c; (|G| |g_kc| |G^T|) * (|B^T| |d_c| |B|))] |A|

and where a tile holds an infinity or a NaN, all its outputs become NaN.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from tensmith.formula.arith import Array
from tensmith.kernel.algorithm import SIGNATURE, Cost, Kernel, algorithm
from tensmith.kernel.buffer import Buffer, Halo
from tensmith.kernel.cook_toom import Filtering, filtering
from tensmith.kernel.epilogue import Epilogue
from tensmith.kernel.isa import Isa
from tensmith.kernel.phases import Phases
from tensmith.kernel.problem import ConvolutionProblem
from tensmith.kernel.tile_transforms import input_transform, output_transform
from tensmith.kernel.tiles import chunks, load_weights

_SIZES = (2, 3, 4, 5, 6)
_MOST_POINTS = 8
_LATENCY = 8
_TILE_OVERHEAD = 16
_MOST_BLOCKS = 6
# Groups whose two intermediate tensors take more than this leave the second cache.
_GROUP_BYTES = 640 << 10
_GROUPS_OFFERED = 3
# How much of a read from the third cache a read from memory would have cost.
NEAR = 0.35


@algorithm("winograd")
@dataclass(frozen=True)
class Winograd(Kernel):
    """F(size x size, taps); `group` tiles at once; products in register tiles of `positions` x `blocks`."""

    size: int
    group: int
    positions: int
    blocks: int

    @classmethod
    def lacks(cls, problem: ConvolutionProblem, isa: Isa) -> str | None:
        """Anything but dense square windows that leave two taps or more at stride 1 or 2."""
        if len(set(problem.window)) > 1 or len(set(problem.strides)) > 1 or problem.dilations != (1, 1):
            return "it takes square windows and strides without dilation"
        if problem.strides[0] > 2 or _phases(problem).taps not in (2, 3, 4, 5):
            return "it takes strides of 1 or 2, and windows of 2 to 5 taps at each phase"
        if problem.groups != 1:
            return "it takes one group"
        if problem.strides == (2, 2) and (_packed(problem, isa) or not problem.channels % isa.lanes):
            return None
        if problem.strides == (1, 1) and problem.channels >= isa.lanes:
            return None
        return f"{problem.channels} channels fill vectors of {isa.lanes} badly"

    @classmethod
    def candidates(cls, problem: ConvolutionProblem, isa: Isa) -> Iterator[Kernel]:
        """For every size the cheapest register tiles and groups, cheapest first."""
        found: list[Kernel] = []
        for size in _SIZES:
            if size + _phases(problem).taps - 1 > _MOST_POINTS:
                continue
            tiles = tile_count(problem, size)
            fitting = [
                kernel
                for blocks in range(1, min(-(-problem.filters // isa.lanes), _MOST_BLOCKS) + 1)
                for positions in range(1, tiles + 1)
                if isa.fits(positions, blocks)
                for kernel in cls._grouped(problem, isa, size, positions, blocks)
            ]
            found += sorted(fitting, key=lambda kernel: kernel.cost().seconds())[:_GROUPS_OFFERED]
        yield from sorted(found, key=lambda kernel: kernel.cost().seconds())

    @classmethod
    def _grouped(
        cls, problem: ConvolutionProblem, isa: Isa, size: int, positions: int, blocks: int
    ) -> Iterator[Kernel]:
        """The kernels of one register tile: of groups of as many tiles as stay in the second cache, and of
        fewer, in whole register tiles."""
        phases = _phases(problem)
        vectors = 1 if _packed(problem, isa) else len(phases.order) * -(-problem.channels // isa.lanes)
        tile_bytes = (size + phases.taps - 1) ** 2 * (vectors + blocks) * isa.bytes
        fitting = _GROUP_BYTES // tile_bytes
        whole = -(-tile_count(problem, size) // positions) * positions
        groups = {min(whole, max(1, fitting // part // positions) * positions) for part in (1, 2)}
        for group in sorted(groups, reverse=True):
            yield cls(problem, isa, size, group, positions, blocks)

    @property
    def transforms(self) -> Filtering:
        """The matrices."""
        return filtering(self.size, self._phases.taps)

    @property
    def _phases(self) -> Phases:
        return _phases(self.problem)

    @property
    def _packed(self) -> bool:
        return _packed(self.problem, self.isa)

    @property
    def _points(self) -> int:
        """n."""
        return self.size + self._phases.taps - 1

    @property
    def _area(self) -> int:
        return self._points**2

    @property
    def _grid(self) -> tuple[int, int]:
        """Tiles down and across."""
        height, width = self.problem.output
        return -(-height // self.size), -(-width // self.size)

    @property
    def _reach(self) -> tuple[int, int]:
        """Rows and columns of a phase that the tiles read."""
        down, across = self._grid
        return down * self.size + self._phases.taps - 1, across * self.size + self._phases.taps - 1

    @property
    def source(self) -> Buffer:
        """The last tiles reach beyond the pads where the output is no multiple of their size."""
        p, (rows, columns), stride = self.problem, self._reach, self.problem.strides[0]
        if self._packed:
            return Buffer(p.channels, p.height, p.width)
        bottom = max(0, stride * rows - p.pads[0] - p.height)
        right = max(0, stride * columns - p.pads[1] - p.width)
        halo = Halo(p.pads[0], p.pads[1], bottom, right)
        return Buffer(p.channels, p.height, p.width, self.isa.lanes, halo)

    @property
    def _input_blocks(self) -> int:
        """Vectors of channels, those of all phases."""
        return 1 if self._packed else len(self._phases.order) * -(-self.problem.channels // self.isa.lanes)

    def _depths(self) -> list[tuple[int, int]]:
        """(first, stop) of the channels, counted over phases, that each product sums."""
        channels = self.problem.channels
        return [(first * channels, stop * channels) for first, stop in _alive(self._phases, self._points)]

    @property
    def _depth(self) -> int:
        """The channels that all products sum."""
        return _alive_in_all(self._phases, self._points) * self.problem.channels

    @property
    def _spectrum(self) -> int:
        """Floats between two of the input's matrices: one vector more than they hold, against cache sets."""
        return self._input_blocks * self.group * self.isa.lanes + self.isa.lanes

    @property
    def _image_floats(self) -> int:
        """What the rearranged image of few channels takes."""
        return math.prod(self._reach) * self.isa.lanes if self._packed else 0

    @property
    def scratch_bytes(self) -> int:
        """The rearranged image, the transformed tiles of a group, and their products with one chunk."""
        products = self._area * (self._spectrum + self.blocks * self.group * self.isa.lanes)
        return 4 * (self._image_floats + products)

    @property
    def _filter_bytes(self) -> int:
        """What the transformed filters take."""
        return 4 * self._depth * self.target.blocks * self.isa.lanes

    @property
    def weight_bytes(self) -> int:
        """The transformed filters."""
        return self._filter_bytes

    def cost(self) -> Cost:
        """Transforms, products with what the last tiles waste, and the filters once a group."""
        n, size = self._points, self.size
        tiles = tile_count(self.problem, size)
        groups = -(-tiles // self.group)
        computed = sum(-(-min(self.group, tiles - g * self.group) // self.positions) for g in range(groups))
        depth = self._depth
        cycles = 2.0 * self.problem.channels * math.prod(self._reach) * (4 if self._packed else 0)
        for blocks, times in chunks(self.target.blocks, self.blocks):
            here = self.positions * blocks
            step = max(here, self.positions / 2 + blocks, _LATENCY)
            cycles += times * computed * (depth * step + self._area * (3 * here + _TILE_OVERHEAD))
        cycles += tiles * self._input_blocks * 7 * n * n
        cycles += tiles * self.target.blocks * (2 * n * n + 2 * n * size + 3 * size**2)
        filters, around = self._filter_bytes, self.source.bytes + self.target.bytes
        between = max(0, self.scratch_bytes - 4 * self._image_floats - _GROUP_BYTES) * groups
        return Cost(cycles, around + filters + NEAR * ((groups - 1) * filters + 2 * between))

    def pack(self, weights: Array) -> Array:
        """G g G^T in double precision, as [chunk of filter blocks][product][channel][filter in chunk]."""
        g = np.array(self.transforms.filter_matrix, np.float64)
        phases = self._phases.split(weights.astype(np.float64))
        flat = phases.reshape(len(weights), -1, *phases.shape[3:])
        spectra = np.einsum("pi,kcij,qj->pqck", g, flat, g, optimize=True).reshape(
            self._area, -1, len(weights)
        )
        full = np.zeros((*spectra.shape[:2], self.target.blocks * self.isa.lanes), np.float32)
        full[:, :, : len(weights)] = spectra
        width = self.blocks * self.isa.lanes
        return np.concatenate([
            product[first:stop, start : start + width].reshape(-1)
            for start in range(0, full.shape[2], width)
            for product, (first, stop) in zip(full, self._depths())
        ])  # fmt: skip

    def code(self, name: str, source: Buffer, target: Buffer, epilogue: Epilogue) -> str:
        """The three stages, and the walk over groups of tiles and chunks of filters."""
        lanes, area, size = self.isa.lanes, self._area, self.size
        tiles, across = tile_count(self.problem, size), self._grid[1]
        kept = epilogue.residual or target
        parts = chunks(self.target.blocks, self.blocks)
        origin = f"int i = (first + t) / {across} * {size}, j = (first + t) % {across} * {size};"
        texts = [
            self._input(name, source),
            *(self._chunk(name, blocks) for blocks, _ in parts),
            output_transform(f"{name}_output", self.transforms, target, epilogue, lanes),
        ]
        stages = "\n".join(
            f"""\
        for (int chunk = 0; chunk < {times}; chunk++) {{
{self._products(name, blocks)}
            for (int k = 0; k < {blocks}; k++) {{
                for (int t = 0; t < count; t++) {{
                    {origin}
                    {name}_output(m + (k * {self.group} + t) * {area * lanes}, b,
                        r + i * {kept.row} + j * {lanes}, y + i * {target.row} + j * {lanes},
                        {self.problem.output[0]} - i, {self.problem.output[1]} - j);
                }}
                b += {lanes if epilogue.bias else 0}; r += {kept.plane}; y += {target.plane};
            }}
        }}"""
            for blocks, times in parts
        )
        residual = f"(const float *)residual + {kept.address(0, 0, 0)}" if epilogue.residual else "y"
        starts, stops = (", ".join(map(str, side)) for side in zip(*self._depths()))
        return (
            "\n".join(texts)
            + f"""
/* {self.problem.dense}; {epilogue}.
   {self}. */
static void {name}({SIGNATURE})
{{
    static const int start[] = {{{starts}}}, last[] = {{{stops}}};
    float *v = (float *)scratch + {self._image_floats}, *m = v + {area * self._spectrum};
    (void)residual;
{self._prepare(source)}
    for (int first = 0; first < {tiles}; first += {self.group}) {{
        int count = {tiles} - first < {self.group} ? {tiles} - first : {self.group};
        for (int t = 0; t < count; t++) {{
            {origin}
{self._inputs(name, source)}
        }}
        const float *w = weights, *b = bias;
        float *y = (float *)out + {target.address(0, 0, 0)};
        const float *r = {residual};
{stages}
    }}
}}
"""
        )

    def _prepare(self, source: Buffer) -> str:
        """C that sets x to the first element that tiles read; few channels are rearranged into scratch, with
        zeros around them, as far as tiles reach.
        """
        p, lanes, (rows, columns) = self.problem, self.isa.lanes, self._reach
        if not self._packed:
            return f"    const float *x = (const float *)in + {source.address(0, -p.pads[0], -p.pads[1])};"
        corner = f"(i + {p.pads[0]}) / 2 * {columns} + (j + {p.pads[1]}) / 2"
        tall, wide = min(p.height, 2 * rows - p.pads[0]), min(p.width, 2 * columns - p.pads[1])
        moves = "\n".join(
            f"""\
        for (int i = {(p.pads[0] + f) % 2}; i < {tall}; i += 2)
            for (int j = {(p.pads[1] + g) % 2}; j < {wide}; j += 2)
                s[({corner}) * {lanes} + {place * p.channels}] = image[i * {source.row} + j];"""
            for place, (f, g) in enumerate(self._phases.order)
        )
        return f"""\
    float *x = scratch;
    memset(x, 0, {4 * self._image_floats});
    for (int c = 0; c < {p.channels}; c++) {{
        const float *image = (const float *)in + {source.address(0, 0, 0)} + c * {source.plane};
        float *s = x + c;
{moves}
    }}"""

    def _inputs(self, name: str, source: Buffer) -> str:
        """C that transforms tile t at i, j: every block of channels of every phase."""
        lanes, stride = self.isa.lanes, self.problem.strides[0]
        if self._packed:
            return f"            {name}_input(x + (i * {self._reach[1]} + j) * {lanes}, v + t * {lanes});"
        lines = [
            f"            for (int b = 0; b < {source.blocks}; b++)",
            f"                {name}_input(x + b * {source.plane} + (i * {stride} + {{0}}) * {source.row}"
            f" + (j * {stride} + {{1}}) * {lanes},",
            f"                    v + ({{2}} + b) * {self.group * lanes} + t * {lanes});",
        ]
        return "\n".join(
            "\n".join(lines).format(f, g, place * source.blocks)
            for place, (f, g) in enumerate(self._phases.order)
        )

    def _input(self, name: str, source: Buffer) -> str:
        """The transform of one tile and block, as it lies."""
        lanes, stride = self.isa.lanes, self.problem.strides[0]
        row, step = (self._reach[1] * lanes, 1) if self._packed else (source.row, stride)
        return input_transform(f"{name}_input", self.transforms, step * row, step * lanes, self._spectrum)

    def _products(self, name: str, blocks: int) -> str:
        """C that computes m, the products of the group's tiles with one chunk of filters."""
        lanes, area = self.isa.lanes, self._area
        return f"""\
            for (int q = 0; q < {area}; w += (last[q] - start[q]) * {blocks * lanes}, q++)
                for (int t = 0; t < count; t += {self.positions})
                    {name}_product_{blocks}(v + q * {self._spectrum} + t * {lanes}, start[q], last[q], w,
                        m + (t * {area} + q) * {lanes});"""

    def _chunk(self, name: str, blocks: int) -> str:
        """The functions behind `_products`."""
        return self._product(name, blocks)

    def _product(self, name: str, blocks: int, begin: str = "splat(0)") -> str:
        """One of the matrix products: `positions` tiles by `blocks` blocks of filters, over some channels.

        Sums begin at the C expression `begin`.
        """
        lanes = self.isa.lanes
        return f"""\
static void {name}_product_{blocks}(const float *restrict v, int start, int last, const float *restrict w,
        float *restrict m)
{{
    vf a[{self.positions}][{blocks}];
    UNROLL for (int j = 0; j < {self.positions}; j++) UNROLL for (int k = 0; k < {blocks}; k++)
        a[j][k] = {begin};
    v += start / {lanes} * {self.group * lanes};
    for (int c = start % {lanes}, left = last - start; left > 0; v += {self.group * lanes}, c = 0) {{
        int stop = left < {lanes} - c ? c + left : {lanes};
        left -= stop - c;
        UNROLL_4 for (; c < stop; c++, w += {blocks * lanes}) {{
            vf f[{blocks}];
            {load_weights(self.positions, blocks, lanes, self._filter_bytes)}
            UNROLL for (int j = 0; j < {self.positions}; j++) {{
                float e = v[j * {lanes} + c];
                UNROLL for (int k = 0; k < {blocks}; k++) a[j][k] += e * f[k];
            }}
        }}
    }}
    UNROLL for (int j = 0; j < {self.positions}; j++) UNROLL for (int k = 0; k < {blocks}; k++)
        store(m + (k * {self.group} + j) * {self._area * lanes}, a[j][k]);
}}
"""


@functools.cache
def _alive(phases: Phases, points: int) -> tuple[tuple[int, int], ...]:
    """(first, stop) of the phases that count in each of points x points products."""
    last = points - 1
    return tuple(phases.alive(i == last, j == last) for i in range(points) for j in range(points))


@functools.cache
def _alive_in_all(phases: Phases, points: int) -> int:
    """How many phases count, of all products together."""
    return sum(stop - first for first, stop in _alive(phases, points))


def _phases(problem: ConvolutionProblem) -> Phases:
    return Phases(problem.window[0], problem.strides[0])


def _packed(problem: ConvolutionProblem, isa: Isa) -> bool:
    """Whether the channels of all phases fit one vector."""
    return problem.strides == (2, 2) and 4 * problem.channels <= isa.lanes


def tile_count(problem: ConvolutionProblem, size: int) -> int:
    return math.prod(-(-length // size) for length in problem.output)
