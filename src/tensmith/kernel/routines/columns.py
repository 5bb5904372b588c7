"""Softmax along an axis that is not the last one: lanes are what lies side by side."""

from __future__ import annotations

from dataclasses import dataclass

from tensmith.kernel.buffer import Buffer
from tensmith.kernel.routine import ROUTINE_SIGNATURE, Routine
from tensmith.kernel.tiles import spans


@dataclass(frozen=True)
class ColumnSoftmax(Routine):
    """y[o, n, j] = exp(x[o, n, j] - max(n; x)) / sum(n; exp(x - max)); x: [outer, size, inner], dense."""

    outer: int
    size: int
    inner: int
    lanes: int

    def code(self, name: str, sources: tuple[Buffer, ...], target: Buffer) -> str:
        """Three walks along the axis, a vector of columns at a time."""
        walks = "".join(self._walks(*span) for span in spans(self.inner, self.lanes))
        return f"""\
/* softmax of {self.outer * self.inner} columns of {self.size}. */
static void {name}({ROUTINE_SIGNATURE})
{{
    (void)constants; (void)scratch;
    for (int o = 0; o < {self.outer}; o++) {{
        const float *x = in[0] + o * {self.size * self.inner}L;
        float *y = out + o * {self.size * self.inner}L;
{walks}    }}
}}
"""

    def _walks(self, start: int, stop: int, count: int) -> str:
        """C for the columns from `start` to `stop`, `count` at a time."""
        at = f"n * {self.inner} + j"
        whole = count == self.lanes
        x, y = (f"load({p} + {at})" if whole else f"load_part({p} + {at}, {count})" for p in "xy")
        store, end = ("store", "") if whole else ("store_part", f", {count}")
        return f"""\
        for (int j = {start}; j < {stop}; j += {count}) {{
            vf most = splat(-INFINITY), sum = splat(0);
            for (int n = 0; n < {self.size}; n++) most = vmaximum(most, {x});
            for (int n = 0; n < {self.size}; n++) {{
                vf e = vexp({x} - most);
                sum += e;
                {store}(y + {at}, e{end});
            }}
            for (int n = 0; n < {self.size}; n++) {store}(y + {at}, {y} / sum{end});
        }}
"""
