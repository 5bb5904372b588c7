"""Direct convolution of bytes: u8 x s8 summed in 32 bits, four channels at a time, over blocked channels.

    sums[k,o] = start[k] + sum(b, r, l; x[b*block + l, o*strides + r*dilations - pads] * w[k, b*block + l, r])

The register tile is spatial_pack's: a weight vector holds four channels of as many filters as there are
lanes, and each of its uses multiplies it by four broadcast channels of one position ("VNNI" layout). Images
of few channels, and the rows of a matrix product, lie channels last without padding, so that a row of the
window is one run of bytes and the four are consecutive bytes of it. See kernel.quantized for the rounding.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from typing import ClassVar

import numpy as np

from tensmith.formula.expr import Expr, Formula, compute, guard, total
from tensmith.formula.poly import Poly
from tensmith.kernel.algorithm import SIGNATURE, Array, Cost, Kernel, algorithm
from tensmith.kernel.buffer import Buffer
from tensmith.kernel.byte_rows import finish_rows
from tensmith.kernel.epilogue import Epilogue
from tensmith.kernel.formulas import filters, lowered, started, window_address
from tensmith.kernel.groups import wide_groups, widen_groups
from tensmith.kernel.isa import Isa
from tensmith.kernel.problem import ConvolutionProblem
from tensmith.kernel.quantized import FIELDS, HEADER, finish_code
from tensmith.kernel.register_tiles import Chunk, RegisterTiles, cheapest, layouts, tilings, vector_step
from tensmith.kernel.tiles import Extent, read_halo, vector_chunks, walked_extent

# Cycles from sums to bytes, of a vector.
_FINISH = 4
_FEW_CHANNELS = 4
# Cycles to broadcast four bytes of a position: where they lie side by side, and of rows far apart.
_LOADS = (0.5, 1.2)
# Vectors of a register tile beside sums and weights where bytes are widened first, and cycles of a product.
_WIDENED = (5, 2.5)


@algorithm
@dataclass(frozen=True)
class SpatialPackInt8(RegisterTiles):
    """Takes any stride, dilation, group and pad; groups narrower than a vector are computed as wider ones.

    `weights` are codes (int8); `bias` are the words that kernel.quantized.constants makes. The target may be
    u8 or f32, so may the residual.
    """

    name: ClassVar[str] = "spatial_pack_int8"
    dtypes = ("u8",)

    block: int

    @classmethod
    def candidates(cls, problem: ConvolutionProblem, isa: Isa) -> Iterator[Kernel]:
        """Tiles that fit the registers, cheapest first."""
        weights, spare = (1, 1) if isa.has_dot else (2, _WIDENED[0])

        def fits(positions: int, blocks: int) -> bool:
            return positions * blocks + weights * blocks + spare <= isa.registers

        few = problem.channels <= _FEW_CHANNELS and problem.groups == 1 and problem.dilations[1] == 1
        for block in layouts(problem, problem.channels if few else isa.lanes):
            yield from cheapest(cls(problem, isa, *tile, block) for tile in tilings(problem, isa.lanes, fits))

    @property
    def _in_runs(self) -> bool:
        """Whether a row of the window is read as one run of bytes."""
        return self.block != self.isa.lanes

    @property
    def _in_rows(self) -> bool:
        """Whether positions lie as rows of all channels."""
        return self._in_runs and self.problem.pointwise and self.problem.height == 1

    @property
    def source(self) -> Buffer:
        """Blocked, or channels last with slack for the last four bytes; with a halo."""
        p = self.problem
        halo = read_halo(p)
        if self._in_runs:
            slack = -(-(-p.window[1] * p.channels % 4) // p.channels)
            halo = halo._replace(right=halo.right + slack)
        return Buffer(p.channels, p.height, p.width, self.block, halo, "u8")

    @property
    def target(self) -> Buffer:
        """One vector a block, or rows."""
        p = self.problem
        return Buffer(p.filters, *p.output, p.filters if self._in_rows else self.isa.lanes, dtype="u8")

    @property
    def _runs(self) -> tuple[int, int, int]:
        """(blocks of channels, positions of the window, groups of four bytes in one) that a sum goes over."""
        window = self.problem.window
        channels = wide_groups(self.problem, self.isa.lanes)[1]
        if self._in_runs:
            return 1, window[0], -(-window[1] * channels // 4)
        return -(-channels // self.block), math.prod(window), self.block // 4

    @property
    def _steps(self) -> int:
        """Products behind a vector of sums."""
        blocks, taps, quads = self._runs
        rest = wide_groups(self.problem, self.isa.lanes)[1] % self.block
        return taps * (blocks * quads - ((self.block - rest) // 4 if rest else 0))

    def formula(self) -> Formula:
        """Blocks of lowered bytes, or runs of them along rows of the window, and what they lack."""
        if self.block == self.isa.lanes:
            return super().formula()
        stored = lowered(self.source, self.problem, self.isa.byte_offset)
        return started(self._run_sum(stored), self.problem, self.isa.byte_offset)

    def _run_sum(self, stored: Formula) -> Formula:
        """sum(u, q, l < 4; byte 4 q + l of the run at row u * w); the last quad meets weights of zero."""
        p, w = self.problem, filters(self.problem)
        run = p.window[1] * p.channels

        def element(k: Poly, i: Poly, j: Poly) -> Expr:
            def product(u: Poly, quad: Poly, place: Poly) -> Expr:
                byte = 4 * quad + place
                weight = guard([run - 1 - byte], w[k, byte % p.channels, u, byte // p.channels])
                return stored[window_address(p, self.source, i, j, u, Poly.of(0)) + byte] * weight

            return total((p.window[0], -(-run // 4), 4), product)

        return compute((p.filters, *p.output), element)

    def cost(self) -> Cost:
        """Products of four bytes, widened first where there is no instruction for them, or their loads."""
        lanes = self.isa.lanes
        groups, _, filters = wide_groups(self.problem, lanes)
        product = 1 if self.isa.has_dot else _WIDENED[1]
        lowered = 1 if self.isa.byte_offset else 0
        load = _LOADS[self._in_rows]
        cycles = self.tile_cycles(
            self._steps,
            lambda here, blocks: max(here * (blocks * product + lowered), here * load + blocks),
            lambda tile, blocks: _FINISH * blocks * tile[0] * (tile[1] // 4 * 4 + 3 * (tile[1] % 4 > 0)),
        )
        moved = self.source.bytes + self.target.bytes + groups * 4 * self._steps * self.isa.round_up(filters)
        return Cost(cycles, moved)

    def pack(self, weights: Array) -> Array:
        """[group][chunk of filter blocks][channel block][window][channels / 4][filter in chunk][4]."""
        lanes = self.isa.lanes
        groups, channels, filters = wide_groups(self.problem, lanes)
        wide = widen_groups(weights, self.problem.groups, groups)
        if self._in_runs:  # [filters, bytes of a row, rows, 1]
            rows = wide.transpose(0, 1, 4, 2, 3).reshape(groups, filters, -1, self.problem.window[0], 1)
            wide, channels = rows, rows.shape[2]
        shape = (groups, self.isa.round_up(filters), channels + -channels % 4, *wide.shape[3:])
        full = np.zeros(shape, np.int8)
        full[:, :filters, :channels] = wide
        width, block = self.blocks * lanes, channels if self._in_runs else self.block
        return np.concatenate([
            _quads(group[start : start + width, first : first + block + -block % 4])
            for group in full
            for start in range(0, len(group), width)
            for first in range(0, channels, block)
        ])  # fmt: skip

    def code(self, name: str, source: Buffer, target: Buffer, epilogue: Epilogue) -> str:
        """One function for each shape of tile, and one that walks over groups, filters and positions."""
        p, lanes = self.problem, self.isa.lanes
        _, channels, filters = wide_groups(p, lanes)
        kept = epilogue.residual or target
        image = walked_extent(p, source, target, kept)
        parts = [
            Chunk(blocks, times, last, 4 * blocks * lanes * self._steps, blocks)
            for blocks, times, last in vector_chunks(filters, self.blocks, lanes, target.block != lanes)
        ]
        read = f"x + i * {p.strides[0] * source.row} + j * {p.strides[1] * source.block}"
        add, write = (f"i * {buffer.row} + j * {buffer.block}" for buffer in (kept, target))
        return self.walk(
            name, partial(self._tile, name, source, target, epilogue),
            entry(name, p, source, target, epilogue), channels // self.block * source.plane, image, parts,
            f"{read}, w, h, b, r + {add}, y + {write}", target, epilogue, FIELDS * lanes,
        )  # fmt: skip

    def _tile(
        self, name: str, source: Buffer, target: Buffer, epilogue: Epilogue, tile: Extent, blocks: int,
        last: int,
    ) -> str:  # fmt: skip
        """The register tile: all channels and window positions of `tile` positions and `blocks` blocks."""
        p, lanes = self.problem, self.isa.lanes
        rows, columns = tile
        count, _, quads = self._runs
        rest = -(-(wide_groups(p, lanes)[1] % self.block) // 4) if not self._in_runs else 0
        limit = quads if not rest else f"(cb < {count - 1} ? {quads} : {rest})" if count > 1 else rest
        across = 1 if self._in_runs else p.window[1]
        kept = epilogue.residual or target
        element = f"i * {p.strides[0] * source.row} + j * {p.strides[1] * source.block}"
        if target.block == lanes:
            finish = finish_vectors(tile, blocks, target, kept, epilogue, lanes)
        else:
            finish = finish_rows(columns, blocks, last, target, kept, epilogue, lanes)
        return f"""\
