"""Depthwise convolution of bytes: four neighbours of a row of the window to one dot product.

    sums[c,o] = start[c] + sum(u, v; x[c, o*strides + (u, v) - pads] * w[c,u,v])

Four positions of a block lie side by side in memory; two shuffles put the four bytes of each channel into its
lane, where one instruction multiplies them by four weights and sums. A row of inputs is shuffled once for all
the rows of outputs that read it, and for all columns whose windows lie within the same positions: there are
weights for each place of a window among them.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from tensmith.formula.arith import Array
from tensmith.kernel.algorithm import Cost, Kernel, algorithm
from tensmith.kernel.buffer import Buffer
from tensmith.kernel.byte_sums import finish_vectors
from tensmith.kernel.epilogue import Epilogue
from tensmith.kernel.isa import Isa
from tensmith.kernel.problem import ConvolutionProblem
from tensmith.kernel.quantized import FIELDS
from tensmith.kernel.tiles import Extent, extents, over_extents, read_halo

_TILE_OVERHEAD = 12
_MOST_TAPS = 49
_MOST_ROWS = 7
_WIDTHS = (4, 8)
# Cycles of a load with its two shuffles, of a product without the instruction, and from sums to bytes.
_SHUFFLED, _WIDENED, _FINISH = 2, 2.5, 4


@algorithm("depthwise_int8")
@dataclass(frozen=True)
class DepthwiseInt8(Kernel):
    """Takes a channel a group, any stride and pad, dilation down alone. A tile is `rows` x `columns`.

    Weights, bias and element types are those of spatial_pack.
    """

    dtypes = ("u8",)

    rows: int
    columns: int

    @classmethod
    def lacks(cls, problem: ConvolutionProblem, isa: Isa) -> str | None:
        """Several channels a group; windows too large to unroll; positions that are not side by side."""
        if not problem.depthwise:
            return "its groups hold more than one channel"
        if problem.dilations[1] > 1:
            return "its window is dilated along rows"
        taps = problem.window[0] * problem.window[1]
        return None if taps <= _MOST_TAPS else f"its window of {taps} positions is larger than {_MOST_TAPS}"

    @classmethod
    def candidates(cls, problem: ConvolutionProblem, isa: Isa) -> Iterator[Kernel]:
        """Tiles whose sums take at most half of the registers, cheapest first."""
        fitting = [
            cls(problem, isa, rows, columns)
            for rows in range(1, min(_MOST_ROWS, problem.output[0]) + 1)
            for columns in sorted({min(width, problem.output[1]) for width in _WIDTHS})
            if 2 * rows * columns <= isa.registers
        ]
        yield from sorted(fitting, key=lambda tile: tile.cost().cycles)[:4]

    @property
    def _quads(self) -> int:
        """Groups of four positions in a row of the window."""
        return -(-self.problem.window[1] // 4)

    @property
    def _shared(self) -> int:
        """Columns whose windows lie within the positions of the first one's groups."""
        return 4 * self._quads - self.problem.window[1] + 1 if self.problem.strides[1] == 1 else 1

    @property
    def source(self) -> Buffer:
        """Blocks of one vector; the halo holds the rest of the last four positions."""
        p = self.problem
        halo = read_halo(p)
        halo = halo._replace(right=halo.right + 4 * self._quads - p.window[1])
        return Buffer(p.channels, p.height, p.width, self.isa.lanes, halo, "u8")

    @property
    def target(self) -> Buffer:
        """Blocks of one vector."""
        return Buffer(self.problem.filters, *self.problem.output, self.isa.lanes, dtype="u8")

    def cost(self) -> Cost:
        """Shuffled loads, products, and from sums to bytes."""
        tall = self.problem.window[0]
        product = _WIDENED if self.isa.widens(self.problem.narrow) else 1
        cycles = 0.0
        for (rows, columns), count in extents(self.problem.output, (self.rows, self.columns)):
            loads = self._input_rows(rows) * -(-columns // self._shared) * self._quads * _SHUFFLED
            products = rows * columns * tall * self._quads * product
            finish = rows * (columns + -columns % 4) * _FINISH
            cycles += count * (loads + products + finish + _TILE_OVERHEAD)
        return Cost(self.target.blocks * cycles, self.source.bytes + self.target.bytes)

    def _input_rows(self, rows: int) -> int:
        p = self.problem
        return (rows - 1) * p.strides[0] + (p.window[0] - 1) * p.dilations[0] + 1

    def pack(self, weights: Array) -> Array:
        """[block][place of the window][row of the window][four positions][lane][position]."""
        p, lanes, shared = self.problem, self.isa.lanes, self._shared
        full = np.zeros((self.target.blocks * lanes, shared, p.window[0], 4 * self._quads), np.int8)
        for place in range(shared):
            full[: p.filters, place, :, place : place + p.window[1]] = weights[:, 0]
        split = full.reshape(-1, lanes, shared, p.window[0], self._quads, 4)
        return split.transpose(0, 2, 3, 4, 1, 5).reshape(-1)

    def code(self, name: str, source: Buffer, target: Buffer, epilogue: Epilogue) -> str:
        """One function for each shape of tile, and one that walks over blocks and positions."""
        p, lanes = self.problem, self.isa.lanes
        image, tile = p.output, (self.rows, self.columns)
        kept = epilogue.residual or target
        call = (
            f"{name}_{{rows}}x{{columns}}(x + i * {p.strides[0] * source.row} + j * {p.strides[1] * lanes},"
            f" w, h, b, r + i * {kept.row} + j * {kept.block}, y + i * {target.row} + j * {target.block});"
        )
        text = [self._tile(name, extent, source, target, epilogue) for extent, _ in extents(image, tile)]
        weights = self._shared * p.window[0] * self._quads * 4 * lanes
        text.append(f"""\
{self.begun(name, source, target, epilogue, "int8_t")}
    for (int block = 0; block < {target.blocks}; block++) {{
{over_extents(image, tile, call, 8)}
        x += {source.plane}; w += {weights}; b += {FIELDS * lanes};
        y += {target.plane}; r += {kept.plane if epilogue.residual else 0};
    }}
}}
""")
        return "\n".join(text)

    def _tile(self, name: str, tile: Extent, source: Buffer, target: Buffer, epilogue: Epilogue) -> str:
        p, lanes = self.problem, self.isa.lanes
        rows, columns = tile
        tall, quads, shared = p.window[0], self._quads, self._shared
        kept = epilogue.residual or target
        finish = finish_vectors(tile, 1, target, kept, epilogue, lanes)
        read = f"x + s * {source.row} + j * {p.strides[1] * lanes} + v * {4 * lanes}"
        dot = "dot_narrow" if p.narrow else "dot"
        weight = f"w + ((c * {tall} + u / {p.dilations[0]}) * {quads} + v) * {4 * lanes}"
        return f"""\
static inline void {name}_{rows}x{columns}(const uint8_t *restrict x, const int8_t *restrict w,
        const float *h, const float *b, const {kept.c_type} *r, {target.c_type} *y)
{{
    vi a[{rows}][{columns}][1];
    const quad *g = (const quad *)h;
    (void)g; (void)r;
    UNROLL for (int i = 0; i < {rows}; i++) UNROLL for (int j = 0; j < {columns}; j++) a[i][j][0] = iload(b);
    UNROLL for (int v = 0; v < {quads}; v++) UNROLL for (int s = 0; s < {self._input_rows(rows)}; s++)
        UNROLL for (int j = 0; j < {columns}; j += {shared}) {{
            vi t = taps({read});
            UNROLL for (int i = 0; i < {rows}; i++) UNROLL for (int c = 0; c < {shared}; c++) {{
                int u = s - i * {p.strides[0]};
                if (j + c < {columns} && u >= 0 && u % {p.dilations[0]} == 0 && u / {p.dilations[0]} < {tall})
                    a[i][j + c][0] = {dot}(a[i][j + c][0], t, iload({weight}));
            }}
        }}
{finish}}}
"""
