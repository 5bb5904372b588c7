"""Convolution of bytes by sparse weights: four weights that are not zero to one dot product.

    rows[(c,r), o] = x[c, o*strides + r*dilations - pads]
    sums[k,o] = start[k] + sum(n < count[k]; w[k,n] * rows[place[k,n], o])

Lanes are positions, as in `sparse`. Dot products multiply the bytes of four rows at one position, which must
lie in one lane, and there are two ways to get them there. If the zeros come in fours of channels (1x4
blocks), rows are joined when they are gathered, and fours of zeros are left out. If zeros lie anywhere, few
fours are all zero (of weights of which a tenth is left, 34 % of the fours are not); so any four weights of a
filter that are not zero make a four, and their rows are joined where they are multiplied. That takes two
shuffles for each product, beside it in other units, but only a third of the products; on Zen 4 it is twice as
fast, and 3.5 times as fast as `sparse` in floats, whose rows fill the caches four times as fast.

Which weights are zero is data: see `pack_quads`. See kernel.quantized for the rounding.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from tensmith.formula.arith import Array
from tensmith.kernel.algorithm import Cost, Kernel, algorithm
from tensmith.kernel.buffer import ELEMENT_BYTES, Buffer
from tensmith.kernel.epilogue import Epilogue
from tensmith.kernel.isa import Isa
from tensmith.kernel.problem import ConvolutionProblem
from tensmith.kernel.quads import quad_functions
from tensmith.kernel.quantized import FIELDS, finish_code, put_code, rounding
from tensmith.kernel.runs import copy_bytes
from tensmith.kernel.sparse_stream import pack_quads
from tensmith.kernel.stream_kernel import StreamKernel
from tensmith.kernel.tiles import Extent, output_extent, tiles

_MOST_VECTORS = 4
_MOST_CANDIDATES = 8
# Rows are numbers of 16 bits.
_MOST_ROWS = 1 << 16
# Cycles of a vector of bytes: of four products whose rows are joined now or before; more without the
# instruction; from sums to bytes; to sort or join a row.
_PRODUCTS, _WIDENED, _FINISH, _SORT = (8.0, 4.0), 10.0, 16.0, 2.0
# Cycles of a step, of a filter, of a run of positions that is copied.
_STEP, _FILTER, _RUN = 1.0, 12.0, 2.0
# Cycles of an element gathered by steps of 1, 2 and others.
_GATHER = (0.05, 0.15, 1.0)
# Bytes of rows that the first cache and the second one serve.
_NEAR_BYTES, _KEPT_BYTES = 40 << 10, 600 << 10


@algorithm("sparse_int8")
@dataclass(frozen=True)
class SparseInt8(StreamKernel):
    """Takes weights that are half zeros or more: any window, stride, dilation, pad and group.

    A tile has up to `positions`; `joined` is 1 where rows are joined when they are gathered. Weights, bias
    and element types are those of spatial_pack.
    """

    dtypes = ("u8",)
    element = "quad"

    joined: int

    @classmethod
    def lacks(cls, problem: ConvolutionProblem, isa: Isa) -> str | None:
        """Weights that are mostly not zero, and sums over too many products."""
        if problem.depth + 4 * math.prod(problem.window) > _MOST_ROWS:
            return f"it sums over at most {_MOST_ROWS} products, not {problem.depth}"
        return super().lacks(problem, isa)

    @classmethod
    def candidates(cls, problem: ConvolutionProblem, isa: Isa) -> Iterator[Kernel]:
        """Whole vectors of positions, and whole rows of the image, joined at either place."""
        lengths = cls.lengths(problem, isa.bytes, _MOST_VECTORS)
        found = [cls(problem, isa, length, joined) for length in lengths for joined in (0, 1)]
        order = sorted(found, key=lambda kernel: (kernel.cost().cycles, kernel.positions, kernel.joined))
        yield from order[:_MOST_CANDIDATES]

    @property
    def _rows(self) -> int:
        """Rows of a tile, channels filled up to fours."""
        channels = self.problem.channels // self.problem.groups
        return (channels + -channels % 4) * math.prod(self.problem.window)

    @property
    def _pitch(self) -> int:
        """Bytes from one row of a tile to the next: whole vectors."""
        return -(-self.positions // self.isa.bytes) * self.isa.bytes

    @property
    def scratch_bytes(self) -> int:
        """The rows of a tile."""
        return self._rows * self._pitch

    def cost(self) -> Cost:
        """Cycles of every tile: gathering, sorting, fours of products, filters."""
        p = self.problem
        count = p.filters // p.groups
        fours = p.quads * p.depth / 4 if self.joined else (p.density * p.depth + 1.5) / 4
        product = _PRODUCTS[self.joined] + (0 if self.isa.has_dot else _WIDENED)
        slow = 1 + max(0.0, 0.5 - _NEAR_BYTES / self.scratch_bytes) + (self.scratch_bytes > _KEPT_BYTES)
        cycles = 0.0
        for (rows, columns), times in tiles(output_extent(p, p.pointwise), self.positions):
            vectors = math.ceil(rows * columns / self.isa.bytes)
            gather = rows * (_RUN + columns * _GATHER[min(p.strides[1], 3) - 1])
            sort = vectors * _SORT * (2 if self.joined else 1)
            products = fours * (vectors * product * slow + _STEP)
            finish = _FILTER + vectors * _FINISH + (rows * _RUN if rows * columns % self.isa.bytes else 0)
            cycles += times * (self._rows * (gather + sort) + count * (products + finish))
        stream = p.filters * fours * (6 if self.joined else 12)
        return Cost(p.groups * cycles, self.source.bytes + self.target.bytes + stream)

    def pack(self, weights: Array) -> Array:
        """The stream of all groups; rows are [channels / 4][window][4]."""
        channels = weights.shape[1]
        full = np.zeros((len(weights), channels + -channels % 4, *weights.shape[2:]), np.int8)
        full[:, :channels] = weights
        rows = full.reshape(len(full), full.shape[1] // 4, 4, -1).transpose(0, 1, 3, 2)
        return pack_quads(rows.reshape(len(full), -1), bool(self.joined))

    @property
    def counts(self) -> int:
        """One for each filter."""
        return self.problem.filters

    def helpers(self, name: str, runs: Sequence[int]) -> str:
        """Functions that sort and join fours of rows, and that gather."""
        step = self.problem.strides[1]
        copies = (copy_bytes(f"{name}_gather{columns}", columns, step) for columns in runs)
        return "".join([quad_functions(name, self.isa), *copies])

    def walk(self, target: Buffer, epilogue: Epilogue) -> tuple[str, str, str]:
        """Nothing; the first filter of a group, and the numbers of all; nothing."""
        return "", f"group * {self.problem.filters // self.problem.groups}, h, b", ""

    def tile(self, name: str, tile: Extent, source: Buffer, target: Buffer, epilogue: Epilogue) -> str:
        """All rows gathered and sorted, then filter by filter."""
        p, lanes, pitch = self.problem, self.isa.lanes, self._pitch
        rows, columns = tile
        kept = epilogue.residual or target
        vectors = -(-rows * columns // self.isa.bytes)
        place = math.prod(p.window) * 4 * pitch
        return f"""\