static void {name}_{rows}x{columns}x{blocks}_{last}(const uint8_t *restrict x, const int8_t *restrict w,
        const float *h, const float *b, const {kept.c_type} *r, {target.c_type} *y)
{{
    vi a[{rows}][{columns}][{blocks}];
    const quad *g = (const quad *)h;
    (void)g; (void)r;
    UNROLL for (int k = 0; k < {blocks}; k++) UNROLL for (int i = 0; i < {rows}; i++)
        UNROLL for (int j = 0; j < {columns}; j++) a[i][j][k] = iload(b + k * {FIELDS * lanes});
    for (int cb = 0; cb < {count}; cb++, x += {source.plane})
    for (int u = 0; u < {p.window[0]}; u++)
    for (int v = 0; v < {across}; v++) {{
        const uint8_t *t = x + u * {p.dilations[0] * source.row} + v * {p.dilations[1] * source.block};
        UNROLL_4 for (int c = 0; c < {limit}; c++, t += 4, w += {4 * blocks * lanes}) {{
            __asm__("" : "+r"(t));  /* else elements are kept for later, and registers spilled for them */
            vi f[{blocks}];
            UNROLL for (int k = 0; k < {blocks}; k++) f[k] = iload(w + k * {4 * lanes});
            UNROLL for (int i = 0; i < {rows}; i++) UNROLL for (int j = 0; j < {columns}; j++) {{
                vi e = isplat(*(const quad *)(t + {element}));
                UNROLL for (int k = 0; k < {blocks}; k++) a[i][j][k] = dot(a[i][j][k], e, f[k]);
            }}
        }}
    }}
{finish}}}
"""


def entry(name: str, problem: ConvolutionProblem, source: Buffer, target: Buffer, epilogue: Epilogue) -> str:
    """How every function on bytes begins: its signature, and its arguments by their types."""
    kept = epilogue.residual or target
    residual = f"(const {kept.c_type} *)residual + {kept.address(0, 0, 0)}" if epilogue.residual else "y"
    return f"""\
