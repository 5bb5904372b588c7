"""Convolution as a matrix product: the columns that its windows read are gathered, then multiplied (im2col).

    columns[(c,r), o] = x[c, o*strides + r*dilations - pads]
    y[k,o] = sum((c,r); w[k,(c,r)] * columns[(c,r), o])

A few vectors of positions are gathered at a time, so that their columns stay in a near cache while all
filters pass over them. Chellapilla et al., "High performance convolutional neural networks for document
processing", 2006, do it for the whole image at once.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from tensmith.formula.poly import Poly
from tensmith.kernel.algorithm import Cost, algorithm
from tensmith.kernel.buffer import Buffer
from tensmith.kernel.epilogue import Epilogue
from tensmith.kernel.nest import LANE, Axis, Fetched, Operand, Registers, SumOver, apart, printed
from tensmith.kernel.parts import load_code, store_code
from tensmith.kernel.planes import (
    PlaneKernel,
    filter_chunks,
    step_cycles,
    turning_cycles,
)
from tensmith.kernel.problem import ConvolutionProblem
from tensmith.kernel.tiles import Extent, output_extent, over_tiles, tiles, walked_extent

_TILE_OVERHEAD = 16
# Cycles of a vector gathered from one run, and by steps; of a vector of sums put away and stored.
_GATHER, _STORE = (2.0, 60.0), 4.0
# Bytes of columns and weights that a second cache keeps; cycles of a byte from beyond it.
_KEPT, _FAR_BYTE = 1 << 20, 0.05


@algorithm("gemm")
@dataclass(frozen=True)
class GemmKernel(PlaneKernel):
    """A tile is `count` filters by `vectors` vectors of columns."""

    @classmethod
    def run(cls, problem: ConvolutionProblem) -> int:
        """The image."""
        return math.prod(problem.output)

    @property
    def _pitch(self) -> int:
        """Positions of a tile: floats from one row of columns to the next."""
        return self.vectors * self.isa.lanes

    @property
    def scratch_bytes(self) -> int:
        """The columns of a tile and the sums of a chunk of filters."""
        return 4 * (self.problem.depth + self.count) * self._pitch

    def cost(self) -> Cost:
        """Cycles of every tile: gathering, products, storing; weights that no cache keeps come every time."""
        p, lanes = self.problem, self.isa.lanes
        weights = 4 * p.filters // p.groups * p.depth
        far = _FAR_BYTE * weights if weights + self.scratch_bytes > _KEPT else 0.0
        cycles = turning_cycles(self.target, self.isa) / p.groups
        for (rows, columns), times in tiles(output_extent(p, p.pointwise), self._pitch):
            gather = p.depth * rows * math.ceil(columns / lanes) * _GATHER[p.strides[1] > 1]
            product = sum(
                many * (p.depth * step_cycles(count, self.vectors, self.vectors) + _TILE_OVERHEAD)
                for count, many in filter_chunks(p, self.count)
            )
            store = _STORE * p.filters // p.groups * rows * math.ceil(columns / lanes)
            cycles += times * (gather + product + store + far)
        return Cost(p.groups * cycles, 4 * (self.source.size + self.target.size) + p.groups * weights)

    def code(self, name: str, source: Buffer, target: Buffer, epilogue: Epilogue) -> str:
        """Functions that gather, multiply and store, and one that walks over groups and positions."""
        p = self.problem
        kept = epilogue.residual or target
        image = walked_extent(p, source, target, kept)
        parts = filter_chunks(p, self.count)
        shapes = [tile for tile, _ in tiles(image, self._pitch)]
        text = [self._product(name, count) for count, _ in parts]
        text += [self._gather(name, tile, source) for tile in shapes]
        text += [self._columns(name, tile, parts, target, epilogue) for tile in shapes]
        call = (
            f"{name}_{{rows}}x{{columns}}(x + i * {p.strides[0] * source.row} + j * {p.strides[1]}, w, b, "
            f"r + i * {kept.row} + j, y + i * {target.row} + j, scratch);"
        )
        filters = p.filters // p.groups
        text.append(f"""\
{self.begun(name, source, target, epilogue)}
    for (int group = 0; group < {p.groups}; group++) {{
{over_tiles(image, self._pitch, call, 8)}
        x += {p.channels // p.groups * source.plane}; w += {filters * p.depth};
        y += {filters * target.plane}; r += {filters * kept.plane}; b += {filters if epilogue.bias else 0};
    }}
}}
""")
        return "\n".join(text)

    def _gather(self, name: str, tile: Extent, source: Buffer) -> str:
        """The columns of one tile, in the order of the weights."""
        p, (rows, columns) = self.problem, tile
        at = f"(i * {p.strides[0]} + u * {p.dilations[0]}) * {source.row} + v * {p.dilations[1]}"
        return f"""\
