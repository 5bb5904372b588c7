"""The largest or smallest elements along an axis, and where they stand."""

from __future__ import annotations

from dataclasses import dataclass

from tensmith.kernel.buffer import C_TYPES, Buffer
from tensmith.kernel.routine import Routine
from tensmith.kernel.routines.strided import StridedOperand


@dataclass(frozen=True)
class Extremes(Routine):
    """y[o, n, j] = the n-th of the `count` largest x[o, :, j], or its position if `positions` (as i64).

    x: [outer, size, inner], dense. The smallest unless `largest`. Of equals the first comes first, or the
    last if `last`. What is not a number comes before all, or behind them if `sorted_nan`.
    """

    source: StridedOperand
    outer: int
    size: int
    inner: int
    count: int
    largest: bool
    positions: bool
    last: bool = False
    sorted_nan: bool = False

    @property
    def scratch_bytes(self) -> int:
        """The elements found so far and their positions."""
        return 16 * self.count

    def code(self, name: str, sources: tuple[Buffer, ...], target: Buffer) -> str:
        """One walk along the axis; an element moves ahead of those that it beats."""
        c_type, order = C_TYPES[self.source.dtype], ">" if self.largest else "<"
        one, other = ("w", "v") if self.sorted_nan else ("v", "w")
        ahead = f"v {order} w || ({one} != {one} && {other} == {other})"
        ahead += " || v == w || (v != v && w != w)" if self.last else ""
        made, result = ("int64_t", "place[n]") if self.positions else (c_type, "best[n]")
        before = f"static inline int {name}_ahead({c_type} v, {c_type} w) {{ return {ahead}; }}\n"
        body = f"""\
    {c_type} *best = scratch;
    int32_t *place = (int32_t *)((char *)scratch + {8 * self.count});
    {made} *y = ({made} *)out;
    for (int o = 0; o < {self.outer}; o++) for (int j = 0; j < {self.inner}; j++) {{
        const {c_type} *x = {self.source.pointer} + {self.source.view.offset};
        x += o * {self.size * self.inner}L + j;
        for (int i = 0; i < {self.size}; i++) {{
            {c_type} v = x[i * {self.inner}];
            int n = i < {self.count} ? i : {self.count};
            for (; n > 0 && {name}_ahead(v, best[n - 1]); n--)
                if (n < {self.count}) best[n] = best[n - 1], place[n] = place[n - 1];
            if (n < {self.count}) best[n] = v, place[n] = i;
        }}
        for (int n = 0; n < {self.count}; n++) y[(o * {self.count} + n) * {self.inner} + j] = {result};
    }}
"""
        order = "largest" if self.largest else "smallest"
        return self.function(name, f"{self.count} of {self.size}, {order} first.", body, before)
