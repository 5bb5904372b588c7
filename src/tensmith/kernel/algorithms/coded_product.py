"""Rows times a matrix whose weights are codes, which are unpacked in registers while they are multiplied.

    y[i,k] = sum(n; scale[k,n] * (sum(c; x[i,c] * code[k,c]) - zero[k,n] * sum(c; x[i,c]))), c in block n

With few rows the memory is what limits a product; codes of four bits are an eighth of its traffic. With more
rows a vector of weights that was unpacked is multiplied by each row of the tile. Codes and zero points are
small integers, so with u = 2^-24

    |error| <= (depth + blocks + 4) u * sum(|x| |scale| (|code| + |zero|))       (Higham, 2002, eq. 3.5)

Where x is infinite, zero points may make it NaN.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from tensmith.formula.arith import Array
from tensmith.kernel.algorithm import Cost, Kernel, algorithm
from tensmith.kernel.buffer import Buffer, aligned
from tensmith.kernel.codes import CODE_BITS, code_bytes, per_vector
from tensmith.kernel.epilogue import Epilogue
from tensmith.kernel.isa import Isa
from tensmith.kernel.problem import ConvolutionProblem
from tensmith.kernel.tiles import chunks, over_tiles, tiles, vector_chunks

_LATENCY = 4
_TILE_OVERHEAD = 24
_MOST_CANDIDATES = 8
# Rows that lie this many bytes apart share the few places of one line in the first cache.
_CACHE_SPAN, _CACHE_WAYS = 4096, 8
_CONFLICT = 1.5
# Bytes by which weights are fetched ahead.
_AHEAD = 2048


@algorithm("coded_product")
@dataclass(frozen=True)
class CodedProduct(Kernel):
    """`positions` rows times `blocks` vectors of columns. Rows lie as they are, and are written so.

    `weights` are elements of kernel.codes.CODE. In memory a chunk of vectors is [zero points] then, block by
    block, [scales][codes]; lane l of a vector of codes of four bits holds eight channels of column l.
    """

    dtypes = tuple(CODE_BITS)

    positions: int
    blocks: int

    @classmethod
    def lacks(cls, problem: ConvolutionProblem, isa: Isa) -> str | None:
        """More than products of matrices, and blocks that begin inside a vector of codes."""
        if not problem.pointwise or problem.height > 1 or problem.groups > 1:
            return "it computes products of matrices alone"
        if problem.block % per_vector(problem.dtype) and problem.block < problem.channels:
            return f"blocks of {problem.block} are no multiple of {per_vector(problem.dtype)}"
        return None

    @classmethod
    def candidates(cls, problem: ConvolutionProblem, isa: Isa) -> Iterator[Kernel]:
        """Tiles whose sums, of a block and of all, fit the registers, cheapest first.

        Several vectors of columns keep the multiply-add units busy where few rows do not.
        """
        vectors = -(-problem.filters // isa.lanes)
        fitting = [
            cls(problem, isa, positions, blocks)
            for positions in range(1, problem.width + 1)
            for blocks in range(1, min(vectors, -(-_LATENCY // positions)) + 1)
            if 2 * positions * blocks + 2 * blocks + 1 < isa.registers
        ]
        yield from sorted(fitting, key=lambda tile: (tile.cost().cycles, -tile.positions))[:_MOST_CANDIDATES]

    @property
    def source(self) -> Buffer:
        """Rows."""
        p = self.problem
        return Buffer(p.channels, 1, p.width, p.channels)

    @property
    def target(self) -> Buffer:
        """Rows."""
        p = self.problem
        return Buffer(p.filters, 1, p.width, p.filters)

    @property
    def scratch_bytes(self) -> int:
        """The sums of x over each block, where there are zero points."""
        return aligned(4 * self.problem.width * self._count) if self._shifted else 0

    @property
    def _shifted(self) -> bool:
        return self.problem.dtype == "u4"

    @property
    def _block(self) -> int:
        """Channels that share a scale."""
        return min(self.problem.block, self.problem.channels)

    @property
    def _count(self) -> int:
        """Blocks of channels, the last one perhaps not full."""
        return -(-self.problem.channels // self._block)

    @property
    def _code_bytes(self) -> int:
        """Bytes of a vector of codes."""
        return self.isa.bytes if per_vector(self.problem.dtype) > 1 else self.isa.lanes

    def _zero_bytes(self, blocks: int) -> int:
        """Bytes of the zero points of a chunk."""
        return aligned(self._count * blocks * self.isa.lanes) if self._shifted else 0

    def _chunk_bytes(self, blocks: int) -> int:
        codes = -(-self.problem.channels // per_vector(self.problem.dtype)) * self._code_bytes
        return self._zero_bytes(blocks) + blocks * (codes + self._count * self.isa.bytes)

    def cost(self) -> Cost:
        """Cycles of every tile: a multiply-add a cycle, two vector instructions of any kind."""
        p = self.problem
        cycles, moved = 0.0, 4 * (self.source.size + self.target.size)
        colliding = self.positions * math.gcd(4 * p.channels, _CACHE_SPAN) / _CACHE_SPAN
        read = _CONFLICT if colliding > _CACHE_WAYS else 0.5
        for blocks, times in chunks(-(-p.filters // self.isa.lanes), self.blocks):
            moved += times * self._chunk_bytes(blocks)
            for (_, here), count in tiles((1, p.width), self.positions):
                step = max(here * blocks, blocks * (2 + here) / 2, here * read, _LATENCY)
                ends = self._count * blocks * here * (3 if self._shifted else 1) + 2 * here * blocks
                cycles += times * count * (p.channels * step + ends + _TILE_OVERHEAD)
        return Cost(cycles, moved)

    def pack(self, weights: Array) -> Array:
        """Bytes; see the class."""
        p, lanes = self.problem, self.isa.lanes
        size = -(-p.filters // lanes) * lanes
        full = np.zeros((size, self._count * self._block), weights.dtype)
        full[: p.filters, : p.channels] = weights[:, :, 0, 0]
        parts = []
        for blocks, times in chunks(size // lanes, self.blocks):
            wide = blocks * lanes
            for chunk in np.split(full[: times * wide], times):
                parts += self._pack_chunk(chunk)
            full = full[times * wide :]
        return np.concatenate(parts)

    def _pack_chunk(self, chunk: Array) -> list[Array]:
        """The bytes of one chunk of filters."""
        lanes, parts = self.isa.lanes, []
        if self._shifted:
            zeros = np.zeros(self._zero_bytes(len(chunk) // lanes), np.uint8)
            raw = np.ascontiguousarray(chunk["zero"][:, :: self._block].T).view(np.uint8).reshape(-1)
            zeros[: raw.size] = raw
            parts.append(zeros)
        for first in range(0, chunk.shape[1], self._block):
            part = chunk[:, first : min(first + self._block, self.problem.channels)]
            parts.append(np.ascontiguousarray(part["scale"][:, 0]).view(np.uint8))
            parts.append(code_bytes(part["code"], self.problem.dtype))
        return parts

    def code(self, name: str, source: Buffer, target: Buffer, epilogue: Epilogue) -> str:
        """One function for each shape of tile, and one that walks over columns and rows."""
        p, lanes = self.problem, self.isa.lanes
        image, parts = (1, p.width), vector_chunks(p.filters, self.blocks, lanes, ragged=True)
        kept = epilogue.residual or target
        text = [
            self._tile(name, tile[1], blocks, last, source, target, epilogue)
            for blocks, _, last in parts
            for tile, _ in tiles(image, self.positions)
        ]
        text.append(f"""\
{self.begun(name, source, target, epilogue, "char")}
    float *t = scratch;
    (void)t;
{self._block_sums(source)}""")
        for blocks, times, last in parts:
            add, at = (f"j * {buffer.block}" for buffer in (kept, target))
            sums = f"t + j * {self._count}" if self._shifted else "t"
            given = f"x + j * {source.block}, {sums}, w, b, r + {add}, y + {at}"
            call = f"{name}_{{columns}}x{blocks}_{last}({given});"
            wide = blocks * lanes
            text.append(f"""\
    for (int chunk = 0; chunk < {times}; chunk++) {{
{over_tiles(image, self.positions, call, 8)}
        w += {self._chunk_bytes(blocks)}; y += {wide}; r += {wide}; b += {wide if epilogue.bias else 0};
    }}""")
        return "\n".join([*text, "}", ""])

    def _block_sums(self, source: Buffer) -> str:
        """C that sums up x over each block of each row."""
        if not self._shifted:
            return ""
        p = self.problem
        left = p.channels - (self._count - 1) * self._block
        return f"""\
    for (int i = 0; i < {p.width}; i++) for (int n = 0; n < {self._count}; n++)
        t[i * {self._count} + n] = row_sum(x + i * {source.block} + n * {self._block},
            n < {self._count - 1} ? {self._block} : {left});"""

    def _tile(
        self, name: str, rows: int, blocks: int, last: int, source: Buffer, target: Buffer,
        epilogue: Epilogue,
    ) -> str:  # fmt: skip
        """The register tile: all channels of `rows` rows and `blocks` vectors of columns."""
        lanes = self.isa.lanes
        kept = epilogue.residual or target
        each = f"UNROLL for (int i = 0; i < {rows}; i++) UNROLL for (int k = 0; k < {blocks}; k++)"
        at, add = (f"i * {buffer.block} + k * {lanes}" for buffer in (target, kept))
        bias = f"load(b + k * {lanes})"
        value = epilogue.apply("a[i][k]", bias, f"load(r + {add})")
        end = ""
        if last < lanes:
            part = epilogue.apply("a[i][k]", bias, f"load_part(r + {add}, {last})")
            end = f"""
    UNROLL for (int i = 0; i < {rows}; i++) {{
        enum {{ k = {blocks - 1} }};
        store_part(y + {at}, {part}, {last});
    }}"""
        whole, left = divmod(self.problem.channels, self._block)
        inside = self._sum_block(rows, blocks, self._block, source)
        steps = f"    for (int n = 0; n < {whole}; n++, x += {self._block}) {{{inside}    }}\n"
        if left:
            inside = self._sum_block(rows, blocks, left, source)
            steps += f"    {{\n        enum {{ n = {whole} }};{inside}    }}\n"
        zeros = f"    const char *z = w;\n    w += {self._zero_bytes(blocks)};\n" if self._shifted else ""
        return f"""\
