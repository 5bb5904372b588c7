"""Sums and means of what lies in runs: rows of a strided view."""

from __future__ import annotations

import math
from dataclasses import dataclass

from tensmith.kernel.buffer import Buffer
from tensmith.kernel.routine import Routine
from tensmith.kernel.routines.strided import StridedOperand
from tensmith.kernel.view import Shape, StridedView, collapsed


@dataclass(frozen=True)
class RowSums(Routine):
    """y[kept] = the sum or mean of x[kept, reduced]: over the last `axes` axes of the operand's view.

    Neighbours along the last axis lie side by side. y is dense.
    """

    operand: StridedOperand
    axes: int
    mean: bool

    @staticmethod
    def fits(view: StridedView, axes: int) -> bool:
        """Whether the last `axes` axes of a view end in runs."""
        _, steps = _loops(view, len(view.shape) - axes, len(view.shape))
        return bool(steps) and steps[-1] == 1

    def code(self, name: str, sources: tuple[Buffer, ...], target: Buffer) -> str:
        """Loops over what is kept around loops over runs."""
        view, split = self.operand.view, len(self.operand.view.shape) - self.axes
        (kept, outer), (gone, inner) = _loops(view, 0, split), _loops(view, split, len(view.shape))
        loops, start = _nest("i", kept, outer)
        runs, at = _nest("j", gone[:-1], inner)
        scale = f" / {math.prod(gone)}" if self.mean else ""
        body = f"""\
    float *y = out;
    {loops} {{
        const float *x = {self.operand.pointer} + {view.offset}{start};
        float a = 0;
        {runs} a += row_sum(x{at}, {gone[-1]});
        *y++ = a{scale};
    }}
"""
        says = f"{'mean' if self.mean else 'sum'} over {math.prod(gone)} for each of {math.prod(kept)}."
        return self.function(name, says, body)


def _loops(view: StridedView, first: int, stop: int) -> tuple[Shape, Shape]:
    """(sizes, steps) of the fewest loops over some axes of a view."""
    part = StridedView(view.shape[first:stop], view.strides[first:stop])
    sizes, (steps,) = collapsed(part.shape, [part])
    return sizes, steps


def _nest(word: str, sizes: Shape, steps: Shape) -> tuple[str, str]:
    """C of loops, and of how far they have come."""
    names = [f"{word}{axis}" for axis in range(len(sizes))]
    loops = " ".join(f"for (int {i} = 0; {i} < {size}; {i}++)" for i, size in zip(names, sizes))
    return loops, "".join(f" + {i} * {step}" for i, step in zip(names, steps))
