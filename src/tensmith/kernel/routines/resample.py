"""Resizing and padding: every axis in turn, each element a copy, or a weighted sum of a few along it."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from tensmith.formula.arith import Array
from tensmith.kernel.buffer import Buffer
from tensmith.kernel.epilogue import literal
from tensmith.kernel.routine import Routine
from tensmith.kernel.routines.strided import StridedOperand


@dataclass(frozen=True)
class ResampleAxis:
    """One axis from `size` elements to `out`: weighted sums of `taps` in all, or copies where that is None.

    `table` is the word of the constants at which its tables begin. Of sums: where each element's taps begin
    [out + 1], the taps' places [taps], their weights [taps]; an element without a tap is filled. Of copies:
    their places [out], -1 for one that is filled.
    """

    axis: int
    size: int
    out: int
    taps: int | None
    table: int


def tables(matrix: Array) -> Array:
    """The tables of y = matrix @ x, as words; weights of zero are no taps.

    A vector of places is the matrix with ones there: copies.
    """
    if matrix.ndim == 1:
        return matrix.astype(np.int32)
    rows, places = np.nonzero(matrix)
    begins = np.searchsorted(rows, np.arange(len(matrix) + 1))
    weights = matrix[rows, places].astype(np.float32)
    return np.concatenate([begins.astype(np.int32), places.astype(np.int32), weights.view(np.int32)])


@dataclass(frozen=True)
class Resample(Routine):
    """y of a dense x [shape]; elements without a tap are `fill`. Between two axes, tensors lie in scratch."""

    source: StridedOperand
    shape: tuple[int, ...]
    passes: tuple[ResampleAxis, ...]
    fill: float = 0.0

    def _shapes(self) -> list[tuple[int, ...]]:
        """Before the first pass, and after each."""
        shapes = [self.shape]
        for one in self.passes:
            before = shapes[-1]
            shapes.append((*before[: one.axis], one.out, *before[one.axis + 1 :]))
        return shapes

    @property
    def scratch_bytes(self) -> int:
        """What lies between two passes."""
        return 4 * sum(map(math.prod, self._shapes()[1:-1]))

    def code(self, name: str, sources: tuple[Buffer, ...], target: Buffer) -> str:
        """Loops for each pass."""
        shapes = self._shapes()
        x, room, lines = f"({self.source.pointer} + {self.source.view.offset})", 0, []
        for number, (one, shape) in enumerate(zip(self.passes, shapes)):
            last = number == len(self.passes) - 1
            y = "out" if last else f"((float *)scratch + {room})"
            lines.append(self._pass(one, shape, x, y))
            x, room = y, room + math.prod(shapes[number + 1])
        before, after = ("x".join(map(str, shape)) for shape in (self.shape, shapes[-1]))
        return self.function(name, f"{before} resized to {after}.", "".join(lines))

    def _copies(self, one: ResampleAxis, outer: int, inner: int, x: str, y: str) -> str:
        fill = literal(self.fill)
        whole = f"memcpy(y, x + at[n] * {inner}, {4 * inner})" if inner > 1 else "*y = x[at[n]]"
        return f"""\
    {{
        const int32_t *at = (const int32_t *)constants + {one.table};
        float *y = {y};
        for (int o = 0; o < {outer}; o++) {{
            const float *x = {x} + o * {one.size * inner}L;
            for (int n = 0; n < {one.out}; n++, y += {inner})
                if (at[n] >= 0) {whole};
                else for (int j = 0; j < {inner}; j++) y[j] = {fill};
        }}
    }}
"""

    def _pass(self, one: ResampleAxis, shape: tuple[int, ...], x: str, y: str) -> str:
        outer, inner = math.prod(shape[: one.axis]), math.prod(shape[one.axis + 1 :])
        if one.taps is None:
            return self._copies(one, outer, inner, x, y)
        places = one.table + one.out + 1
        return f"""\
    {{
        const int32_t *begin = (const int32_t *)constants + {one.table}, *at = begin + {one.out + 1};
        const float *weight = constants + {places + one.taps};
        for (int o = 0; o < {outer}; o++) for (int n = 0; n < {one.out}; n++) {{
            const float *x = {x} + o * {one.size * inner}L;
            float *y = {y} + (o * {one.out}L + n) * {inner};
            for (int j = 0; j < {inner}; j++) y[j] = begin[n] < begin[n + 1] ? 0 : {literal(self.fill)};
            for (int t = begin[n]; t < begin[n + 1]; t++)
                for (int j = 0; j < {inner}; j++) y[j] += weight[t] * x[at[t] * {inner} + j];
        }}
    }}
"""
