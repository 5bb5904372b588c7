"""Array elements at affine subscripts, for all indices at once: a view of the array."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tensmith.formula.expr import NOWHERE
from tensmith.formula.poly import Poly
from tensmith.lifting.lifted import ArrayView
from tensmith.lifting.refusal import Refusal
from tensmith.lifting.summary import StridedMemory
from tensmith.lifting.tensorize.affine import linear


def view_of(
    grid: StridedMemory, subscripts: Sequence[Poly], extents: Mapping[str, Poly], order: Sequence[str]
) -> ArrayView:
    """The view whose axes are the index variables `order`; subscripts are those of the grid.

    A grid over flat memory has one axis: the sum of its subscripts times its strides.
    """
    if grid.strides:
        subscripts = [sum((stride * each for stride, each in zip(grid.strides, subscripts)), Poly.of(0))]
    offsets, rows = [], []
    for subscript in subscripts:
        parts = linear(subscript, extents)
        if parts is None:
            raise Refusal(
                f"subscript {subscript} of '{grid.array}' is not linear in the loop counters; "
                "write it as counters times factors that no loop changes",
                NOWHERE,
            )
        offsets.append(parts[0])
        rows.append(tuple(parts[1].get(variable, Poly.of(0)) for variable in order))
    return ArrayView(grid.array, tuple(offsets), tuple(rows), tuple(extents[variable] for variable in order))
