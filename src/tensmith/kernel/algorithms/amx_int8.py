"""Convolution of bytes by matrix instructions (Intel AMX): tiles of 16 positions by 16 filters.

    sums[p,k] += sum(e < 64; x[p,e] * w[k,e])        for all p, k < 16

is one instruction (TDPBUSD, Intel SDM vol. 2) that takes a cycle a position. A tile of x is rows of memory at
a fixed distance, one a position: bytes of a row of the window, all channels last or those of a block. Where
they lie in blocks and the window is one position, they are first put beside each other in scratch memory.
Sums and what follows them are those of spatial_pack, to the bit.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import chain, product
from typing import NamedTuple

import numpy as np

from tensmith.kernel.algorithm import Array, Cost, Kernel, algorithm
from tensmith.kernel.buffer import Buffer
from tensmith.kernel.byte_sums import finish_cycles, finish_rows, finish_vectors
from tensmith.kernel.epilogue import Epilogue
from tensmith.kernel.groups import wide_groups, widen_groups
from tensmith.kernel.isa import Isa
from tensmith.kernel.problem import ConvolutionProblem
from tensmith.kernel.quantized import FIELDS
from tensmith.kernel.register_tiles import vector_step
from tensmith.kernel.tile_sets import TileSet, TileSets
from tensmith.kernel.tiles import output_extent, read_buffer, vector_chunks

# A tile register: rows of so many bytes. There are so many registers.
_ROWS, _BYTES, _REGISTERS = 16, 64, 8
_MOST_CANDIDATES = 4
# Images of at most so many channels are read as they lie.
_FEW_CHANNELS = 4
_ALIGNMENT = 64
# Sums of so many positions are finished at once.
_FINISHED = 4
# Weights that a second cache does not keep for the next inference; those of a chunk that the first one keeps
# while positions pass by.
_KEPT_BYTES, _FIRST_CACHE = 64 << 10, 24 << 10
# Cycles to give tiles their shape, to load one, from its sums to memory; until a product is there; of a set
# of tiles; to put 16 channels of a position beside others, several at once or by themselves.
_SHAPE, _LOAD, _SUMS, _LATENCY, _OVERHEAD, _TURNED, _COPIED = 300, 8, 32, 52, 24, 1.25, 1.5


class _Distances(NamedTuple):
    """Bytes of x from one row of y to the next, one position, block of channels, row of the window, group."""

    row: int
    step: int
    plane: int
    window: int
    group: int


class _Registers(NamedTuple):
    """The tile registers of sums[tile][vector], of x[tile] and of w[vector]."""

    sums: list[list[int]]
    x: list[int]
    w: list[int]


@dataclass(frozen=True)
class _FilterChunk:
    """What the functions of a chunk of filters have in common; their names begin with `name`.

    `blocks` vectors of filters, `last` in the last one, for every set of `tiles`; x lies at `distances`, y
    and the residual as in `target` and `epilogue`. A step asks for so many `lines` of the next chunk's
    weights.
    """

    name: str
    blocks: int
    last: int
    tiles: TileSets
    distances: _Distances
    target: Buffer
    epilogue: Epilogue
    lines: int

    @property
    def kept(self) -> Buffer:
        """How the residual lies."""
        return self.epilogue.residual or self.target


@algorithm("amx_int8")
@dataclass(frozen=True)
class AmxInt8(Kernel):
    """Takes any stride, group and pad, dilation down alone.

    `tiles` of positions by `blocks` vectors of filters are summed at once; `block` is the source's and
    `written` the target's, of one vector or of all channels. Weights, bias and element types are those of
    spatial_pack.
    """

    dtypes = ("u8",)

    tiles: int
    blocks: int
    block: int
    written: int

    @classmethod
    def lacks(cls, problem: ConvolutionProblem, isa: Isa) -> str | None:
        """Processors without the instructions; windows whose columns are apart."""
        if not isa.has_tiles:
            return f"{isa.name} has no instructions for tiles here"
        return "its window is dilated along rows" if problem.dilations[1] > 1 else None

    @classmethod
    def candidates(cls, problem: ConvolutionProblem, isa: Isa) -> Iterator[Kernel]:
        """What fits the registers, cheapest first."""
        lanes, few = isa.lanes, problem.channels <= _FEW_CHANNELS
        vectors = -(-wide_groups(problem, lanes)[2] // lanes)
        sizes = [
            (tiles, blocks)
            for tiles in range(1, min(_REGISTERS, math.prod(problem.output)) + 1)
            for blocks in range(1, min(_REGISTERS, vectors) + 1)
            if tiles * blocks + min(tiles, blocks) < _REGISTERS
        ]
        read, written = (
            [lanes, all_] if problem.groups == 1 else [lanes] for all_ in (problem.channels, problem.filters)
        )
        for block, target in dict.fromkeys(product(read[1:] if few else read, written)):
            found = [cls(problem, isa, *size, block, target) for size in sizes]
            yield from sorted(found, key=lambda one: (one.cost().cycles, -one.tiles))[:_MOST_CANDIDATES]

    @property
    def adds_in_place(self) -> bool:
        """Where no position is computed twice."""
        return not any(self._sets(flat).overlap for flat in (True, False))

    @property
    def _groups(self) -> tuple[int, int, int]:
        return wide_groups(self.problem, self.isa.lanes)

    def _sets(self, flat: bool) -> TileSets:
        return TileSets(*output_extent(self.problem, flat), _ROWS, self.tiles)

    @property
    def _in_runs(self) -> bool:
        """Whether a row of the window is one run of all channels."""
        return self.block != self.isa.lanes

    @property
    def _gathers(self) -> bool:
        """Whether channels are put beside each other first."""
        return not self._in_runs and self.problem.window == (1, 1) and self._groups[1] > self.isa.lanes

    @property
    def _over(self) -> tuple[int, int, int]:
        """What a sum goes over: blocks of channels, rows of the window, bytes of a run."""
        lanes, channels, (tall, wide) = self.isa.lanes, self._groups[1], self.problem.window
        if self._in_runs:
            return 1, tall, wide * channels
        blocks = -(-channels // lanes)
        return (1, tall, blocks * lanes) if self._gathers else (blocks, tall, wide * lanes)

    @property
    def _pieces(self) -> tuple[int, int]:
        """How many pieces a run is cut into, and their bytes."""
        run = self._over[2]
        count = -(-run // _BYTES)
        each = -(-run // count)
        return count, each + -each % 4

    @property
    def _steps(self) -> int:
        """Products behind a tile of sums."""
        blocks, tall, _ = self._over
        return blocks * tall * self._pieces[0]

    @property
    def _depth(self) -> int:
        """Bytes of the weights of a vector of filters."""
        return self._steps * self._pieces[1] * self.isa.lanes

    @property
    def source(self) -> Buffer:
        """Blocked, or channels last with slack for what the last piece reads beyond its run; with a halo."""
        found, (count, each) = read_buffer(self.problem, self.block, "u8"), self._pieces
        beyond = 0 if self._gathers else -(-(count * each - self._over[2]) // self.block)
        return replace(found, halo=found.halo._replace(right=found.halo.right + beyond))

    @property
    def target(self) -> Buffer:
        """Blocks of one vector, or channels last."""
        return Buffer(self.problem.filters, *self.problem.output, self.written, dtype="u8")

    @property
    def _pitch(self) -> int:
        """Bytes of a position in scratch memory."""
        return self.isa.round_up(self.problem.channels)

    @property
    def scratch_bytes(self) -> int:
        """Positions with their channels beside each other, and what is read beyond."""
        size = math.prod(self.problem.output) * self._pitch + _BYTES
        return size + -size % _ALIGNMENT if self._gathers else 0

    def cost(self) -> Cost:
        """Products, a part of their loads, what sums go through; channels moved."""
        p, lanes, (groups, _, filters) = self.problem, self.isa.lanes, self._groups
        sets, cycles = self._sets(p.pointwise), 0.0
        for blocks, times, _ in vector_chunks(filters, self.blocks, lanes, False):
            load = _LOAD if blocks * self._depth <= _FIRST_CACHE else 2 * _LOAD
            for one, count in sets.counted.items():
                tiles = len(one.places)
                loads = tiles * sets.length / _ROWS * 2 * _LOAD + blocks * load
                step = max(tiles * blocks * sets.length, _LATENCY / 2) + loads / 4
                four, single = ((tiles, sets.length), blocks), ((tiles * sets.length, blocks), 1)
                finish = finish_cycles(*(four if self.written == lanes else single)) + tiles * blocks * _SUMS
                cycles += groups * times * count * (self._steps * step + finish + _OVERHEAD)
        if self._gathers:
            moved = _TURNED if p.strides[1] == 1 else _COPIED
            cycles += moved * math.prod(p.output) * self._pitch / lanes
        return Cost(_SHAPE + cycles, self.source.bytes + self.target.bytes + self._weight_bytes)

    @property
    def _weight_bytes(self) -> int:
        groups, _, filters = self._groups
        return groups * -(-filters // self.isa.lanes) * self._depth

    def pack(self, weights: Array) -> Array:
        """[group][chunk of filters][block of channels][row of window][piece][vector][four][filter][byte]."""
        (groups, channels, filters), lanes = self._groups, self.isa.lanes
        (blocks, tall, run), (count, each) = self._over, self._pieces
        rounded, window = self.isa.round_up(filters), self.problem.window
        full = np.zeros((groups, rounded, blocks * tall * run // math.prod(window), *window), np.int8)
        full[:, :filters, :channels] = widen_groups(weights, self.problem.groups, groups)
        blocked = full.reshape(groups, rounded, blocks, -1, *window).transpose(0, 1, 2, 4, 5, 3)
        padded = np.zeros((groups, rounded, blocks, tall, count * each), np.int8)
        padded[..., :run] = blocked.reshape(groups, rounded, blocks, tall, run)
        steps, width = padded.reshape(groups, -1, lanes, self._steps, each // 4, 4), self.blocks
        return np.concatenate([
            group[start : start + width].transpose(2, 0, 3, 1, 4).reshape(-1)
            for group in steps
            for start in range(0, len(group), width)
        ])  # fmt: skip

    def code(self, name: str, source: Buffer, target: Buffer, epilogue: Epilogue) -> str:
        """The shape of tiles, one function for each set of them, and one that walks over filters and rows."""
        p, lanes, kept = self.problem, self.isa.lanes, epilogue.residual or target
        read_flat = self._gathers or (p.pointwise and source.flat)
        sets = self._sets(read_flat and target.flat and kept.flat)
        read, (groups, _, filters) = self._distances(source, sets.width), self._groups
        text = [self._gather(name, source)] if self._gathers else []
        text.append(self._shape(f"{name}_shape", sets.length))
        calls = []
        for blocks, times, last in vector_chunks(filters, self.blocks, lanes, target.block != lanes):
            lines = self._lines(blocks, sum(sets.counted.values()))
            part = _FilterChunk(f"{name}_{blocks}_{last}", blocks, last, sets, read, target, epilogue, lines)
            text.append(self._functions(part))
            call = (
                f"{part.name}_{{number}}(x + i * {read.row} + j * {read.step}, w, f, h, b,"
                f" r + i * {kept.row} + j * {kept.block}, y + i * {target.row} + j * {target.block});"
            )
            further = f" f += {lines * self._steps * _BYTES};" if lines else ""
            step, add = (blocks * vector_step(buffer, lanes) for buffer in (target, kept))
            calls.append(f"""\
        for (int chunk = 0; chunk < {times}; chunk++) {{
            const int8_t *f = w + {blocks * self._depth};
{sets.walk(f"{{{{ {call}{further} }}}}" if further else call, 12)}
            w += {blocks * self._depth}; y += {step}; r += {add}; b += {blocks * FIELDS * lanes};
        }}
