"""Convolution by matrix instructions (Intel AMX): tiles of 16 positions by 16 filters.

    sums[p,k] += sum(e < E; x[p,e] * w[k,e])        for all p, k < 16

is one instruction that takes a cycle a position, where E elements are 64 bytes. A tile of x is rows of memory
at a fixed distance, one a position: a piece of a row of the window, all channels last or those of a block.
What the elements are, where they are read and what becomes of sums is each algorithm's own.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np

from tensmith.formula.arith import Array
from tensmith.kernel.algorithm import Cost, Kernel
from tensmith.kernel.buffer import ALIGNMENT, Buffer
from tensmith.kernel.epilogue import Epilogue
from tensmith.kernel.groups import wide_groups, widen_groups
from tensmith.kernel.isa import Isa
from tensmith.kernel.problem import ConvolutionProblem
from tensmith.kernel.register_tiles import vector_step
from tensmith.kernel.tile_sets import TileSet, TileSets
from tensmith.kernel.tiles import output_extent, vector_chunks

# A tile register: rows of so many bytes. There are so many registers.
TILE_ROWS, TILE_BYTES, _REGISTERS = 16, 64, 8
_MOST_CANDIDATES = 4
# Sums of so many positions are finished at once.
_FINISHED = 4
# Weights that a second cache does not keep for the next inference; those of a chunk that the first one keeps
# while positions pass by.
_KEPT_BYTES, _FIRST_CACHE = 64 << 10, 24 << 10
# How far ahead weights that are read once are asked for: what is farther leaves the second cache unread.
_AHEAD_BYTES = 48 << 10
# Cycles to give tiles their shape, to load one, from its sums to memory; until a product is there; of a set
# of tiles.
_SHAPE, _LOAD, _SUMS, _LATENCY, _OVERHEAD = 300, 8, 32, 52, 24


class Distances(NamedTuple):
    """Elements of x between rows of y, positions, blocks of channels, rows of the window, groups."""

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


class TileElements(NamedTuple):
    """What is multiplied: the instruction, bytes of an element, C types of x, w and sums, and w in NumPy."""

    product: str
    bytes: int
    x: str
    w: str
    sums: str
    packed: Any

    @property
    def together(self) -> int:
        """Elements whose products one lane sums at once."""
        return 4 // self.bytes


@dataclass(frozen=True)
class FilterChunk:
    """What the functions of a chunk of filters have in common; their names begin with `name`.

    `blocks` vectors of filters, `last` in the last one, for every set of `tiles`; x lies at `distances`, y
    and the residual as in `target` and `epilogue`. A step asks for so many `lines` of weights to come: of
    the next chunk's, or of its own where these are read once.
    """

    name: str
    blocks: int
    last: int
    tiles: TileSets
    distances: Distances
    target: Buffer
    epilogue: Epilogue
    lines: int

    @property
    def kept(self) -> Buffer:
        """How the residual lies."""
        return self.epilogue.residual or self.target


@dataclass(frozen=True)
class TileProducts(Kernel):
    """`tiles` of positions by `blocks` vectors of filters are summed at once."""

    elements: ClassVar[TileElements]
    header: ClassVar[str] = ""  # the C parameter of what all filters share, if there is something

    tiles: int
    blocks: int

    @classmethod
    def cheapest(cls, problem: ConvolutionProblem, isa: Isa, *layout: int) -> list[Self]:
        """A few of those that fit the registers, cheapest first. layout: the parameters beside the tiles."""
        vectors = -(-wide_groups(problem, isa.lanes)[2] // isa.lanes)
        found = [
            cls(problem, isa, tiles, blocks, *layout)
            for tiles in range(1, min(_REGISTERS, math.prod(problem.output)) + 1)
            for blocks in range(1, min(_REGISTERS, vectors) + 1)
            if tiles * blocks + min(tiles, blocks) < _REGISTERS
        ]
        return sorted(found, key=lambda one: (one.cost().cycles, -one.tiles))[:_MOST_CANDIDATES]

    @property
    @abstractmethod
    def over(self) -> tuple[int, int, int]:
        """What a sum goes over: blocks of channels, rows of the window, elements of a run."""

    @property
    @abstractmethod
    def pieces(self) -> tuple[int, int]:
        """How many pieces a run is cut into, and their elements."""

    @abstractmethod
    def reads_flat(self, source: Buffer) -> bool:
        """Whether all positions that it multiplies lie in one run."""

    @abstractmethod
    def distances(self, source: Buffer, width: int) -> Distances:
        """How x lies, of which `width` positions are walked along a row."""

    @abstractmethod
    def prepared(self, name: str, source: Buffer) -> tuple[str, str]:
        """(the C function, the C type) of what is first put into scratch memory: NAME(in, scratch); none if
        x is read as it lies."""

    @abstractmethod
    def finished(self, part: FilterChunk, positions: int) -> str:
        """C that makes y of the sums a[][positions][blocks]."""

    @abstractmethod
    def finish_cycles(self, tiles: int, length: int, blocks: int) -> float:
        """Cycles of that for so many tiles of a length."""

    @property
    @abstractmethod
    def prepare_cycles(self) -> float:
        """Cycles to fill scratch memory."""

    @property
    @abstractmethod
    def bias_elements(self) -> int:
        """Elements of the bias that a vector of filters has."""

    @abstractmethod
    def begins(self, register: int, vector: int) -> str:
        """The line of C that sums of a vector of filters begin with."""

    @property
    def adds_in_place(self) -> bool:
        """Where no position is computed twice."""
        return not any(self._sets(flat).overlap for flat in (True, False))

    @property
    def wide(self) -> tuple[int, int, int]:
        """Groups, and the channels and filters of each, where narrow ones are computed together."""
        return wide_groups(self.problem, self.isa.lanes)

    def _sets(self, flat: bool) -> TileSets:
        return TileSets(*output_extent(self.problem, flat), TILE_ROWS, self.tiles)

    @property
    def _steps(self) -> int:
        """Products behind a tile of sums."""
        blocks, tall, _ = self.over
        return blocks * tall * self.pieces[0]

    @property
    def _depth(self) -> int:
        """Elements of the weights of a vector of filters."""
        return self._steps * self.pieces[1] * self.isa.lanes

    def cost(self) -> Cost:
        """Products, a part of their loads, what sums go through; what is put into scratch memory."""
        p, lanes, (groups, _, filters) = self.problem, self.isa.lanes, self.wide
        sets, cycles = self._sets(p.pointwise), self.prepare_cycles
        for blocks, times, _ in vector_chunks(filters, self.blocks, lanes, False):
            first = blocks * self._depth * self.elements.bytes <= _FIRST_CACHE
            load = _LOAD if first else 2 * _LOAD
            for one, count in sets.counted.items():
                tiles = len(one.places)
                loads = tiles * sets.length / TILE_ROWS * 2 * _LOAD + blocks * load
                step = max(tiles * blocks * sets.length, _LATENCY / 2) + loads / 4
                finish = self.finish_cycles(tiles, sets.length, blocks) + tiles * blocks * _SUMS
                cycles += groups * times * count * (self._steps * step + finish + _OVERHEAD)
        return Cost(_SHAPE + cycles, self.source.bytes + self.target.bytes + self._weight_bytes)

    @property
    def _weight_bytes(self) -> int:
        groups, _, filters = self.wide
        return groups * -(-filters // self.isa.lanes) * self._depth * self.elements.bytes

    def pack(self, weights: Array) -> Array:
        """[group][filters][block of channels][row of window][piece][vector][product][filter][element]."""
        (groups, channels, filters), lanes, together = self.wide, self.isa.lanes, self.elements.together
        (blocks, tall, run), (count, each) = self.over, self.pieces
        rounded, window = self.isa.round_up(filters), self.problem.window
        sizes = (groups, rounded, blocks * tall * run // math.prod(window), *window)
        full = np.zeros(sizes, self.elements.packed)
        with np.errstate(over="ignore"):
            full[:, :filters, :channels] = widen_groups(weights, self.problem.groups, groups)
        blocked = full.reshape(groups, rounded, blocks, -1, *window).transpose(0, 1, 2, 4, 5, 3)
        padded = np.zeros((groups, rounded, blocks, tall, count * each), full.dtype)
        padded[..., :run] = blocked.reshape(groups, rounded, blocks, tall, run)
        steps = padded.reshape(groups, -1, lanes, self._steps, each // together, together)
        return np.concatenate([
            group[start : start + self.blocks].transpose(2, 0, 3, 1, 4).reshape(-1)
            for group in steps
            for start in range(0, len(group), self.blocks)
        ])  # fmt: skip

    def code(self, name: str, source: Buffer, target: Buffer, epilogue: Epilogue) -> str:
        """The shape of tiles, one function for each set of them, and one that walks over filters and rows."""
        lanes, kept, each = self.isa.lanes, epilogue.residual or target, self.elements
        sets = self._sets(self.reads_flat(source) and target.flat and kept.flat)
        read, (groups, _, filters) = self.distances(source, sets.width), self.wide
        before, scratch = self.prepared(f"{name}_prepare", source)
        text = [before, self._shape(f"{name}_shape", sets.length)]
        calls = []
        for blocks, times, last in vector_chunks(filters, self.blocks, lanes, target.block != lanes):
            passes = sum(sets.counted.values())
            lines, ahead = self._lines(blocks, passes), blocks * self._depth
            if passes == 1:
                ahead = min(ahead, _AHEAD_BYTES // each.bytes)
            part = FilterChunk(f"{name}_{blocks}_{last}", blocks, last, sets, read, target, epilogue, lines)
            text.append(self._functions(part))
            call = (
                f"{part.name}_{{number}}(x + i * {read.row} + j * {read.step}, w, f, {self._constants},"
                f" r + i * {kept.row} + j * {kept.block}, y + i * {target.row} + j * {target.block});"
            )
            further = f" f += {lines * self._steps * TILE_BYTES // each.bytes};" if lines else ""
            step, add = (blocks * vector_step(buffer, lanes) for buffer in (target, kept))
            calls.append(f"""\
        for (int chunk = 0; chunk < {times}; chunk++) {{
            const {each.w} *f = w + {ahead};
{sets.walk(f"{{{{ {call}{further} }}}}" if further else call, 12)}
            w += {blocks * self._depth}; y += {step}; r += {add}; b += {blocks * self.bias_elements};
        }}
