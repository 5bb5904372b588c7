"""Products of two computed matrices: one is packed into panels of whole vectors, then tiles are summed up.

    c[i, j] = sum(k; a[i, k] * b[k, j])

A panel holds the same few vectors of every row of b, zeros past its last column, so a tile of c is a few rows
times one panel: the register tile of `spatial_pack`, with packing at run time.
"""

from __future__ import annotations

from dataclasses import dataclass

from tensmith.kernel.isa import Isa
from tensmith.kernel.squares import turn
from tensmith.kernel.tiles import chunks, spans, vector_chunks

_LATENCY = 8
_MOST_BLOCKS = 6


@dataclass(frozen=True)
class Panels:
    """Packed b[inner, columns]: panels of at most `blocks` vectors."""

    inner: int
    columns: int
    blocks: int
    lanes: int

    @property
    def width(self) -> int:
        """Columns, rounded up to whole vectors: the length of a row of c."""
        return -(-self.columns // self.lanes) * self.lanes

    @property
    def size(self) -> int:
        """Elements of all panels."""
        return self.inner * self.width

    def pack(self, name: str, row: int, column: int) -> str:
        """C function NAME(b, panels) for a b with these strides."""
        square = row == 1 != column and self.inner >= self._square
        fill = self._turned if square else self._copied
        nests = []
        for start, stop, step in spans(self.width // self.lanes, self.blocks):
            wide = step * self.lanes
            for first in range(start * self.lanes, stop * self.lanes, wide):
                nests.append(fill(first, min(wide, self.columns - first), wide, row, column))
                nests.append(f"    w += {self.inner * wide};\n")
        return f"static void {name}(const float *restrict b, float *restrict w)\n{{\n{''.join(nests)}}}\n"

    @property
    def _square(self) -> int:
        """From so many rows on a panel is filled by squares."""
        return self.lanes

    def _copied(self, first: int, count: int, wide: int, row: int, column: int) -> str:
        """C that fills a panel element by element."""
        clear = f"memset(w, 0, {4 * self.inner * wide});\n    " if count < wide else ""
        loops = (
            f"for (int k = 0; k < {self.inner}; k++) for (int j = 0; j < {count}; j++)"
            if column == 1
            else f"for (int j = 0; j < {count}; j++) for (int k = 0; k < {self.inner}; k++)"
        )
        return f"""\
    {clear}{loops}
        w[k * {wide} + j] = b[k * {row} + ({first} + j) * {column}];
"""

    def _turned(self, first: int, count: int, wide: int, row: int, column: int) -> str:
        """C that fills a panel from columns whose elements lie together, by squares turned in registers."""
        lanes = self.lanes
        exists = f"if (j + c < {count}) " if count < wide else ""
        return f"""\
    for (int j = 0; j < {wide}; j += {lanes}) for (int n = 0; n < {self.inner}; n += {lanes}) {{
        const int k = n < {self.inner - lanes} ? n : {self.inner - lanes};
        vf a[{lanes}] = {{{{0}}}};
        UNROLL for (int c = 0; c < {lanes}; c++) {exists}a[c] = load(b + ({first} + j + c) * {column} + k);
{turn("a", lanes, 8)}\
        UNROLL for (int c = 0; c < {lanes}; c++) store(w + (k + c) * {wide} + j, a[c]);
    }}
"""

    def product(
        self, name: str, rows: int, row: int, column: int, lying: int | None = None, summed: bool = False
    ) -> str:
        """C function NAME(a, panels, c, n): `rows` rows of a with these strides; c is dense, `width` wide.

        Of c the first n columns are wanted; where `summed`, all of the first n products. `lying`: instead of
        panels it reads b as it lies, its rows so far apart and their elements together.
        """
        text, calls = [], []
        for blocks, times, last in vector_chunks(self.columns, self.blocks, self.lanes, lying is not None):
            own, wide = f"{name}_{blocks}_{last}", blocks * self.lanes
            text.append(self._tile(own, rows, (blocks, last), row, column, lying or wide))
            step = wide if lying else self.inner * wide
            until, count = ("", "n") if summed else (" && n > 0", str(self.inner))
            less = "" if summed else f", n -= {wide}"
            calls.append(f"""\
    for (int p = 0; p < {times}{until}; p++, w += {step}, c += {wide}{less}) {own}(a, w, c, {count});
""")
        return f"""\
{"".join(text)}static void {name}(const float *a, const float *w, float *c, int n)
{{
{"".join(calls)}}}
"""

    def _tile(self, name: str, rows: int, vectors: tuple[int, int], row: int, column: int, step: int) -> str:
        """vectors: how many, and how many elements the last one has. step: from one row of b to the next."""
        blocks, last = vectors
        # A whole vector reads on in the next rows, and what it finds there goes where nobody looks.
        short = -(-(self.lanes - last) // step)
        whole = f"load(w + p * {self.lanes})"
        part = f"p == {blocks - 1} ? load_part(w + p * {self.lanes}, {last}) : {whole}"
        loops = [(f"n - {short}", whole), ("n", part)] if short else [("n", whole)]
        each = f"UNROLL for (int i = 0; i < {rows}; i++) UNROLL for (int p = 0; p < {blocks}; p++)"
        sums = [
            f"""\
    UNROLL_4 for (; k < {stop}; k++, w += {step}) {{
        vf f[{blocks}];
        UNROLL for (int p = 0; p < {blocks}; p++) f[p] = {read};
        UNROLL for (int i = 0; i < {rows}; i++) {{
            float e = a[i * {row} + k * {column}];
            UNROLL for (int p = 0; p < {blocks}; p++) s[i][p] += e * f[p];
        }}
    }}
"""
            for stop, read in loops
        ]
        return f"""\
static inline void {name}(const float *restrict a, const float *restrict w, float *restrict c, int n)
{{
    int k = 0;
    vf s[{rows}][{blocks}];
    {each} s[i][p] = splat(0);
{"".join(sums)}    {each} store(c + i * {self.width} + p * {self.lanes}, s[i][p]);
}}
"""


@dataclass(frozen=True)
class PairPanels(Panels):
    """Packed b in bfloat16: a word holds two numbers of a column, and `inner` counts words.

    depth: the numbers of a column, of which the last may stand beside a zero. What b is multiplied with are
    words, too, which `pairs` makes.
    """

    depth: int = 0

    @staticmethod
    def of(panels: Panels) -> PairPanels:
        """The same products."""
        words = -(-panels.inner // 2)
        return PairPanels(words, panels.columns, panels.blocks, panels.lanes, panels.inner)

    @staticmethod
    def words(numbers: int, lanes: int) -> int:
        """That `pairs` writes of so many numbers."""
        return -(-numbers // lanes) * lanes // 2

    @staticmethod
    def pairs(name: str, lanes: int) -> str:
        """C function NAME(x, step, n, y): the words of n numbers that are so far apart."""
        return f"""\
static void {name}(const float *x, int step, int n, float *y)
{{
    for (int j = 0; j < n; j += {lanes}) {{
        const int left = n - j < {lanes} ? n - j : {lanes};
        const float *at = x + j * step;
        vf part = step != 1 ? load_step(at, step, left) : left < {lanes} ? load_part(at, left) : load(at);
        put_bf16((uint16_t *)y + j, part);
    }}
}}
"""

    @property
    def _square(self) -> int:
        return 0

    def _turned(self, first: int, count: int, wide: int, row: int, column: int) -> str:
        """C that fills a panel from columns whose numbers lie together, by squares turned in registers."""
        lanes = self.lanes
        exists = f"if (j + c < {count}) " if count < wide else ""
        at = f"b + ({first} + j + c) * {column} + 2 * k"
        return f"""\
    for (int j = 0; j < {wide}; j += {lanes}) for (int k = 0; k < {self.inner}; k += {lanes}) {{
        vf a[{lanes}] = {{{{0}}}};
        const int first = {self.depth} - 2 * k, second = first - {lanes};
        UNROLL for (int c = 0; c < {lanes}; c++) {exists}{{
            const float *x = {at};
            vf low = first < {lanes} ? load_part(x, first) : load(x), high = splat(0);
            if (second > 0) high = second < {lanes} ? load_part(x + {lanes}, second) : load(x + {lanes});
            a[c] = pairs_bf16(low, high);
        }}
{turn("a", lanes, 8)}\
        for (int c = 0; c < {lanes} && k + c < {self.inner}; c++) store(w + (k + c) * {wide} + j, a[c]);
    }}
"""

    def _copied(self, first: int, count: int, wide: int, row: int, column: int) -> str:
        """C that fills a panel from pairs of rows."""
        lanes = self.lanes
        at = f"b + (2 * k + h) * {row} + ({first} + j) * {column}"
        part = f"load_part({at}, some)" if column == 1 else f"load_step({at}, {column}, some)"
        read = f"some == {lanes} ? load({at}) : {part}" if column == 1 else part
        return f"""\
    for (int k = 0; k < {self.inner}; k++) for (int j = 0; j < {wide}; j += {lanes}) {{
        const int left = {count} - j, some = left < {lanes} ? left : {lanes};
        vf x[2] = {{{{0}}}};
        UNROLL for (int h = 0; h < 2; h++) if (some > 0 && 2 * k + h < {self.depth}) x[h] = {read};
        store(w + k * {wide} + j, zipped_bf16(x[0], x[1]));
    }}
"""

    def _tile(self, name: str, rows: int, vectors: tuple[int, int], row: int, column: int, step: int) -> str:
        blocks, _ = vectors
        each = f"UNROLL for (int i = 0; i < {rows}; i++) UNROLL for (int p = 0; p < {blocks}; p++)"
        return f"""\
static inline void {name}(const float *restrict a, const float *restrict w, float *restrict c, int n)
{{
    vf s[{rows}][{blocks}];
    {each} s[i][p] = splat(0);
    UNROLL_4 for (int k = 0; k < n; k++, w += {step}) {{
        vf f[{blocks}];
        UNROLL for (int p = 0; p < {blocks}; p++) f[p] = load(w + p * {self.lanes});
        UNROLL for (int i = 0; i < {rows}; i++) {{
            int32_t e;
            memcpy(&e, a + i * {row} + k, sizeof e);
            UNROLL for (int p = 0; p < {blocks}; p++) s[i][p] = dot_bf16(s[i][p], e, f[p]);
        }}
    }}
    {each} store(c + i * {self.width} + p * {self.lanes}, s[i][p]);
}}
"""


def tiling(rows: int, products: list[tuple[int, int]], isa: Isa) -> tuple[int, list[Panels]]:
    """(rows of a tile, the panels) that take the fewest cycles for b's [inner, columns] of these sizes."""
    best: tuple[float, int, list[Panels]] | None = None
    for tall in range(1, min(rows, isa.registers - 2) + 1):
        cycles, panels = 0.0, []
        for inner, columns in products:
            count = -(-columns // isa.lanes)
            fitting = range(1, max(1, min(count, _MOST_BLOCKS, (isa.registers - 1) // (tall + 1))) + 1)
            spent, blocks = min((_cycles(rows, tall, count, wide) * inner, -wide) for wide in fitting)
            cycles += spent
            panels.append(Panels(inner, columns, -blocks, isa.lanes))
        if best is None or cycles < best[0]:
            best = (cycles, tall, panels)
    assert best is not None
    return best[1], best[2]


def _cycles(rows: int, tall: int, count: int, wide: int) -> float:
    """Cycles for one step of the inner sum, all tiles together."""
    return sum(
        times * many * max(here * blocks, here / 2 + blocks, _LATENCY)
        for here, times in chunks(rows, tall)
        for blocks, many in chunks(count, wide)
    )