static void {name}_{rows}x{columns}(const uint8_t *x, {name}_stream *stream, int first, const float *h,
        const float *b, const {kept.c_type} *r, {target.c_type} *y, uint8_t *scratch)
{{
    {name}_stream s = *stream;
    {target.c_type} whole[{vectors * self.isa.bytes}];
    {kept.c_type} kept[{vectors * self.isa.bytes}] = {{0}};
    const quad *g = (const quad *)h;
    (void)whole; (void)kept; (void)r; (void)g;
    for (int c = 0; c < {p.channels // p.groups}; c++, x += {source.plane}) {{
        uint8_t *t = scratch + c / 4 * {place} + c % 4 * {pitch};
        {self.gather(name, tile, source, 4 * pitch)}
    }}
{self._sort(name, vectors)}
    for (int k = first; k < first + {p.filters // p.groups}; k++) {{
        const float *f = b + k / {lanes} * {FIELDS * lanes} + k % {lanes};
        vi a[{vectors}][4];
        UNROLL for (int n = 0; n < {vectors}; n++) UNROLL for (int q = 0; q < 4; q++)
            a[n][q] = isplat(*(const quad *)f);
        for (int n = *s.counts++; n > 0; n--) {{
            vi e = isplat(*s.values++), x[4];
{self._products(name, vectors)}
        }}
{self._finish(tile, vectors, target, epilogue)}    }}
    *stream = s;
}}
"""

    def _sort(self, name: str, vectors: int) -> str:
        """C that sorts the rows of a tile, and joins them if that is done here."""
        size, pitch = self.isa.bytes, self._pitch
        sort = f"    for (int n = 0; n < {self._rows * pitch}; n += {size}) {name}_sort(scratch + n);"
        if not self.joined:
            return sort
        rows = ", ".join(f"t + {row * pitch}" for row in range(4))
        return f"""\
{sort}
    for (int row = 0; row < {self._rows}; row += 4) for (int n = 0; n < {vectors}; n++) {{
        uint8_t *t = scratch + row * {pitch} + n * {size};
        vi x[4];
        {name}_quads(x, {rows});
        UNROLL for (int q = 0; q < 4; q++) *(vi *)(t + q * {pitch}) = x[q];
    }}"""

    def _products(self, name: str, vectors: int) -> str:
        """C that multiplies four rows by four weights e."""
        size, pitch = self.isa.bytes, self._pitch
        if self.joined:
            take = f"UNROLL for (int q = 0; q < 4; q++) x[q] = *(const vi *)(t + n * {size} + q * {pitch});"
            rows = f"const uint8_t *t = scratch + *s.rows++ * {pitch};"
        else:
            take = f"{name}_quads(x, {', '.join(f't{row} + n * {size}' for row in range(4))});"
            rows = ", ".join(f"*t{row} = scratch + s.rows[{row}] * {pitch}" for row in range(4))
            rows = f"const uint8_t {rows};\n            s.rows += 4;"
        return f"""\
            {rows}
            UNROLL for (int v = 0; v < {vectors}; v++) {{
                {take.replace("n *", "v *")}
                UNROLL for (int q = 0; q < 4; q++) a[v][q] = dot(a[v][q], x[q], e);
            }}"""

    def _finish(self, tile: Extent, vectors: int, target: Buffer, epilogue: Epilogue) -> str:
        """C that stores the sums of a filter: in place if they are one run of whole vectors."""
        rows, columns = tile
        size, lanes = self.isa.bytes, self.isa.lanes
        kept = epilogue.residual or target
        whole = rows == 1 and columns % size == 0
        add, put = f"r + k * {kept.plane}", f"y + k * {target.plane}"
        before = after = ""
        if not whole and epilogue.residual:
            before = _runs(rows, f"kept + i * {columns}", f"{add} + i * {kept.row}", columns, kept)
        if not whole:
            after = _runs(rows, f"{put} + i * {target.row}", f"whole + i * {columns}", columns, target)
            add, put = "kept", "whole"
        read = "widen" if kept.dtype == "u8" else "load"
        residual = f"{read}({add} + n * {size} + q * {lanes})"
        value = finish_code(epilogue, "a[n][q]", "f", residual, lanes, "splat(*({}))")
        over = f"        UNROLL for (int n = 0; n < {vectors}; n++)"
        if target.dtype == "f32":
            store = f"{over} UNROLL for (int q = 0; q < 4; q++)\n"
            store += f"            store({put} + n * {size} + q * {lanes}, {value});\n"
            return before + store + after
        if epilogue.activation is not None:
            value = f"({value}) * h[3]"
        return f"""\
{before}{over} {{
            vi z[4];
            UNROLL for (int q = 0; q < 4; q++) z[q] = {rounding(epilogue)}({value});
            {put_code(f"{put} + n * {size}", "4", "z[0], z[1], z[2], z[3]", epilogue)}
        }}
{after}"""


def _runs(rows: int, to: str, start: str, columns: int, buffer: Buffer) -> str:
    """C that copies a run of each row."""
    size = columns * ELEMENT_BYTES[buffer.dtype]
    return f"        for (int i = 0; i < {rows}; i++) memcpy({to}, {start}, {size});\n"
