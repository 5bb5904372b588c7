"""Direct convolution over blocked channels: a register tile of positions x filter blocks.

    y[k,o] = sum(b, r, l < block; x[b*block + l, o*strides + r*dilations - pads] * w[k, b*block + l, r])

One weight vector holds as many filters as there are lanes; each of its uses multiplies it by one broadcast
element of x, so a tile of P positions and B blocks does P*B multiply-adds for P + B loads. "Spatial pack" is
the name that TVM gave to the layout (Chen et al., OSDI 2018); Georganas et al., SC 2018, argue the tile.

The loops are the same for all element types; how they multiply is kernel.arithmetic's.

f16: x and y are floats in memory, weights are halves, of which a vector has twice as many. A vector of x is
rounded once for all filters of a tile. Sums are halves too and widened for the epilogue, so that with
u = 2^-11

    |error| <= (depth + 2) u / (1 - (depth + 2) u) * sum |x||w|       (Higham, 2002, eq. 3.5)

unless numbers leave the range of halves: products and sums beyond 65504 become infinite, as they do in ONNX
models of 16-bit floats.

bf16: x and y are floats in memory. Pairs of channels are multiplied and summed in floats. x is first rounded
into scratch memory, so that each of its elements is rounded once; weights are rounded when they are packed.
With u = 2^-8 (bfloat16) and v = 2^-24 (float)

    |error| <= ((1 + u)^2 (1 + (depth + 2) v) - 1) * sum |x||w|          (Higham, 2002, eq. 3.5)

which is about 2^-7 of that sum. The instruction (VDPBF16PS, Intel SDM vol. 2) rounds to nearest even
whatever the mode is, and takes and makes zero in place of numbers below 2^-126; what is not finite stays so.
Weights beyond 3.39e38 become infinite.

u8: bytes by codes (int8) summed in 32 bits, four channels at a time ("VNNI" layout); `bias` are the words
that kernel.quantized.constants makes, which see for the rounding. Images of few channels, and the rows of a
matrix product, lie channels last without padding, so that a row of the window is one run of bytes and the
four are consecutive bytes of it. The target may be u8 or f32, so may the residual.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from tensmith.errors import EngineError
from tensmith.formula.arith import Array
from tensmith.formula.poly import Dim, Poly
from tensmith.kernel.algorithm import Cost, Kernel, algorithm
from tensmith.kernel.arithmetic import ARITHMETICS, Arithmetic, arithmetic
from tensmith.kernel.buffer import Buffer, aligned
from tensmith.kernel.byte_sums import finish_cycles, finish_rows, finish_vectors
from tensmith.kernel.epilogue import Epilogue
from tensmith.kernel.groups import wide_groups, widen_groups
from tensmith.kernel.isa import Isa
from tensmith.kernel.nest import (
    LANE,
    TOGETHER,
    Axis,
    Based,
    Fetched,
    ForEach,
    MultiplyAdd,
    Operand,
    Prefetch,
    Ragged,
    Registers,
    SumOver,
    Verbatim,
    apart,
    printed,
)
from tensmith.kernel.problem import ConvolutionProblem
from tensmith.kernel.quantized import FIELDS
from tensmith.kernel.register_tiles import layouts, store_tile, vector_step
from tensmith.kernel.tiles import (
    Extent,
    chunks,
    fetched_ahead,
    output_extent,
    over_tiles,
    read_buffer,
    tiles,
    vector_chunks,
    walked_extent,
)

# A tile must keep the multiply-add units busy for their latency, and its loop and stores cost cycles too.
_LATENCY = 8
_TILE_OVERHEAD = 24
_MOST_CANDIDATES = 8
# Of a tile; more positions than any register file has places for.
_MOST_BLOCKS, _MOST_POSITIONS = 6, 1024
# Images of at most so many channels are read as they lie: most of a block would be zeros.
_FEW_CHANNELS = {"f32": 7, "u8": 4}
# Pairs are multiplied of at least so many.
_PAIRED_CHANNELS = 8
# Bytes whose products one lane sums.
_BYTES_AT_ONCE = 4
# Reading planes, compilers spill what fills all registers, and every element is a load of its own.
_PLANE_REGISTERS = 0.77
# From so many blocks of channels on it pays to fetch the next one: behind the last there is none.
_MANY_BLOCKS = 16
# Rows that lie this many bytes apart share the few places of one line in the first cache.
_CACHE_SPAN, _CACHE_WAYS = 4096, 8
# Cycles to broadcast elements: side by side, of a plane, bytes of rows far apart.
_LOAD, _PLANE_LOAD, _BYTES_LOAD = 0.5, 1.5, 1.2
# Vectors of a tile of bytes beside sums and weights where these are widened first, and cycles of a product.
_WIDENED = (5, 2.5)
# Cycles to load a vector of floats, to round and to store it.
_ROUNDING = 2


class Chunk(NamedTuple):
    """`blocks` vectors of filters that are computed together, so many `times`.

    `last` says, as the kernel counts it, what of them exists. They read `weights` elements of w and stand for
    `stored` vectors of y.
    """

    blocks: int
    times: int
    last: int
    weights: int
    stored: int


@algorithm("spatial_pack")
@dataclass(frozen=True)
class SpatialPack(Kernel):
    """Takes any stride, dilation, group and pad. A tile has at most `positions` and `blocks` vectors of
    filters; `block` is the source's, in channels.

    A block of all channels reads a matrix product's rows as they lie, and writes rows too.

    Groups narrower than a vector are computed as wider ones whose foreign weights are zero; there an infinity
    in one channel makes its neighbours NaN.
    """

    dtypes = tuple(ARITHMETICS)

    positions: int
    blocks: int
    block: int

    @classmethod
    def lacks(cls, problem: ConvolutionProblem, isa: Isa) -> str | None:
        """Instruction sets without the element type, or of lanes that are no fours of bytes; few channels of
        bfloat16."""
        if problem.dtype == "bf16" and problem.channels < _PAIRED_CHANNELS:
            return f"{problem.channels} channels fill no block"
        if problem.dtype == "u8" and isa.lanes % _BYTES_AT_ONCE:
            return f"{isa.name} has {isa.lanes} lanes, and bytes are multiplied in fours"
        missing = {"f16": not isa.has_halves and "halves", "bf16": not isa.has_bfloat and "bfloat16"}
        word = missing.get(problem.dtype)
        return f"{isa.name} has no instructions for {word} here" if word else None

    @classmethod
    def candidates(cls, problem: ConvolutionProblem, isa: Isa) -> Iterator[Kernel]:
        """Tiles that fit the registers, cheapest first."""
        vector = arithmetic(problem).wide * isa.lanes
        most = min(-(-wide_groups(problem, vector)[2] // vector), _MOST_BLOCKS)
        for block in _blocks(problem, isa.lanes):
            found = [
                cls(problem, isa, positions, blocks, block)
                for blocks in range(1, most + 1)
                for positions in range(1, min(math.prod(problem.output), _MOST_POSITIONS) + 1)
                if _fits(problem, isa, block, positions, blocks)
            ]
            yield from sorted(found, key=cls._rank)[:_MOST_CANDIDATES]

    def _rank(self) -> tuple[float, int]:
        """Cycles; of equals, the one whose first tile of floats has most to do while weights arrive."""
        return self.cost().cycles, -self.positions * self.blocks * (self.problem.dtype == "f32")

    @property
    def adds_in_place(self) -> bool:
        """Floats and bytes, of which a tile reads all before it writes."""
        return self.problem.dtype in ("f32", "u8")

    @property
    def _how(self) -> Arithmetic:
        return arithmetic(self.problem)

    @property
    def vector(self) -> int:
        """Filters in a vector."""
        return self._how.wide * self.isa.lanes

    @property
    def halves(self) -> bool:
        """Whether half a vector's products are spared where no more filters than that are left: of bytes, on
        processors that multiply half a vector in half the time."""
        return bool(self._how.half) and self.isa.has_half_dot

    def ends_in_half(self, last: int) -> bool:
        """Whether half of a vector is computed, of which `last` filters exist."""
        return self.halves and last <= self.vector // 2

    @property
    def _in_runs(self) -> bool:
        """Whether a row of the window is read as one run of bytes."""
        return self.problem.dtype == "u8" and self.block != self.isa.lanes

    @property
    def _in_rows(self) -> bool:
        """Whether positions lie as rows of all channels."""
        p = self.problem
        return p.pointwise and p.height == 1 and self.isa.lanes != self.block == p.channels

    @property
    def source(self) -> Buffer:
        """Blocked, or channels last with slack for the last four bytes; with a halo."""
        p, dtype = self.problem, "u8" if self.problem.dtype == "u8" else "f32"
        found = read_buffer(p, self.block, dtype)
        if not self._in_runs:
            return found
        slack = -(-(-p.window[1] * p.channels % 4) // p.channels)
        return replace(found, halo=found.halo._replace(right=found.halo.right + slack))

    @property
    def _rounded(self) -> Buffer | None:
        """x in scratch memory, in blocks of one vector however the source lies; of bfloat16 only."""
        return read_buffer(self.problem, self.isa.lanes, "bf16") if self.problem.dtype == "bf16" else None

    @property
    def target(self) -> Buffer:
        """One vector a block, or rows."""
        p, block = self.problem, self.problem.filters if self._in_rows else self.isa.lanes
        return Buffer(p.filters, *p.output, block, dtype=self.source.dtype)

    @property
    def scratch_bytes(self) -> int:
        """x rounded."""
        return aligned(self._rounded.bytes) if self._rounded else 0

    @property
    def _over(self) -> tuple[int, int, int, int]:
        """What a sum goes over: channels, those of a block, rows and columns of the window.

        In runs, the bytes of a row of the window are channels of one column.
        """
        (tall, wide), channels = self.problem.window, wide_groups(self.problem, self.vector)[1]
        if self._in_runs:
            return wide * channels, wide * channels, tall, 1
        return channels, self.isa.lanes if self.problem.dtype == "bf16" else self.block, tall, wide

    @property
    def _steps(self) -> int:
        """Products behind a vector of sums."""
        channels, _, tall, wide = self._over
        return tall * wide * -(-channels // self._how.together)

    def cost(self) -> Cost:
        """Products or what it takes to load their operands; what else x and the sums go through."""
        p, lanes, dtype = self.problem, self.isa.lanes, self.problem.dtype
        groups, _, filters = wide_groups(p, self.vector)
        # Bytes may be widened, or lowered, before they are multiplied; a vector of floats is narrowed.
        product = _WIDENED[1] if dtype == "u8" and self.isa.widens(p.narrow) else 1
        more = {"f16": 1 / lanes, "u8": float(self.isa.byte_offset > 0)}.get(dtype, 0.0)
        load = self._load_cycles
        stores = 2 * self._how.wide
        cycles = 0.0
        for blocks, times, last in vector_chunks(filters, self.blocks, self.vector, self.halves):
            computed = blocks - self.ends_in_half(last) / 2
            for tile, count in tiles(output_extent(p, p.pointwise), self.positions):
                here = math.prod(tile)
                step = max(here * (computed * product + more), here * load + computed, _LATENCY)
                finish = finish_cycles(tile, blocks) if dtype == "u8" else stores * here * blocks
                cycles += times * count * (self._steps * step + finish + _TILE_OVERHEAD)
        cycles *= groups
        if dtype == "bf16":
            cycles += _ROUNDING * self.source.size / lanes
        weights = groups * self._steps * -(-filters // self.vector) * self.isa.bytes
        return Cost(cycles, self.source.bytes + self.target.bytes + weights)

    @property
    def _load_cycles(self) -> float:
        """Cycles to load and broadcast the elements of one product."""
        if self.problem.dtype == "u8":
            return _BYTES_LOAD if self._in_rows else _LOAD
        if self._in_rows and self.problem.dtype == "f32":
            row = 4 * self.problem.channels
            together = self.positions * math.gcd(row, _CACHE_SPAN) / _CACHE_SPAN
            if together > _CACHE_WAYS:
                return 3
            return _LOAD if self.positions * row <= _CACHE_WAYS * _CACHE_SPAN else 2
        return _PLANE_LOAD if self.block == 1 else _LOAD

    def pack(self, weights: Array) -> Array:
        """[group][chunk of filters][channel block][window][product of block][filter][channel of product]."""
        groups, _, filters = wide_groups(self.problem, self.vector)
        wide, (channels, block, *window) = widen_groups(weights, self.problem.groups, groups), self._over
        if self._in_runs:
            wide = wide.transpose(0, 1, 4, 2, 3).reshape(groups, filters, channels, *window)
        together, rounded = self._how.together, -(-filters // self.vector) * self.vector
        full = np.zeros((groups, rounded, channels + -channels % together, *window), self._how.packed)
        with np.errstate(over="ignore"):
            full[:, :filters, :channels] = wide
        if self.problem.dtype == "f16" and not np.isfinite(full).all():
            raise EngineError(f"a weight of a {self.problem} is beyond 65504, the largest 16-bit float")
        products = full.reshape(groups, rounded, -1, together, *window)
        width, step = self.blocks * self.vector, -(-block // together)
        return np.concatenate([
            group[start : start + width, first : first + step].transpose(3, 4, 1, 0, 2).reshape(-1)
            for group in products
            for start in range(0, rounded, width)
            for first in range(0, products.shape[2], step)
        ])  # fmt: skip

    def _x(self, memory: Buffer | None) -> Operand:
        """What is read of x; how it lies in memory is for C alone."""
        p, how = self.problem, self._how
        group, cb, i, j, u, v, c, e = map(Poly.symbol, ("group", "cb", "i", "j", "u", "v", "c", TOGETHER))
        blocks = self._over[0] // self._over[1]
        row, column = i * p.strides[0] + u * p.dilations[0], j * p.strides[1] + v * p.dilations[1]
        index = (group * blocks + cb, row, column, c * how.together + e)
        strides = (memory.plane, memory.row, memory.block, 1) if memory else ()
        return Operand("x", index, strides, how.x_type, how.unit)

    def _nest(self, tile: Extent, blocks: int, memory: Buffer | None = None, half: bool = False) -> SumOver:
        """The sums of one tile: a[i][j][k] of vectors of filters; of the last one `half` only."""
        how = self._how
        i, j, k = apart("i", tile[0]), apart("j", tile[1]), apart("k", blocks)
        cb, u, v, c, peeled = self._sums
        x, width = self._x(memory), blocks * self.vector * how.together
        group, lane, e = map(Poly.symbol, ("group", LANE, TOGETHER))
        place = (group, cb.poly, u.poly, v.poly, c.poly, k.poly * self.vector + lane, e)
        # It is read from beginning to end: what lies between its products is all that C asks for.
        w = Operand("w", place, (0, 0, 0, 0, width, how.together, 1), how.w_type, how.unit)
        weights = Registers(how.weights, "f", (k,), Fetched(w, how.load))
        element = Registers(how.taken, "e", (), Fetched(x, how.element))
        if how.wide > 1:  # a vector of x at once, whose lanes are picked
            element = replace(element, axes=(i, j), lane=c.var)
        begin, end = self._prefetches(tile, (i, j), k, x, w, memory) if memory else ((), ())
        ends = how.half if half else ""
        times = ForEach((k,), (MultiplyAdd((i, j, k), element, weights, how.product, how.together, ends),))
        each = ForEach((i, j), (times,) if element.axes else (element, times))
        products = SumOver(c, (weights, *end, each), (w,))
        if how.hint:
            products = SumOver(c, (Verbatim(how.hint), weights, each), (x, w))
        taps = SumOver(v, (Based("t", x), *begin, *([element] if element.axes else []), products))
        return SumOver(cb, (SumOver(u, (taps,)),), (x,), peeled)

    def _prefetches(
        self, tile: Extent, positions: tuple[Axis, Axis], k: Axis, x: Operand, w: Operand, memory: Buffer
    ) -> tuple[tuple[Prefetch, ...], tuple[Prefetch, ...]]:
        """The next block of channels, where no prefetcher looks so far away; weights, well ahead."""
        p, lanes, size = self.problem, self.isa.lanes, np.dtype(self._how.packed).itemsize
        apart_ = p.dtype == "f32" and p.window == (1, 1) and memory.block == lanes
        begin = (Prefetch(positions, x, memory.plane),) if apart_ and memory.blocks >= _MANY_BLOCKS else ()
        if not self._how.fetches:
            return begin, ()
        ahead = fetched_ahead(math.prod(tile), lanes, size * p.filters * p.depth)
        return begin, (Prefetch((k,), w, ahead),) if ahead else ()

    @property
    def _sums(self) -> tuple[Axis, Axis, Axis, Axis, tuple[Mapping[str, Dim], ...]]:
        """Blocks of channels or a run of bytes, the window, products of a block; how they are peeled."""
        together, (channels, block, tall, wide) = self._how.together, self._over
        full, each = channels // block, -(-block // together)
        rest = -(-(channels - full * block) // together)
        cb, u, v = Axis("cb", full + (rest != 0)), Axis("u", tall), Axis("v", wide)
        c = Axis("c", each, "UNROLL_4", Ragged("cb", full, rest))
        if self._how.wide == 1:
            return cb, u, v, c, ({},)
        # A lane of a vector is picked by a number that is known when compiling.
        peeled = [
            {"cb": rounds, "c": limit} for rounds, limit in ((full, each), (1, rest)) if rounds and limit
        ]
        return cb, u, v, replace(c, unroll="UNROLL"), tuple(peeled)

    def code(self, name: str, source: Buffer, target: Buffer, epilogue: Epilogue) -> str:
        """One function for each shape of tile, and one that walks over groups, filters and positions."""
        p, lanes, how, read = self.problem, self.isa.lanes, self._how, self._rounded or source
        bytes_, kept = p.dtype == "u8", epilogue.residual or target
        x = self._x(read)
        begin = self.begun(name, source, target, epilogue, how.w_type, how.x_type if self._rounded else "")
        before = ""
        if self._rounded:
            corner = source.address(0, -p.pads[0], -p.pads[1])
            before = _round_code(name, source, self._rounded, lanes)
            begin += f"\n    {name}_round((const float *)in + {corner}, scratch);"
        add, write = (f"i * {buffer.row} + j * {buffer.block}" for buffer in (kept, target))
        arguments = f"x + {x.offset('ij')}, w, {'h, ' if bytes_ else ''}b, r + {add}, y + {write}"
        bias = FIELDS * lanes if bytes_ else lanes if epilogue.bias else 0
        parts, image = self._parts(target), walked_extent(p, read, target, kept)
        text = [
            self._tile(name, read, target, epilogue, tile, part.blocks, part.last)
            for part in parts
            for tile, _ in tiles(image, self.positions)
        ]
        text.append(f"""\
{begin}
    for (int group = 0; group < {wide_groups(p, self.vector)[0]}; group++, x += {x.step("group")}) {{""")
        for part in parts:
            step, back = (part.stored * vector_step(buffer, lanes) for buffer in (target, kept))
            call = f"{name}_{{rows}}x{{columns}}x{part.blocks}_{part.last}({arguments});"
            text.append(f"""\
        for (int chunk = 0; chunk < {part.times}; chunk++) {{
{over_tiles(image, self.positions, call, 12)}
            w += {part.weights}; y += {step}; r += {back}; b += {part.stored * bias};
        }}""")
        return before + "\n".join([*text, "    }", "}", ""])

    def _parts(self, target: Buffer) -> list[Chunk]:
        """The chunks of filters. Rows end where they end; what lies in blocks has room for a whole vector."""
        filters, lanes, wide = wide_groups(self.problem, self.vector)[2], self.isa.lanes, self._how.wide
        depth = self._steps * self.vector * self._how.together // self._how.unit
        if wide == 1:
            found = vector_chunks(filters, self.blocks, lanes, target.block != lanes or self.halves)
            return [Chunk(blocks, times, last, blocks * depth, blocks) for blocks, times, last in found]
        stored = chunks(-(-filters // lanes), wide * self.blocks)
        return [
            Chunk(-(-size // wide), times, size, -(-size // wide) * depth, size) for size, times in stored
        ]

    def _tile(
        self,
        name: str,
        read: Buffer,
        target: Buffer,
        epilogue: Epilogue,
        tile: Extent,
        blocks: int,
        last: int,
    ) -> str:
        """The register tile: all channels and window positions of `tile` positions and `blocks` blocks."""
        how, lanes, (rows, columns), kept = self._how, self.isa.lanes, tile, epilogue.residual or target
        zero, header, unused = how.zero, "", "(void)b; (void)r;"
        if self.problem.dtype == "u8":
            zero, header = f"iload(b + k * {FIELDS * lanes})", "const float *h, "
            unused = "const quad *g = (const quad *)h;\n    (void)g; (void)r;"
            end = (
                finish_vectors(tile, blocks, target, kept, epilogue, lanes)
                if target.block == lanes
                else finish_rows(columns, blocks, last, target, kept, epilogue, lanes)
            )
        elif how.wide == 1:
            end = store_tile(tile, blocks, last, target, epilogue, lanes)
        else:
            halves = "half_of(a[i][j][k / 2], k % 2)"
            end = store_tile(tile, last, lanes, target, epilogue, lanes, halves)
        return f"""\
static void {name}_{rows}x{columns}x{blocks}_{last}(const {how.x_type} *restrict x,
        const {how.w_type} *restrict w, {header}const float *b, const {kept.c_type} *r, {target.c_type} *y)
{{
    {how.sums} a[{rows}][{columns}][{blocks}];
    {unused}
    UNROLL for (int i = 0; i < {rows}; i++) UNROLL for (int j = 0; j < {columns}; j++)
        UNROLL for (int k = 0; k < {blocks}; k++) a[i][j][k] = {zero};
{printed(self._nest(tile, blocks, read, self.ends_in_half(last)), 4)}
{end}}}
"""


def _blocks(problem: ConvolutionProblem, lanes: int) -> list[int]:
    """Channels that a block of x may hold."""
    if problem.dtype == "f16":
        return [lanes]
    few = problem.channels <= _FEW_CHANNELS.get(problem.dtype, 0) and problem.groups == 1
    if few and problem.dtype == "u8":
        return layouts(problem, lanes if problem.dilations[1] > 1 else problem.channels)
    return layouts(problem, 1 if few else lanes)


def _fits(problem: ConvolutionProblem, isa: Isa, block: int, positions: int, blocks: int) -> bool:
    """Whether the registers hold a tile."""
    if problem.dtype == "u8":
        weights, spare = (2, _WIDENED[0]) if isa.widens(problem.narrow) else (1, 1)
        return positions * blocks + weights * blocks + spare <= isa.registers
    if problem.dtype == "bf16":
        return positions * blocks + blocks + 1 < isa.registers
    return isa.fits(positions, blocks, _PLANE_REGISTERS if block == 1 else 1)


def _round_code(name: str, source: Buffer, rounded: Buffer, lanes: int) -> str:
    """C that rounds x, halo included; lanes past the last channel become zero, for the pair's sake."""
    rows, columns = rounded.plane // rounded.row, rounded.row // rounded.block
    full, rest = divmod(source.channels, lanes)
    step, at = vector_step(source, lanes), f"x + i * {source.row} + j * {source.block}"
    nests = [
        f"""\
    for (int n = 0; n < {count}; n++, x += {step}, y += {rounded.plane})
        for (int i = 0; i < {rows}; i++) for (int j = 0; j < {columns}; j++)
            put_bf16(y + i * {rounded.row} + j * {lanes}, {read});
"""
        for count, read in ((full, f"load({at})"), (int(rest > 0), f"load_part({at}, {rest})"))
        if count
    ]
    return f"static void {name}_round(const float *x, uint16_t *y)\n{{\n{''.join(nests)}}}\n\n"