""")
        begin = self.begun(name, source, target, epilogue, each.w, scratch)
        if scratch:
            corner = source.address(0, -self.problem.pads[0], -self.problem.pads[1])
            begin += f"\n    {name}_prepare((const {source.c_type} *)in + {corner}, scratch);"
        return f"""\
{"".join(text)}{begin}
    shape_tiles(&{name}_shape);
    for (int group = 0; group < {groups}; group++, x += {read.group}) {{
{"".join(calls)}    }}
    _tile_release();
}}
"""

    @property
    def _constants(self) -> str:
        """What is given to functions of what all filters share, and of the bias."""
        return "h, b" if self.header else "b"

    def _lines(self, blocks: int, sets: int) -> int:
        """Lines of weights to ask for at every step of every set of tiles: in all as many as a chunk has."""
        chunk = blocks * self.pieces[1] * self.isa.lanes * self.elements.bytes
        return -(-chunk // (TILE_BYTES * sets)) if self._weight_bytes >= _KEPT_BYTES else 0

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
        each = self.pieces[1] * self.elements.bytes
        sums, x, w = self._registers(self.tiles, self.blocks)
        shapes = dict.fromkeys(range(_REGISTERS), (0, 0))
        shapes |= dict.fromkeys(chain(*sums), (length, TILE_BYTES))
        shapes |= dict.fromkeys(x, (length, each)) | dict.fromkeys(w, (each // 4, TILE_BYTES))
        rows, bytes_ = (", ".join(map(str, column)) for column in zip(*shapes.values()))
        return f"""\
