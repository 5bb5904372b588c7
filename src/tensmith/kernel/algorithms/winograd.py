"""Winograd's minimal filtering F(m x m, 3 x 3) for 3x3 convolutions of stride 1 (Lavin and Gray, 2016).

    Y = A^T [sum(c; (G g_kc G^T) * (B^T d_c B))] A    (* elementwise; tiles d of (m + 2) x (m + 2))

Each tile of m x m outputs takes (m + 2)^2 products a channel and filter where the definition takes 9 m^2:
2.25, 4 and 5.06 times fewer for m = 2, 4, 6. The sum over channels is (m + 2)^2 matrix products. Tiles are
worked on in groups and filters in chunks, so that what lies between the stages stays in the second cache.

Equal over the reals; in floats, with E = eps * (channels + 8 (m + 2)), an element is off by no more than

    E * |A^T| [sum(c; (|G| |g_kc| |G^T|) * (|B^T| |d_c| |B|))] |A|

and where a tile holds an infinity or a NaN, all its outputs become NaN.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from tensmith.kernel.algorithm import SIGNATURE, Array, Cost, Kernel, algorithm
from tensmith.kernel.buffer import Buffer, Halo
from tensmith.kernel.cook_toom import Filtering, Matrix, columns_code, filtering, rows_code
from tensmith.kernel.epilogue import Epilogue
from tensmith.kernel.isa import Isa
from tensmith.kernel.problem import Convolution
from tensmith.kernel.tiles import chunks, load_weights

_SIZES = (2, 4, 6)
_LATENCY = 8
_TILE_OVERHEAD = 16
_MOST_BLOCKS = 6
# Groups whose two intermediate tensors take more than this leave the second cache.
_GROUP_BYTES = 640 << 10
_GROUPS_OFFERED = 3
# How much of a read from the third cache a read from memory would have cost.
_NEAR = 0.35


@algorithm
@dataclass(frozen=True)
class Winograd(Kernel):
    """F(size x size, 3 x 3); `group` tiles at once; products in register tiles of `positions` x `blocks`."""

    name: ClassVar[str] = "winograd"

    size: int
    group: int
    positions: int
    blocks: int

    @classmethod
    def refuses(cls, problem: Convolution, isa: Isa) -> str | None:
        """Anything but dense 3x3 filters of stride 1."""
        if problem.dtype != "f32":
            return f"it computes f32, not {problem.dtype}"
        if problem.window != (3, 3) or problem.strides != (1, 1) or problem.dilations != (1, 1):
            return "it takes 3x3 windows of stride 1 without dilation"
        if problem.groups != 1:
            return "it takes one group"
        return None if problem.channels >= isa.lanes else f"fewer than {isa.lanes} channels do not pay"

    @classmethod
    def candidates(cls, problem: Convolution, isa: Isa) -> Iterator[Kernel]:
        """For every size the cheapest register tiles and groups, cheapest first."""
        found = []
        for size in _SIZES:
            tiles = _tile_count(problem, size)
            fitting = [
                cls(problem, isa, size, group, positions, blocks)
                for blocks in range(1, min(-(-problem.filters // isa.lanes), _MOST_BLOCKS) + 1)
                for positions in range(1, tiles + 1)
                if positions * blocks + blocks < isa.registers
                for group in _groups(problem, isa, size, positions, blocks)
            ]
            found += sorted(fitting, key=lambda kernel: kernel.cost().seconds())[:_GROUPS_OFFERED]
        yield from sorted(found, key=lambda kernel: kernel.cost().seconds())

    @property
    def transforms(self) -> Filtering:
        """The matrices."""
        return _filtering(self.size)

    @property
    def _area(self) -> int:
        return (self.size + 2) ** 2

    @property
    def _grid(self) -> tuple[int, int]:
        """Tiles down and across."""
        height, width = self.problem.output
        return -(-height // self.size), -(-width // self.size)

    @property
    def source(self) -> Buffer:
        """The last tiles reach beyond the pads where the output is no multiple of their size."""
        p, (down, across) = self.problem, self._grid
        bottom = max(0, down * self.size + 2 - p.pads[0] - p.height)
        right = max(0, across * self.size + 2 - p.pads[1] - p.width)
        halo = Halo(p.pads[0], p.pads[1], bottom, right)
        return Buffer(p.channels, p.height, p.width, self.isa.lanes, halo)

    @property
    def target(self) -> Buffer:
        """Blocks of one vector."""
        return Buffer(self.problem.filters, *self.problem.output, self.isa.lanes)

    @property
    def _spectrum(self) -> int:
        """Floats between two of the input's matrices: one vector more than they hold, against cache sets."""
        return self.source.blocks * self.group * self.isa.lanes + self.isa.lanes

    @property
    def scratch_bytes(self) -> int:
        """The transformed tiles of a group, and their products with one chunk of filters."""
        return 4 * self._area * (self._spectrum + self.blocks * self.group * self.isa.lanes)

    @property
    def _filter_bytes(self) -> int:
        """What the transformed filters take."""
        return 4 * self._area * self.problem.channels * self.target.blocks * self.isa.lanes

    def cost(self) -> Cost:
        """Transforms, products with what the last tiles waste, and the filters once a group."""
        p, n = self.problem, self.size + 2
        tiles = _tile_count(p, self.size)
        groups = -(-tiles // self.group)
        computed = sum(-(-min(self.group, tiles - g * self.group) // self.positions) for g in range(groups))
        cycles = 0.0
        for blocks, times in chunks(self.target.blocks, self.blocks):
            here = self.positions * blocks
            step = max(here, self.positions / 2 + blocks, _LATENCY)
            cycles += times * computed * self._area * (p.channels * step + 3 * here + _TILE_OVERHEAD)
        cycles += tiles * self.source.blocks * (4 * n * n + 3 * n * n)
        cycles += tiles * self.target.blocks * (2 * n * n + 2 * n * self.size + 3 * self.size**2)
        filters = self._filter_bytes
        between = max(0, self.scratch_bytes - _GROUP_BYTES) * groups
        moved = (
            self.source.bytes + self.target.bytes + filters + _NEAR * ((groups - 1) * filters + 2 * between)
        )
        return Cost(cycles, moved)

    def pack(self, weights: Array) -> Array:
        """G g G^T in double precision, as [chunk of filter blocks][product][channel][filter in chunk]."""
        g = np.array(self.transforms.filter_matrix, np.float64)
        spectra = np.einsum("pi,kcij,qj->pqck", g, weights.astype(np.float64), g, optimize=True)
        full = np.zeros((self._area, self.problem.channels, self.target.blocks * self.isa.lanes), np.float32)
        full[:, :, : len(weights)] = spectra.reshape(self._area, self.problem.channels, -1)
        width = self.blocks * self.isa.lanes
        parts = [full[:, :, start : start + width].reshape(-1) for start in range(0, full.shape[2], width)]
        return np.concatenate(parts)

    def code(self, name: str, source: Buffer, target: Buffer, epilogue: Epilogue) -> str:
        """The three stages, and the walk over groups of tiles and chunks of filters."""
        p, lanes, area = self.problem, self.isa.lanes, self._area
        tiles, across = _tile_count(p, self.size), self._grid[1]
        kept = epilogue.residual or target
        parts = chunks(self.target.blocks, self.blocks)
        origin = f"int i = (first + t) / {across} * {self.size}, j = (first + t) % {across} * {self.size};"
        texts = [
            self._input(name, source),
            *(self._product(name, blocks) for blocks, _ in parts),
            self._output(name, target, epilogue),
        ]
        stages = []
        for blocks, times in parts:
            step = p.channels * blocks * lanes
            stages.append(f"""\
        for (int chunk = 0; chunk < {times}; chunk++) {{
            for (int q = 0; q < {area}; q++, w += {step}) for (int t = 0; t < count; t += {self.positions})
                {name}_product_{blocks}(v + q * {self._spectrum} + t * {lanes}, w,
                    m + (t * {area} + q) * {lanes});
            for (int k = 0; k < {blocks}; k++, b += {lanes if epilogue.bias else 0}, r += {kept.plane}, \
y += {target.plane})
                for (int t = 0; t < count; t++) {{
                    {origin}
                    {name}_output(m + (k * {self.group} + t) * {area * lanes}, b,
                        r + i * {kept.row} + j * {lanes}, y + i * {target.row} + j * {lanes},
                        {p.output[0]} - i, {p.output[1]} - j);
                }}
        }}""")
        residual = f"(const float *)residual + {kept.address(0, 0, 0)}" if epilogue.residual else "y"
        all_stages = "\n".join(stages)
        return (
            "\n".join(texts)
            + f"""
/* {p}; {epilogue}.
   {self}. */
static void {name}({SIGNATURE})
{{
    const float *x = (const float *)in + {source.address(0, -p.pads[0], -p.pads[1])};
    float *v = scratch, *m = v + {area * self._spectrum};
    (void)residual;
    for (int first = 0; first < {tiles}; first += {self.group}) {{
        int count = {tiles} - first < {self.group} ? {tiles} - first : {self.group};
        for (int b = 0; b < {source.blocks}; b++) for (int t = 0; t < count; t++) {{
            {origin}
            {name}_input(x + b * {source.plane} + i * {source.row} + j * {lanes},
                v + (b * {self.group} + t) * {lanes});
        }}
        const float *w = weights, *b = bias;
        float *y = (float *)out + {target.address(0, 0, 0)};
        const float *r = {residual};
{all_stages}
    }}
}}
"""
        )

    def _input(self, name: str, source: Buffer) -> str:
        """B^T d B of one tile and block."""
        n, matrix = self.size + 2, self.transforms.input_matrix
        columns = _lines(matrix, rows_code, [f"x[{i}]" for i in range(n)], [f"d[{i}][j]" for i in range(n)])
        rows = _lines(matrix, rows_code, [f"d[i][{j}]" for j in range(n)], [f"y[{j}]" for j in range(n)])
        return f"""\
static void {name}_input(const float *restrict in, float *restrict v)
{{
    vf d[{n}][{n}], x[{n}], y[{n}];
    UNROLL for (int j = 0; j < {n}; j++) {{
        UNROLL for (int i = 0; i < {n}; i++) x[i] = load(in + i * {source.row} + j * {self.isa.lanes});
        {columns}
    }}
    UNROLL for (int i = 0; i < {n}; i++) {{
        {rows}
        UNROLL for (int j = 0; j < {n}; j++) store(v + (i * {n} + j) * {self._spectrum}, y[j]);
    }}
}}
"""

    def _product(self, name: str, blocks: int) -> str:
        """One of the matrix products: `positions` tiles by `blocks` blocks of filters, over all channels."""
        p, lanes = self.problem, self.isa.lanes
        full, rest = divmod(p.channels, lanes)
        limit = f"(b < {full} ? {lanes} : {rest})" if rest else lanes
        return f"""\
static void {name}_product_{blocks}(const float *restrict v, const float *restrict w, float *restrict m)
{{
    vf a[{self.positions}][{blocks}];
    UNROLL for (int j = 0; j < {self.positions}; j++) UNROLL for (int k = 0; k < {blocks}; k++)
        a[j][k] = splat(0);
    for (int b = 0; b < {full + bool(rest)}; b++, v += {self.group * lanes})
        UNROLL_4 for (int c = 0; c < {limit}; c++, w += {blocks * lanes}) {{
            vf f[{blocks}];
            {load_weights(self.positions, blocks, lanes, self._filter_bytes)}
            UNROLL for (int j = 0; j < {self.positions}; j++) {{
                float e = v[j * {lanes} + c];
                UNROLL for (int k = 0; k < {blocks}; k++) a[j][k] += e * f[k];
            }}
        }}
    UNROLL for (int j = 0; j < {self.positions}; j++) UNROLL for (int k = 0; k < {blocks}; k++)
        store(m + (k * {self.group} + j) * {self._area * lanes}, a[j][k]);
}}
"""

    def _output(self, name: str, target: Buffer, epilogue: Epilogue) -> str:
        """A^T m A of one tile and block, and the epilogue; tiles at the border are cut."""
        size, n, lanes, matrix = self.size, self.size + 2, self.isa.lanes, self.transforms.output_matrix
        columns = _lines(
            matrix, columns_code, [f"x[{i}]" for i in range(n)], [f"d[{i}][j]" for i in range(size)]
        )
        rows = _lines(
            matrix, columns_code, [f"d[i][{j}]" for j in range(n)], [f"z[i][{j}]" for j in range(size)]
        )
        kept = epilogue.residual or target
        value = epilogue.apply("z[i][j]", "load(b)", f"load(r + i * {kept.row} + j * {lanes})")
        save = f"store(y + i * {target.row} + j * {lanes}, {value});"
        return f"""\
static void {name}_output(const float *restrict m, const float *b, const float *r, float *y,
        int rows, int columns)
{{
    vf d[{size}][{n}], x[{n}], z[{size}][{size}];
    (void)b; (void)r;
    UNROLL for (int j = 0; j < {n}; j++) {{
        UNROLL for (int i = 0; i < {n}; i++) x[i] = load(m + (i * {n} + j) * {lanes});
        {columns}
    }}
    UNROLL for (int i = 0; i < {size}; i++) {{
        {rows}
    }}
    if (rows >= {size} && columns >= {size}) {{
        UNROLL for (int i = 0; i < {size}; i++) UNROLL for (int j = 0; j < {size}; j++) {save}
    }} else {{
        for (int i = 0; i < {size} && i < rows; i++) for (int j = 0; j < {size} && j < columns; j++) {save}
    }}
}}
"""


def _lines(matrix: Matrix, code: object, x: list[str], y: list[str]) -> str:
    return "\n        ".join(code(matrix, x, y))  # type: ignore[operator]


@functools.cache
def _filtering(size: int) -> Filtering:
    return filtering(size, 3)


def _tile_count(problem: Convolution, size: int) -> int:
    return math.prod(-(-length // size) for length in problem.output)


def _groups(problem: Convolution, isa: Isa, size: int, positions: int, blocks: int) -> list[int]:
    """Numbers of tiles a group: as many as stay in the second cache, and fewer, in whole register tiles."""
    tile_bytes = (size + 2) ** 2 * (-(-problem.channels // isa.lanes) + blocks) * isa.bytes
    fitting = _GROUP_BYTES // tile_bytes
    whole = -(-_tile_count(problem, size) // positions) * positions
    sizes = {min(whole, max(1, fitting // part // positions) * positions) for part in (1, 2)}
    return sorted(sizes, reverse=True)
