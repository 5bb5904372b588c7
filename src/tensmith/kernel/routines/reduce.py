"""Sums, means and extremes over axes of a strided view."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from tensmith.kernel.buffer import Buffer
from tensmith.kernel.routine import Routine
from tensmith.kernel.routines.strided import StridedOperand
from tensmith.kernel.view import StridedView, collapsed

Kind = Literal["sum", "mean", "max", "min"]
KINDS: Mapping[str, Kind] = {"sum": "sum", "mean": "mean", "max": "max", "min": "min"}
_BEGIN = {"sum": "0", "max": "-INFINITY", "min": "INFINITY"}
# What is not a number stays so: no comparison with it holds.
_JOIN = {
    "sum": "a += {0}",
    "max": "a = {0} <= a || a != a ? a : {0}",
    "min": "a = {0} >= a || a != a ? a : {0}",
}


@dataclass(frozen=True)
class ReduceRoutine(Routine):
    """y[kept] = kind of x[kept, reduced]: over the last `axes` axes of the operand's view. y is dense."""

    kind: Kind
    operand: StridedOperand
    axes: int

    def code(self, name: str, sources: tuple[Buffer, ...], target: Buffer) -> str:
        """Loops over what is kept around loops over what is reduced."""
        view, kind = self.operand.view, "sum" if self.kind == "mean" else self.kind
        split = len(view.shape) - self.axes
        kept, (outer,) = collapsed(
            view.shape[:split], [StridedView(view.shape[:split], view.strides[:split])]
        )
        gone, (inner,) = collapsed(
            view.shape[split:], [StridedView(view.shape[split:], view.strides[split:])]
        )
        scale = f" / {math.prod(gone)}" if self.kind == "mean" else ""
        rows = kind == "sum" and bool(inner) and inner[-1] == 1
        nest = " ".join(
            f"for (int j{a} = 0; j{a} < {size}; j{a}++)"
            for a, size in enumerate(gone[: len(gone) - 1] if rows else gone)
        )
        at = " + ".join(["0", *(f"j{a} * {step}" for a, step in enumerate(inner[: -1 if rows else None]))])
        value = f"row_sum(x + {at}, {gone[-1]})" if rows else f"x[{at}]"
        loops = " ".join(f"for (int i{a} = 0; i{a} < {size}; i{a}++)" for a, size in enumerate(kept))
        start = " + ".join([str(view.offset), *(f"i{a} * {step}" for a, step in enumerate(outer))])
        body = f"""\
    float *y = out;
    {loops} {{
        const float *x = {self.operand.pointer} + {start};
        float a = {_BEGIN[kind]};
        {nest} {_JOIN[kind].format(value)};
        *y++ = a{scale};
    }}
"""
        return self.function(name, f"{self.kind} over {math.prod(gone)} for each of {math.prod(kept)}.", body)