static void {name}_{rows}x{blocks}_{last}(const float *restrict x, const float *restrict t,
        const char *restrict w, const float *b, const float *r, float *y)
{{
    vf a[{rows}][{blocks}];
    (void)t; (void)b; (void)r;
{zeros}    {each} a[i][k] = splat(0);
{steps}    UNROLL for (int i = 0; i < {rows}; i++) UNROLL for (int k = 0; k < {blocks - bool(end)}; k++)
        store(y + {at}, {value});{end}
}}
"""

    def _sum_block(self, rows: int, blocks: int, channels: int, source: Buffer) -> str:
        """C of block n: its products by codes, then by scales. `w` is moved on."""
        together, lanes = per_vector(self.problem.dtype), self.isa.lanes
        whole, rest = divmod(channels, together)
        each = f"UNROLL for (int i = 0; i < {rows}; i++) UNROLL for (int k = 0; k < {blocks}; k++)"
        sums, shift = "p[i][k]", ""
        if self._shifted:
            shift = f"""
        vf o[{blocks}];
        UNROLL for (int k = 0; k < {blocks}; k++) o[k] = bytes_of(z + k * {lanes});
        z += {blocks * lanes};"""
            sums = f"(p[i][k] - t[i * {self._count} + n] * o[k])"
        step, text = blocks * self._code_bytes, ""
        if whole:
            inside = self._multiply(rows, blocks, together, source)
            loop = f"for (int c = 0; c < {whole * together}; c += {together}, w += {step})"
            text += f"        {loop} {{{inside}        }}\n"
        if rest:
            inside = self._multiply(rows, blocks, rest, source)
            text += f"        {{\n            enum {{ c = {whole * together} }};{inside}        }}\n"
            text += f"        w += {step};\n"
        return f"""
        const float *s = (const float *)w;
        vf p[{rows}][{blocks}];
        {each} p[i][k] = splat(0);
        w += {blocks * self.isa.bytes};
{text}{shift}
        {each} a[i][k] += load(s + k * {lanes}) * {sums};
"""

    def _multiply(self, rows: int, blocks: int, channels: int, source: Buffer) -> str:
        """C of the products by one vector of codes a column vector, of which `channels` channels exist."""
        vectors = f"UNROLL for (int k = 0; k < {blocks}; k++)"
        if per_vector(self.problem.dtype) > 1:
            read = f"vi q[{blocks}];\n            {vectors} q[k] = iload(w + k * {self._code_bytes});"
            weight = "nibble(q[k], h)"
        else:
            read, weight = "", f"bytes_of(w + k * {self._code_bytes})"
        return f"""
            {read}
            {vectors} FETCH(w + k * {self._code_bytes} + {_AHEAD});
            UNROLL for (int h = 0; h < {channels}; h++) {vectors} {{
                vf f = {weight};
                UNROLL for (int i = 0; i < {rows}; i++) p[i][k] += x[i * {source.block} + c + h] * f;
            }}
"""
