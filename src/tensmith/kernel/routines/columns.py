"""Softmax along an axis that is not the last one: lanes are what lies side by side."""

from __future__ import annotations

from dataclasses import dataclass

from tensmith.kernel.buffer import Buffer
from tensmith.kernel.parts import load_code, store_code
from tensmith.kernel.routine import Routine
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
        body = f"""\
    for (int o = 0; o < {self.outer}; o++) {{
        const float *x = in[0] + o * {self.size * self.inner}L;
        float *y = out + o * {self.size * self.inner}L;
{walks}    }}
"""
        return self.function(name, f"softmax of {self.outer * self.inner} columns of {self.size}.", body)

    def _walks(self, start: int, stop: int, count: int) -> str:
        """C for the columns from `start` to `stop`, `count` at a time."""
        at = f"n * {self.inner} + j"
        x, y = (load_code(f"{p} + {at}", count, self.lanes) for p in "xy")
        put, share = (store_code(f"y + {at}", value, count, self.lanes) for value in ("e", f"{y} / sum"))
        return f"""\
        for (int j = {start}; j < {stop}; j += {count}) {{
            vf most = splat(-INFINITY), sum = splat(0);
            for (int n = 0; n < {self.size}; n++) most = vmaximum(most, {x});
            for (int n = 0; n < {self.size}; n++) {{
                vf e = vexp({x} - most);
                sum += e;
                {put};
            }}
            for (int n = 0; n < {self.size}; n++) {share};
        }}
"""