static void {name}_gather_{rows}x{columns}(const float *restrict x, float *restrict t)
{{
    for (int c = 0; c < {p.channels // p.groups}; c++, x += {source.plane})
        for (int u = 0; u < {p.window[0]}; u++)
            for (int v = 0; v < {p.window[1]}; v++, t += {self._pitch})
                for (int i = 0; i < {rows}; i++)
                    for (int j = 0; j < {columns}; j++) t[i * {columns} + j] = x[{at} + j * {p.strides[1]}];
}}
"""

    def _product(self, name: str, count: int) -> str:
        """`count` filters times the columns of a tile."""
        nest = replace(self, count=count)._nest()
        each = f"UNROLL for (int k = 0; k < {count}; k++) UNROLL for (int p = 0; p < {self.vectors}; p++)"
        return f"""\
static void {name}_product_{count}(const float *restrict t, const float *restrict w, float *restrict s)
{{
    vf a[{count}][{self.vectors}] = {{{{{{0}}}}}};
{printed(nest, 4)}
    {each} store(s + (k * {self.vectors} + p) * {self.isa.lanes}, a[k][p]);
}}
"""

    def _nest(self) -> SumOver:
        """The sums of one tile; t is what `_gather` puts there, a row for each channel and tap."""
        c, u, v, at, lane = map(Poly.symbol, ("c", "u", "v", "p", LANE))
        across = Poly.symbol("j") + at * self.isa.lanes + lane
        t = Operand(
            "t", (Poly.symbol("group"), c, u, v, Poly.symbol("i"), across), (0, 0, 0, self._pitch, 0, 1)
        )
        e = Registers("vf", "e", (apart("p", self.vectors),), Fetched(t, "load({0} + {1})"))
        n = Axis("n", self.problem.depth, "UNROLL_4", joins=self._taps())
        return SumOver(n, (e, self._products(e)), (t, self._weights()))

    def _columns(
        self, name: str, tile: Extent, parts: list[tuple[int, int]], target: Buffer, epilogue: Epilogue
    ) -> str:
        """All filters at one tile: its columns gathered, products, and the epilogue row by row."""
        p, lanes, (rows, columns) = self.problem, self.isa.lanes, tile
        whole, rest = columns - columns % lanes, columns % lanes
        kept = epilogue.residual or target

        def finish(j: str, here: int) -> str:
            residual = load_code(f"r + k * {kept.plane} + i * {kept.row} + {j}", here, lanes)
            sums = load_code(f"s + k * {self._pitch} + i * {columns} + {j}", here, lanes)
            value = epilogue.apply(sums, "splat(b[k])", residual)
            return f"{store_code(f'y + k * {target.plane} + i * {target.row} + {j}', value, here, lanes)};"

        stores = [f"for (int j = 0; j < {whole}; j += {lanes}) {finish('j', lanes)}"] if whole else []
        stores += [finish(str(whole), rest)] if rest else []
        calls = "".join(
            f"""\
    for (int chunk = 0; chunk < {times}; chunk++) {{
        {name}_product_{count}(t, w, s);
        for (int k = 0; k < {count}; k++) for (int i = 0; i < {rows}; i++) {{
            {" ".join(stores)}
        }}
        w += {count * p.depth}; y += {count * target.plane}; r += {count * kept.plane};
        b += {count if epilogue.bias else 0};
    }}
"""
            for count, times in parts
        )
        return f"""\
static void {name}_{rows}x{columns}(const float *x, const float *w, const float *b, const float *r, float *y,
        float *t)
{{
    float *s = t + {p.depth * self._pitch};
    (void)b; (void)r;
    {name}_gather_{rows}x{columns}(x, t);
{calls}}}
"""
