"""Direct convolution of planes: nothing is packed or gathered, x is read where it lies.

    y[k,o] = sum(c, r; x[c, o*strides + r*dilations - pads] * w[k,c,r])

A register tile is a run of positions of one row by a few filters. It is what the definition says with its
loops cut into tiles: the baseline of the other algorithms, and the best one where groups or images have fewer
channels than a vector has lanes.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from tensmith.formula.poly import Poly
from tensmith.kernel.algorithm import Cost, algorithm
from tensmith.kernel.buffer import Buffer
from tensmith.kernel.epilogue import Epilogue
from tensmith.kernel.nest import LANE, Based, Fetched, Operand, Registers, SumOver, apart, printed
from tensmith.kernel.parts import load_code, store_code
from tensmith.kernel.planes import (
    PlaneKernel,
    filter_chunks,
    step_cycles,
    turning_cycles,
)
from tensmith.kernel.problem import ConvolutionProblem
from tensmith.kernel.tiles import output_extent, over_extents, spans, walked_extent

_TILE_OVERHEAD, _TAP_OVERHEAD = 16, 3
# Cycles of a vector of x: of one run, and gathered by steps.
_LOADS = (1.5, 40.0)


@algorithm("direct")
@dataclass(frozen=True)
class Direct(PlaneKernel):
    """A tile is `count` filters by `vectors` vectors of a row."""

    @classmethod
    def run(cls, problem: ConvolutionProblem) -> int:
        """A row."""
        return output_extent(problem, problem.pointwise)[1]

    def cost(self) -> Cost:
        """Cycles of every tile; a run is counted as the vectors it begins."""
        p, lanes = self.problem, self.isa.lanes
        height, width = output_extent(p, p.pointwise)
        load = _LOADS[p.strides[1] > 1]
        cycles = turning_cycles(self.target, self.isa) / p.groups
        for count, times in filter_chunks(p, self.count):
            for start, stop, run in spans(width, self.vectors * lanes):
                vectors = math.ceil(run / lanes)
                step = step_cycles(count, vectors, load * vectors) + _TAP_OVERHEAD
                tile = p.depth * step + 2 * count * vectors + _TILE_OVERHEAD
                cycles += times * height * (stop - start) / run * tile
        moved = 4 * (self.source.size + self.target.size + p.filters * p.depth)
        return Cost(p.groups * cycles, moved)

    def code(self, name: str, source: Buffer, target: Buffer, epilogue: Epilogue) -> str:
        """A function for each shape of tile, and one that walks over groups, filters and positions."""
        p = self.problem
        kept = epilogue.residual or target
        image = walked_extent(p, source, target, kept)
        run = min(image[1], self.vectors * self.isa.lanes)
        widths = [step for _, _, step in spans(image[1], run)]
        parts = filter_chunks(p, self.count)
        text = [
            self._tile(name, count, width, source, target, epilogue) for count, _ in parts for width in widths
        ]
        x = self._x(source)
        text.append(f"""\
{self.begun(name, source, target, epilogue)}
    for (int group = 0; group < {p.groups}; group++, x += {x.step("group")}) {{""")
        for count, times in parts:
            places = f"x + {x.offset('ij')}, w, b, r + i * {kept.row} + j, y + i * {target.row} + j"
            text.append(f"""\
        for (int chunk = 0; chunk < {times}; chunk++) {{
{over_extents(image, (1, run), f"{name}_{count}x{{columns}}({places});", 12)}
            w += {count * p.depth}; y += {count * target.plane}; r += {count * kept.plane};
            b += {count if epilogue.bias else 0};
        }}""")
        return "\n".join([*text, "    }", "}", ""])

    def _x(self, memory: Buffer | None = None) -> Operand:
        """What is read of x: neighbours along a row in lanes."""
        p = self.problem
        group, c, i, j, u, v, at, lane = map(Poly.symbol, ("group", "c", "i", "j", "u", "v", "p", LANE))
        plane, row = group * (p.channels // p.groups) + c, i * p.strides[0] + u * p.dilations[0]
        column = (j + at * self.isa.lanes + lane) * p.strides[1] + v * p.dilations[1]
        strides = (memory.plane, memory.row, memory.block) if memory else ()
        return Operand("x", (plane, row, column, Poly.of(0)), strides)

    def _nest(self, width: int, memory: Buffer | None = None) -> SumOver:
        """The sums of `width` positions of a row."""
        x, lanes, step = self._x(memory), self.isa.lanes, self.problem.strides[1]
        whole, rest = divmod(width, lanes)

        def read(count: int) -> str:
            at = "{0} + {1}"
            return load_code(at, count, lanes) if step == 1 else f"load_step({at}, {step}, {count})"

        axes, last = (apart("p", whole + (rest > 0)),), read(rest) if rest else ""
        e = Registers("vf", "e", axes, Fetched(x, read(lanes)), last=last)
        c, u, v = self._taps()
        taps = SumOver(v, (Based("t", x), e, self._products(e)), (self._weights(),))
        return SumOver(c, (SumOver(u, (taps,)),), (x,))

    def _tile(
        self, name: str, count: int, width: int, source: Buffer, target: Buffer, epilogue: Epilogue
    ) -> str:
        """The register tile: all channels and taps of `count` filters at `width` positions of a row."""
        lanes, kept = self.isa.lanes, epilogue.residual or target
        whole, rest = divmod(width, lanes)

        def finish(here: int) -> str:
            add, put = (f"{word} + k * {b.plane} + p * {lanes}" for word, b in (("r", kept), ("y", target)))
            value = epilogue.apply("a[k][p]", "splat(b[k])", load_code(add, here, lanes))
            return f"{store_code(put, value, here, lanes)};"

        last = f"{{ enum {{ p = {whole} }}; {finish(rest)} }}" if rest else ""
        return f"""\
static void {name}_{count}x{width}(const float *restrict x, const float *restrict w, const float *b,
        const float *r, float *y)
{{
    vf a[{count}][{whole + bool(rest)}] = {{{{{{0}}}}}};
    (void)b; (void)r;
{printed(replace(self, count=count)._nest(width, source), 4)}
    UNROLL for (int k = 0; k < {count}; k++) {{
        UNROLL for (int p = 0; p < {whole}; p++) {finish(lanes)}
        {last}
    }}
}}
"""