static const struct tile_shapes {name} = {{.palette = 1, .bytes = {{{bytes_}}}, .rows = {{{rows}}}}};
"""

    def _functions(self, part: FilterChunk) -> str:
        """What finishes a few positions, and what sums each set of tiles."""
        counts = dict.fromkeys(count for count in self._cut(part.tiles.length) if count)
        finish = [self._finish(part, count) for count in counts]
        return "".join([*finish, *(self._tile(part, *one) for one in enumerate(part.tiles.counted))])

    def _cut(self, length: int) -> tuple[int, int]:
        """Positions that are finished at once, and those that are left."""
        return _FINISHED if length >= _FINISHED else 0, length % _FINISHED

    def _tile(self, part: FilterChunk, number: int, tiles: TileSet) -> str:
        """Sums of a set of tiles, and what comes of them."""
        lanes, blocks, read, lines, e = self.isa.lanes, part.blocks, part.distances, part.lines, self.elements
        (over, rows, _), (count, each) = self.over, self.pieces
        sums, x, w = self._registers(len(tiles.places), blocks)
        size, line = part.tiles.length * blocks * lanes, TILE_BYTES // e.bytes
        places = list(enumerate(tiles.places))
        every = [(n, k) for n, _ in places for k in range(blocks)]
        begin = [self.begins(sums[n][k], k) for n, k in every]
        images = [
            f"_tile_loadd({x[n]}, t + {i * read.row + j * read.step}, {read.step * e.bytes});"
            for n, (i, j) in places
        ]
        weights = [f"_tile_loadd({w[k]}, w + {k * each * lanes}, {TILE_BYTES});" for k in range(blocks)]
        products = [[f"{e.product}({sums[n][k]}, {x[n]}, {w[k]});" for k in range(blocks)] for n, _ in places]
        held, turns = (images, weights) if self.tiles <= self.blocks else (weights, images)
        of_turn = zip(*products) if turns is weights else products
        step = [*held, *(text for turn, behind in zip(turns, of_turn) for text in (turn, *behind))]
        step += [f"FETCH_FAR(f + {number * line});" for number in range(lines)]
        step += [f"f += {lines * line};"] if lines else []
        keep = [
            f"_tile_stored({sums[n][k]}, s + {n * size + k * lanes}, {4 * blocks * lanes});" for n, k in every
        ]
        done = [text for n, (i, j) in places for text in self._finishing(part, n * size, i, j)]
        return f"""\
