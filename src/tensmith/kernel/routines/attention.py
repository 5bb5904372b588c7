"""Batched products of computed tensors, and attention: softmax(q @ k * scale + mask) @ v without the matrix.

A few rows of scores at a time stay in the first cache from their product to the mix of values, so the whole
matrix of scores is never written (Rabe and Staats, arXiv:2112.05682, for the idea). Rows are summed in full,
not in parts as for long sequences.
"""

from __future__ import annotations

from dataclasses import dataclass

from tensmith.kernel.buffer import Buffer
from tensmith.kernel.epilogue import literal
from tensmith.kernel.isa import Isa
from tensmith.kernel.panels import PairPanels, Panels, tiling
from tensmith.kernel.routine import Routine
from tensmith.kernel.routines.strided import StridedOperand
from tensmith.kernel.tiles import chunks
from tensmith.kernel.view import StridedView, collapsed


@dataclass(frozen=True)
class AttentionRoutine(Routine):
    """out[.., i, :] = softmax(q[.., i, :] @ k * scale + mask) @ v; without v: q @ k * scale, no softmax.

    q: [.., rows, inner], k: [.., inner, columns], v: [.., columns, size], mask: [.., rows, columns], all
    broadcast over the same leading axes; `out` says where the rows of the result go. Columns behind the last
    one that any row of a tile sees are not computed: 0 times v counts as 0, whatever v is. Where `blind`, a
    row of the softmax that is no numbers, as where the mask is -inf throughout, counts as zeros. With
    `bfloat` the factors of both products are rounded to bfloat16, and summed in floats.
    """

    q: StridedOperand
    k: StridedOperand
    v: StridedOperand | None
    mask: StridedOperand | None
    out: StridedView
    scale: float
    isa: Isa
    blind: bool = False
    bfloat: bool = False

    @property
    def _tiling(self) -> tuple[int, list[Panels]]:
        rows, inner = self.q.view.shape[-2:]
        columns = self.k.view.shape[-1]
        sizes = [(inner, columns), *([(columns, self.v.view.shape[-1])] if self.v else [])]
        tall, panels = tiling(rows, sizes, self.isa)
        return tall, [PairPanels.of(panel) for panel in panels] if self.bfloat else panels

    @property
    def scratch_bytes(self) -> int:
        """The panels of one head, the scores of a tile and its mixed values, and what each tile sees."""
        tall, panels = self._tiling
        tiles = -(-self.q.view.shape[-2] // tall) if self._looks else 0
        return 4 * (sum(panel.size + tall * panel.width for panel in panels) + tall * self._words + tiles)

    @property
    def _words(self) -> int:
        """That a row of the first factor of a product takes as pairs, of the wider one."""
        widest = max(self.q.view.shape[-1], self.k.view.shape[-1] if self.v else 0)
        return PairPanels.words(widest, self.isa.lanes) if self.bfloat else 0

    @property
    def _looks(self) -> bool:
        """Whether columns that no row of a tile sees are looked for in the mask."""
        return self.mask is not None and self.v is not None and self.mask.view.strides[-1] == 1

    def _lying(self, side: StridedOperand, tall: int) -> int | None:
        """How far rows of keys or values are apart, where packing them would not pay: one tile reads them."""
        step, element = side.view.strides[-2:]
        if self.bfloat:
            return None
        return step if element == 1 and step > 0 and self.q.view.shape[-2] <= tall else None

    def code(self, name: str, sources: tuple[Buffer, ...], target: Buffer) -> str:
        """Functions that pack and multiply, and one that walks over heads and rows."""
        tall, panels = self._tiling
        heights = [height for height, _ in chunks(self.q.view.shape[-2], tall)]
        text = [PairPanels.pairs(f"{name}_pairs", self.isa.lanes)] if self.bfloat else []
        apart = self.q.view.strides, (panels[0].width, 1)
        rows = ((self._words, 1),) * 2 if self.bfloat else apart
        sides = [("keys", "scores", self.k, rows[0], False)]
        sides += [("values", "mix", self.v, rows[1], True)] if self.v else []
        for (packed, product, side, (*_, row, column), summed), panel in zip(sides, panels):
            lying = self._lying(side, tall)
            if lying is None:
                text.append(panel.pack(f"{name}_{packed}", *side.view.strides[-2:]))
            for height in heights:
                own = f"{name}_{product}_{height}"
                text.append(panel.product(own, height, row, column, lying, summed))
        return "\n".join([*text, self._walk(name, panels, tall)])

    def _walk(self, name: str, panels: list[Panels], tall: int) -> str:
        total = sum(panel.size for panel in panels)
        first = 0
        tiles, seen = [], []
        for height, times in chunks(self.q.view.shape[-2], tall):
            tiles.append(self._tile(name, panels, height, first, times))
            seen.append(self._seen(panels[0], height, first, times))
            first += height * times
        begin, end = self._heads("".join(seen))
        packed = [f"        {name}_keys(k, w);\n"] if self._lying(self.k, tall) is None else []
        if self.v and self._lying(self.v, tall) is None:
            packed.append(f"        {name}_values(v, w + {panels[0].size});\n")
        body = f"""\
    float *w = scratch, *s = w + {total};
    float *words = s + {tall * sum(panel.width for panel in panels)};
    int *seen = (int *)(words + {tall * self._words});
    (void)words; (void)s; (void)w; (void)seen;
{begin}
{"".join(packed)}{"".join(tiles)}{end}
"""
        how = ", softmax, mixed" if self.v else ""
        return self.function(name, f"{self.q.view.shape} by {self.k.view.shape}{how}.", body)

    def _heads(self, seen: str) -> tuple[str, str]:
        """The loops over the leading axes, and where the operands begin inside of them; how the loops end.

        seen: C that looks at the mask, as far out as that is the same.
        """
        named = {"q": self.q, "k": self.k, "v": self.v, "mask": self.mask}
        given = {key: operand for key, operand in named.items() if operand}
        views = [_leading(operand.view) for operand in given.values()]
        sizes, strides = collapsed(self.out.shape[:-2], [_leading(self.out), *views])
        loops = [f"    for (int h{a} = 0; h{a} < {size}; h{a}++)" for a, size in enumerate(sizes)]

        def at(offset: int, steps: tuple[int, ...]) -> str:
            return " + ".join([str(offset), *(f"h{a} * {step}" for a, step in enumerate(steps) if step)])

        lines = {
            key: f"        const float *{key} = {operand.pointer} + {at(operand.view.offset, steps)};"
            for (key, operand), steps in zip(given.items(), strides[1:])
        }
        inside = [f"        float *y = out + {at(self.out.offset, strides[0])};"]
        if not seen:
            return "\n".join([*loops, "    {", *inside, *lines.values()]), "    }"
        *_, steps = strides
        depth = max((a + 1 for a, step in enumerate(steps) if step), default=0)
        looked = [*loops[:depth], "    {", lines.pop("mask"), "        int *at = seen;", seen.rstrip("\n")]
        inside += [*lines.values(), "        at = seen;"]
        return "\n".join([*looked, *loops[depth:], "    {", *inside]), "    }}"

    def _tile(self, name: str, panels: list[Panels], height: int, first: int, times: int) -> str:
        """C for `times` tiles of `height` rows from row `first` on."""
        scores = panels[0]
        stop, row = first + height * times, self.q.view.strides[-2]
        keys = "w" if self._lying(self.k, height) is None else "k"
        finish = self._softmax(name, panels, height) if self.v else self._scaled(scores, height)
        return f"""\
        for (int i = {first}; i < {stop}; i += {height}) {{
            int n = {"*at++" if self._looks else scores.columns};
{self._multiplied(name, "scores", height, f"q + i * {row}", keys, "s")}{finish}        }}
"""

    def _softmax(self, name: str, panels: list[Panels], height: int) -> str:
        scores, mixed = panels
        assert self.v is not None
        values = f"w + {scores.size}" if self._lying(self.v, height) is None else "v"
        return f"""\
            float total[{height}];
            for (int r = 0; r < {height}; r++) {{
                float *t = s + r * {scores.width};
{self._masked(scores)}\
                total[r] = row_exp_from(t, t, most_of(m), n);
{self._sighted()}            }}
            float *z = s + {height * scores.width};
{self._multiplied(name, "mix", height, "s", values, "z")}            for (int r = 0; r < {height}; r++) {{
                const float *t = z + r * {mixed.width};
                float *o = y + (i + r) * {self.out.strides[-2]}, share = 1 / total[r];
{self._written(mixed, "share")}            }}
"""

    def _multiplied(self, name: str, product: str, height: int, rows: str, panels: str, to: str) -> str:
        """C of a product of `height` rows: n columns of scores, or mixed values, n of which are summed."""
        call = f"            {name}_{product}_{height}"
        if not self.bfloat:
            return f"{call}({rows}, {panels}, {to}, n);\n"
        mixed = product == "mix"
        row, step = (self._tiling[1][0].width, 1) if mixed else self.q.view.strides[-2:]
        depth, count = ("n", "(n + 1) / 2") if mixed else (self.q.view.shape[-1], "n")
        return f"""\
            for (int r = 0; r < {height}; r++)
                {name}_pairs({rows} + r * {row}, {step}, {depth}, words + r * {self._words});
{call}(words, {panels}, {to}, {count});
"""

    def _seen(self, scores: Panels, height: int, first: int, times: int) -> str:
        """How many columns each of `times` tiles sees, by whole vectors: behind them the mask is -inf."""
        if not self._looks:
            return ""
        assert self.mask is not None
        row, lanes, columns = self.mask.view.strides[-2], scores.lanes, scores.columns
        count = f"{columns} - j < {lanes} ? {columns} - j : {lanes}"
        return f"""\
        for (int i = {first}; i < {first + height * times}; i += {height}) {{
            int n = {columns}, some = 0;
            for (int j = {(columns - 1) // lanes * lanes}; j > 0; j -= {lanes}) {{
                const int c = {count};
                vi sees = {{0}};
                for (int r = 0; r < {height if row else 1}; r++)
                    sees |= load_part(mask + (i + r) * {row} + j, c) != splat(-INFINITY);
                sees &= first_lanes(c);
                for (int l = 0; l < {lanes}; l++) some |= sees[l];
                if (some) break;
                n = j;
            }}
            *at++ = n;
        }}
"""

    def _sighted(self) -> str:
        """Zeros for a row that is no numbers."""
        if not self.blind:
            return ""
        return """\
                if (total[r] != total[r]) memset(t, 0, n * sizeof *t), total[r] = 1;
"""

    def _masked(self, scores: Panels) -> str:
        """t = t * scale + mask, and in m the largest of it, lane by lane."""
        lanes = scores.lanes
        whole = part = f"load(t + j) * splat({literal(self.scale)})"
        if self.mask is not None:
            row, column = self.mask.view.strides[-2:]
            at = f"mask + (i + r) * {row} + j * {column}"
            if column == 1:
                whole, part = f"{whole} + load({at})", f"{part} + load_part({at}, n - j)"
            elif column:
                whole, part = (
                    f"{value} + load_step({at}, {column}, {count})"
                    for value, count in ((whole, str(lanes)), (part, "n - j"))
                )
            else:
                whole = part = f"{whole} + splat(({at})[0])"
        rest = f"""\
                if (j < n) {{
                    store(t + j, u = {part});
                    m = vmax(m, vselect(first_lanes(n - j), u, m));
                }}
"""
        return f"""\
                vf u, m = splat(-INFINITY);
                int j = 0;
                for (; j + {lanes} <= n; j += {lanes}) store(t + j, u = {whole}), m = vmax(m, u);
{rest if scores.columns % lanes else ""}"""

    def _scaled(self, scores: Panels, height: int) -> str:
        return f"""\
            for (int r = 0; r < {height}; r++) {{
                const float *t = s + r * {scores.width};
                float *o = y + (i + r) * {self.out.strides[-2]};
{self._written(scores, f"splat({literal(self.scale)})")}            }}
"""

    def _written(self, panels: Panels, factor: str) -> str:
        """o = t * factor, as many columns as there are."""
        step, lanes = self.out.strides[-1], panels.lanes
        whole = panels.columns - panels.columns % lanes if step == 1 else 0
        text = ""
        if whole:
            text += f"""\
                for (int j = 0; j < {whole}; j += {lanes}) store(o + j, load(t + j) * {factor});
"""
        for j in range(whole, panels.columns, lanes):
            count = min(lanes, panels.columns - j)
            text += f"""\
                store_step(o + {j * step}, load(t + {j}) * {factor}, {step}, {count});
"""
        return text


def _leading(view: StridedView) -> StridedView:
    """Without the last two axes."""
    return StridedView(view.shape[:-2], view.strides[:-2])
