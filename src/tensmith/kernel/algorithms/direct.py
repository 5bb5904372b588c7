"""Direct convolution of planes: nothing is packed or gathered, x is read where it lies.

    y[k,o] = sum(c, r; x[c, o*strides + r*dilations - pads] * w[k,c,r])

A register tile is a run of positions of one row by a few filters. It is what the definition says with its
loops cut into tiles: the baseline of the other algorithms, and the best one where groups or images have fewer
channels than a vector has lanes.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

from tensmith.kernel.algorithm import SIGNATURE, Cost, Kernel, algorithm
from tensmith.kernel.buffer import Buffer
from tensmith.kernel.epilogue import Epilogue
from tensmith.kernel.isa import Isa
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


@algorithm
@dataclass(frozen=True)
class Direct(PlaneKernel):
    """A tile is `count` filters by `vectors` vectors of a row."""

    name: ClassVar[str] = "direct"

    @classmethod
    def candidates(cls, problem: ConvolutionProblem, isa: Isa) -> Iterator[Kernel]:
        """Tiles that fit the registers, cheapest first."""
        return cls.cheapest(problem, isa, output_extent(problem, problem.pointwise)[1])

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
        read = f"x + i * {p.strides[0] * source.row} + j * {p.strides[1]}"
        text.append(f"""\
/* {p}; {epilogue}.
   {self}. */
static void {name}({SIGNATURE})
{{
    const float *x = (const float *)in + {source.address(0, -p.pads[0], -p.pads[1])}, *w = weights, *b = bias;
    float *y = (float *)out + {target.address(0, 0, 0)};
    const float *r = {f"(const float *)residual + {kept.address(0, 0, 0)}" if epilogue.residual else "y"};
    (void)residual; (void)scratch;
    for (int group = 0; group < {p.groups}; group++, x += {p.channels // p.groups * source.plane}) {{""")
        for count, times in parts:
            places = f"{read}, w, b, r + i * {kept.row} + j, y + i * {target.row} + j"
            text.append(f"""\
        for (int chunk = 0; chunk < {times}; chunk++) {{
{over_extents(image, (1, run), f"{name}_{count}x{{columns}}({places});", 12)}
            w += {count * p.depth}; y += {count * target.plane}; r += {count * kept.plane};
            b += {count if epilogue.bias else 0};
        }}""")
        return "\n".join([*text, "    }", "}", ""])

    def _tile(
        self, name: str, count: int, width: int, source: Buffer, target: Buffer, epilogue: Epilogue
    ) -> str:
        """The register tile: all channels and taps of `count` filters at `width` positions of a row."""
        p, lanes = self.problem, self.isa.lanes
        whole, rest = divmod(width, lanes)
        vectors, step = whole + bool(rest), p.strides[1]
        kept = epilogue.residual or target

        def load(pointer: str, here: int) -> str:
            return f"load({pointer})" if here == lanes else f"load_part({pointer}, {here})"

        def read(here: int) -> str:
            at = f"t + p * {lanes * step}"
            return load(at, here) if step == 1 else f"load_step({at}, {step}, {here})"

        def finish(here: int) -> str:
            residual = load(f"r + k * {kept.plane} + p * {lanes}", here)
            value = epilogue.apply("a[k][p]", "splat(b[k])", residual)
            at = f"y + k * {target.plane} + p * {lanes}"
            return f"store({at}, {value});" if here == lanes else f"store_part({at}, {value}, {here});"

        last_read = f"{{ enum {{ p = {whole} }}; e[p] = {read(rest)}; }}" if rest else ""
        last_store = f"{{ enum {{ p = {whole} }}; {finish(rest)} }}" if rest else ""
        return f"""\
static void {name}_{count}x{width}(const float *restrict x, const float *restrict w, const float *b,
        const float *r, float *y)
{{
    vf a[{count}][{vectors}] = {{{{{{0}}}}}}, e[{vectors}];
    (void)b; (void)r;
    for (int c = 0; c < {p.channels // p.groups}; c++, x += {source.plane})
    for (int u = 0; u < {p.window[0]}; u++)
    for (int v = 0; v < {p.window[1]}; v++, w += {count}) {{
        const float *t = x + u * {p.dilations[0] * source.row} + v * {p.dilations[1]};
        UNROLL for (int p = 0; p < {whole}; p++) e[p] = {read(lanes)};
        {last_read}
        UNROLL for (int k = 0; k < {count}; k++)
            UNROLL for (int p = 0; p < {vectors}; p++) a[k][p] += w[k] * e[p];
    }}
    UNROLL for (int k = 0; k < {count}; k++) {{
        UNROLL for (int p = 0; p < {whole}; p++) {finish(lanes)}
        {last_store}
    }}
}}
"""