static void {name}({SIGNATURE})
{{
    const uint8_t *x = (const uint8_t *)in + {source.address(0, -problem.pads[0], -problem.pads[1])};
    const int8_t *w = weights;
    const float *h = bias, *b = bias + {HEADER};
    {target.c_type} *y = ({target.c_type} *)out + {target.address(0, 0, 0)};
    const {kept.c_type} *r = {residual};
    (void)residual; (void)scratch;"""


def finish_vectors(
    tile: Extent, blocks: int, target: Buffer, kept: Buffer, epilogue: Epilogue, lanes: int
) -> str:
    """C that stores the sums a[i][j][k] of a tile: bytes of up to four positions at once, or floats."""
    rows, columns = tile
    read = "widen" if kept.dtype == "u8" else "load"
    residual = f"{read}(r + i * {kept.row} + (j) * {kept.block} + k * {vector_step(kept, lanes)})"
    fields = f"(b + k * {FIELDS * lanes})"
    at = f"y + i * {target.row} + j * {target.block} + k * {vector_step(target, lanes)}"
    value = finish_code(epilogue, "a[i][j][k]", fields, residual, lanes)
    over = f"    UNROLL for (int k = 0; k < {blocks}; k++) UNROLL for (int i = 0; i < {rows}; i++)"
    if target.dtype == "f32":
        return f"{over}\n        UNROLL for (int j = 0; j < {columns}; j++) store({at}, {value});\n"
    if epilogue.activation is not None:
        value = f"({value}) * h[3]"
    return f"""\
{over} {{
        vi q[{columns + -columns % 4}];
        UNROLL for (int j = 0; j < {columns}; j++) q[j] = rint_i({value});
        UNROLL for (int j = {columns}; j < {columns + -columns % 4}; j++) q[j] = q[{columns - 1}];
        UNROLL for (int j = 0; j < {columns}; j += 4)
            put({at}, j + 4 <= {columns} ? 4 : {columns} - j, q[j], q[j + 1], q[j + 2], q[j + 3],
                isplat(g[0]), isplat(g[1]), isplat(g[2]));
    }}
"""


def _quads(part: Array) -> Array:
    """[filters, channels, *window] as [window][channels / 4][filter][4]."""
    filters, channels, *window = part.shape
    split = part.reshape(filters, channels // 4, 4, *window)
    return split.transpose(3, 4, 1, 0, 2).reshape(-1)
