"""Depthwise convolution: one vector of channels at a time, each by its own filter.

y[c,o] = sum(r; x[c, o*strides + r*dilations - pads] * w[c,r])
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from tensmith.formula.arith import Array
from tensmith.formula.poly import Poly
from tensmith.kernel.algorithm import Cost, Kernel, algorithm
from tensmith.kernel.buffer import Buffer
from tensmith.kernel.epilogue import Epilogue
from tensmith.kernel.isa import Isa
from tensmith.kernel.nest import (
    LANE,
    Axis,
    Fetched,
    ForEach,
    MultiplyAdd,
    Operand,
    Registers,
    SumOver,
    apart,
    printed,
)
from tensmith.kernel.problem import ConvolutionProblem
from tensmith.kernel.tiles import Extent, over_tiles, read_buffer, tiles

_TILE_OVERHEAD = 8
_MOST_TAPS = 49


@algorithm("depthwise")
@dataclass(frozen=True)
class Depthwise(Kernel):
    """Takes a channel a group, any stride, dilation and pad. A tile is `positions` of one block."""

    positions: int

    @classmethod
    def lacks(cls, problem: ConvolutionProblem, isa: Isa) -> str | None:
        """Several channels a group; windows too large to unroll."""
        if not problem.depthwise:
            return "its groups hold more than one channel"
        taps = math.prod(problem.window)
        return None if taps <= _MOST_TAPS else f"its window of {taps} positions is larger than {_MOST_TAPS}"

    @classmethod
    def candidates(cls, problem: ConvolutionProblem, isa: Isa) -> Iterator[Kernel]:
        """Tiles that leave registers for the filter, cheapest first."""
        most = min(isa.registers // 2, math.prod(problem.output))
        fitting = [cls(problem, isa, positions) for positions in range(1, most + 1)]
        yield from sorted(fitting, key=lambda tile: tile.cost().cycles)[:4]

    @property
    def source(self) -> Buffer:
        """Blocks of one vector, with the pads that are read as a halo."""
        return read_buffer(self.problem, self.isa.lanes)

    def _x(self, memory: Buffer | None = None) -> Operand:
        p = self.problem
        block, i, j, u, v, lane = map(Poly.symbol, ("block", "i", "j", "u", "v", LANE))
        row, column = i * p.strides[0] + u * p.dilations[0], j * p.strides[1] + v * p.dilations[1]
        strides = (memory.plane, memory.row, memory.block, 1) if memory else ()
        return Operand("x", (block, row, column, lane), strides)

    def _nest(self, tile: Extent, memory: Buffer | None = None) -> SumOver:
        """The sums of one tile: a[i][j]."""
        (tall, wide), lanes = self.problem.window, self.isa.lanes
        i, j, u, v = apart("i", tile[0]), apart("j", tile[1]), Axis("u", tall), apart("v", wide)
        index = (Poly.symbol("block"), u.poly, v.poly, Poly.symbol(LANE))
        f = Registers(
            "vf", "f", (), Fetched(Operand("w", index, (0, wide * lanes, lanes, 1)), "load({0} + {1})")
        )
        product = MultiplyAdd((i, j), f, Fetched(self._x(memory), "load({0} + {1})"))
        return SumOver(u, (SumOver(v, (f, ForEach((i, j), (product,)))),))

    def cost(self) -> Cost:
        """A multiply-add and the better part of a load for each tap."""
        taps = math.prod(self.problem.window)
        cycles = sum(
            count * (math.prod(tile) * (1.2 * taps + 2) + taps + _TILE_OVERHEAD)
            for tile, count in tiles(self.problem.output, self.positions)
        )
        return Cost(self.target.blocks * cycles, self.source.bytes + self.target.bytes)

    def pack(self, weights: Array) -> Array:
        """[block][window][lane]."""
        taps = math.prod(self.problem.window)
        full = np.zeros((self.target.blocks * self.isa.lanes, taps), np.float32)
        full[: len(weights)] = weights.reshape(len(weights), taps)
        return full.reshape(-1, self.isa.lanes, taps).transpose(0, 2, 1).reshape(-1)

    def code(self, name: str, source: Buffer, target: Buffer, epilogue: Epilogue) -> str:
        """One function for each shape of tile, and one that walks over blocks and positions."""
        p, lanes = self.problem, self.isa.lanes
        image = p.output
        write = f"i * {target.row} + j * {lanes}"
        kept = epilogue.residual or target
        add = f"i * {kept.row} + j * {lanes}"
        call = (
            f"{name}_{{rows}}x{{columns}}(x + {self._x(source).offset('ij')}, w, b, r + {add}, y + {write});"
        )
        taps = math.prod(p.window)
        text = [self._tile(name, tile, source, target, epilogue) for tile, _ in tiles(image, self.positions)]
        text.append(f"""\
{self.begun(name, source, target, epilogue)}
    for (int block = 0; block < {target.blocks}; block++) {{
{over_tiles(image, self.positions, call, 8)}
        x += {source.plane}; w += {taps * lanes}; y += {target.plane}; r += {kept.plane};
        b += {lanes if epilogue.bias else 0};
    }}
}}
""")
        return "\n".join(text)

    def _tile(self, name: str, tile: Extent, source: Buffer, target: Buffer, epilogue: Epilogue) -> str:
        lanes, (rows, columns) = self.isa.lanes, tile
        at = f"i * {target.row} + j * {lanes}"
        kept = epilogue.residual or target
        add = f"i * {kept.row} + j * {lanes}"
        value = epilogue.apply("a[i][j]", "load(b)", f"load(r + {add})")
        return f"""\
static inline void {name}_{rows}x{columns}(const float *restrict x, const float *restrict w, const float *b,
        const float *r, float *y)
{{
    vf a[{rows}][{columns}];
    (void)b; (void)r;
    UNROLL for (int i = 0; i < {rows}; i++) UNROLL for (int j = 0; j < {columns}; j++) a[i][j] = splat(0);
{printed(self._nest(tile, source), 4)}
    UNROLL for (int i = 0; i < {rows}; i++) UNROLL for (int j = 0; j < {columns}; j++)
        store(y + {at}, {value});
}}
"""