static void {part.name}_{number}(const {e.x} *x, const {e.w} *w, const {e.w} *f,
        {self.header}const float *restrict b, const {part.kept.c_type} *r, {part.target.c_type} *y)
{{
    {e.sums} s[{len(places) * size}] __attribute__((aligned({ALIGNMENT})));
    (void)f;
{_indented(begin, 4)}
    for (int cb = 0; cb < {over}; cb++, x += {read.plane})
    for (int u = 0; u < {rows}; u++) {{
        const {e.x} *t = x + u * {read.window};
        for (int n = 0; n < {count}; n++, t += {each}, w += {blocks * each * lanes}) {{
{_indented(step, 12)}
        }}
    }}
{_indented([*keep, *done], 4)}
}}
"""

    def _finishing(self, part: FilterChunk, sums: int, i: int, j: int) -> Iterator[str]:
        """The lines of C that finish a tile at this row and column."""
        length, (many, rest) = part.tiles.length, self._cut(part.tiles.length)
        each, kept, target = part.blocks * self.isa.lanes, part.kept, part.target
        add, write = (i * buffer.row + j * buffer.block for buffer in (kept, target))
        if many:
            yield f"for (int n = 0; n < {length - rest}; n += {many})"
            yield (
                f"    {part.name}_finish_{many}(s + {sums} + n * {each}, {self._constants},"
                f" r + {add} + n * {kept.block}, y + {write} + n * {target.block});"
            )
        if rest:
            past = length - rest
            yield (
                f"{part.name}_finish_{rest}(s + {sums + past * each}, {self._constants},"
                f" r + {add + past * kept.block}, y + {write + past * target.block});"
            )

    def _finish(self, part: FilterChunk, positions: int) -> str:
        """The function that makes y of the sums of a few positions."""
        vector = "vf" if self.elements.sums == "float" else "vi"
        return f"""\
static inline void {part.name}_finish_{positions}(const {self.elements.sums} *s, {self.header}
        const float *restrict b, const {part.kept.c_type} *r, {part.target.c_type} *y)
{{
    const {vector} (*a)[{positions}][{part.blocks}] = (const void *)s;
    (void)b; (void)r;
{self.finished(part, positions)}}}
"""


def _indented(lines: Sequence[str], spaces: int) -> str:
    return "\n".join(" " * spaces + line for line in lines)