""")
        begin = self.begun(name, source, target, epilogue, "int8_t", "uint8_t" if self._gathers else "")
        if self._gathers:
            corner = source.address(0, -p.pads[0], -p.pads[1])
            begin += f"\n    {name}_gather((const uint8_t *)in + {corner}, scratch);"
        return f"""\
{"".join(text)}{begin}
    shape_tiles(&{name}_shape);
    for (int group = 0; group < {groups}; group++, x += {read.group}) {{
{"".join(calls)}    }}
    _tile_release();
}}
"""

    def _lines(self, blocks: int, sets: int) -> int:
        """Lines of the next chunk's weights to ask for at every step of every set of tiles."""
        chunk = blocks * self._pieces[1] * self.isa.lanes
        return -(-chunk // (_BYTES * sets)) if self._weight_bytes >= _KEPT_BYTES else 0

    def _distances(self, source: Buffer, width: int) -> _Distances:
        p, channels = self.problem, self._groups[1]
        if self._gathers:
            return _Distances(width * self._pitch, self._pitch, 0, 0, channels)
        (down, along), group = p.strides, channels // self.block * source.plane
        return _Distances(
            down * source.row, along * source.block, source.plane, p.dilations[0] * source.row, group
        )

    def _registers(self, tiles: int, blocks: int) -> _Registers:
        """Those of so many tiles and vectors: x or w, of which there is more, takes turns in what is left."""
        first = self.tiles * self.blocks
        sums = [[tile * self.blocks + k for k in range(blocks)] for tile in range(tiles)]
        whole = min(self.tiles, self.blocks)
        left = range(first + whole, _REGISTERS)
        held = [first + n for n in range(whole)]
        if self.tiles <= self.blocks:
            return _Registers(sums, held[:tiles], [left[k % len(left)] for k in range(blocks)])
        return _Registers(sums, [left[tile % len(left)] for tile in range(tiles)], held[:blocks])

    def _shape(self, name: str, length: int) -> str:
        """What tile registers hold: sums, positions, weights."""
        _, each = self._pieces
        sums, x, w = self._registers(self.tiles, self.blocks)
        shapes = dict.fromkeys(range(_REGISTERS), (0, 0))
        shapes |= dict.fromkeys(chain(*sums), (length, _BYTES))
        shapes |= dict.fromkeys(x, (length, each)) | dict.fromkeys(w, (each // 4, _BYTES))
        rows, bytes_ = (", ".join(map(str, column)) for column in zip(*shapes.values()))
        return f"""\
static const struct tile_shapes {name} = {{.palette = 1, .bytes = {{{bytes_}}}, .rows = {{{rows}}}}};
"""

    def _functions(self, part: _FilterChunk) -> str:
        """What finishes a few positions, and what sums each set of tiles."""
        counts = dict.fromkeys(count for count in self._cut(part.tiles.length) if count)
        finish = [self._finish(part, count) for count in counts]
        return "".join([*finish, *(self._tile(part, *one) for one in enumerate(part.tiles.counted))])

    def _cut(self, length: int) -> tuple[int, int]:
        """Positions that are finished at once, and those that are left."""
        return _FINISHED if length >= _FINISHED else 0, length % _FINISHED

    def _tile(self, part: _FilterChunk, number: int, tiles: TileSet) -> str:
        """Sums of a set of tiles, and what comes of them."""
        lanes, blocks, read, lines = self.isa.lanes, part.blocks, part.distances, part.lines
        (over, rows, _), (count, each) = self._over, self._pieces
        sums, x, w = self._registers(len(tiles.places), blocks)
        size = part.tiles.length * blocks * lanes
        places = list(enumerate(tiles.places))
        every = [(n, k) for n, _ in places for k in range(blocks)]
        begin = [f"_tile_loadd({sums[n][k]}, b + {k * FIELDS * lanes}, 0);" for n, k in every]
        images = [
            f"_tile_loadd({x[n]}, t + {i * read.row + j * read.step}, {read.step});" for n, (i, j) in places
        ]
        weights = [f"_tile_loadd({w[k]}, w + {k * each * lanes}, {_BYTES});" for k in range(blocks)]
        products = [
            [f"_tile_dpbusd({sums[n][k]}, {x[n]}, {w[k]});" for k in range(blocks)] for n, _ in places
        ]
        held, turns = (images, weights) if self.tiles <= self.blocks else (weights, images)
        of_turn = zip(*products) if turns is weights else products
        step = [*held, *(line for turn, behind in zip(turns, of_turn) for line in (turn, *behind))]
        step += [f"FETCH_FAR(f + {line * _BYTES});" for line in range(lines)]
        step += [f"f += {lines * _BYTES};"] if lines else []
        keep = [
            f"_tile_stored({sums[n][k]}, s + {n * size + k * lanes}, {4 * blocks * lanes});" for n, k in every
        ]
        done = [line for n, (i, j) in places for line in self._finished(part, n * size, i, j)]
        return f"""\
static void {part.name}_{number}(const uint8_t *x, const int8_t *w, const int8_t *f,
        const float *restrict h, const float *restrict b, const {part.kept.c_type} *r,
        {part.target.c_type} *y)
{{
    int32_t s[{len(places) * size}] __attribute__((aligned({_ALIGNMENT})));
    (void)f;
{_indented(begin, 4)}
    for (int cb = 0; cb < {over}; cb++, x += {read.plane})
    for (int u = 0; u < {rows}; u++) {{
        const uint8_t *t = x + u * {read.window};
        for (int n = 0; n < {count}; n++, t += {each}, w += {blocks * each * lanes}) {{
{_indented(step, 12)}
        }}
    }}
{_indented([*keep, *done], 4)}
}}
"""

    def _finished(self, part: _FilterChunk, sums: int, i: int, j: int) -> Iterator[str]:
        """The lines of C that finish a tile at this row and column."""
        length, (many, rest) = part.tiles.length, self._cut(part.tiles.length)
        each, kept, target = part.blocks * self.isa.lanes, part.kept, part.target
        add, write = (i * buffer.row + j * buffer.block for buffer in (kept, target))
        if many:
            yield f"for (int n = 0; n < {length - rest}; n += {many})"
            yield (
                f"    {part.name}_finish_{many}(s + {sums} + n * {each}, h, b, r + {add} + n * {kept.block},"
                f" y + {write} + n * {target.block});"
            )
        if rest:
            past = length - rest
            yield (
                f"{part.name}_finish_{rest}(s + {sums + past * each}, h, b, r + {add + past * kept.block},"
                f" y + {write + past * target.block});"
            )

    def _finish(self, part: _FilterChunk, positions: int) -> str:
        """The function that makes y of the sums of a few positions."""
        lanes, blocks, target, epilogue = self.isa.lanes, part.blocks, part.target, part.epilogue
        end = (
            finish_vectors((1, positions), blocks, target, part.kept, epilogue, lanes)
            if target.block == lanes
            else finish_rows(positions, blocks, part.last, target, part.kept, epilogue, lanes)
        )
        return f"""\
static inline void {part.name}_finish_{positions}(const int32_t *s, const float *restrict h,
        const float *restrict b, const {part.kept.c_type} *r, {target.c_type} *y)
{{
    const vi (*a)[{positions}][{blocks}] = (const void *)s;
    const quad *g = (const quad *)h;
    (void)g; (void)r;
{end}}}
"""

    def _gather(self, name: str, source: Buffer) -> str:
        """Channels of a position beside each other: four blocks of four positions at once, and the rest."""
        p, lanes, pitch = self.problem, self.isa.lanes, self._pitch
        height, width = output_extent(p, p.pointwise and source.flat)
        blocks, (down, along) = source.blocks, p.strides
        turned = (blocks - blocks % 4, width - width % 4) if along == 1 else (0, 0)
        copy = (
            f"memcpy(y + j * {pitch} + n * {lanes}, x + n * {source.plane} + j * {along * lanes}, {lanes});"
        )
        return f"""\
static void {name}_gather(const uint8_t *restrict x, uint8_t *restrict y)
{{
    for (int i = 0; i < {height}; i++, x += {down * source.row}, y += {width * pitch}) {{
        for (int n = 0; n < {turned[0]}; n += 4) for (int j = 0; j < {turned[1]}; j += 4)
            turn_bytes(y + j * {pitch} + n * {lanes}, {pitch},
                x + n * {source.plane} + j * {lanes}, {source.plane});
        for (int n = 0; n < {blocks}; n++) for (int j = n < {turned[0]} ? {turned[1]} : 0; j < {width}; j++)
            {copy}
    }}
}}
"""


def _indented(lines: Sequence[str], spaces: int) -> str:
    return "\n".join(" " * spaces + line for line in lines)
