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
        nests, square = [], row == 1 != column and self.inner >= self.lanes
        for start, stop, step in spans(self.width // self.lanes, self.blocks):
            wide = step * self.lanes
            for panel in range(start, stop, step):
                first = panel * self.lanes
                count = min(wide, self.columns - first)
                if square:
                    nests.append(self._turned(first, count, wide, column))
                    continue
                clear = f"memset(w, 0, {4 * self.inner * wide});\n    " if count < wide else ""
                loops = (
                    f"for (int k = 0; k < {self.inner}; k++) for (int j = 0; j < {count}; j++)"
                    if column == 1
                    else f"for (int j = 0; j < {count}; j++) for (int k = 0; k < {self.inner}; k++)"
                )
                nests.append(f"""\
    {clear}{loops}
        w[k * {wide} + j] = b[k * {row} + ({first} + j) * {column}];
    w += {self.inner * wide};
""")
        return f"static void {name}(const float *restrict b, float *restrict w)\n{{\n{''.join(nests)}}}\n"

    def _turned(self, first: int, count: int, wide: int, column: int) -> str:
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
    w += {self.inner * wide};
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
