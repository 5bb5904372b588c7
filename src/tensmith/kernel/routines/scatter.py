"""A tensor with some elements replaced, or combined with updates: ONNX's ScatterElements and ScatterND."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

from tensmith.kernel.buffer import C_TYPES, ELEMENT_BYTES, Buffer
from tensmith.kernel.routine import Routine
from tensmith.kernel.routines.strided import StridedOperand

# What becomes of an element y that an update u meets.
_COMBINE: Mapping[str, str] = {
    "none": "u",
    "add": "y + u",
    "mul": "y * u",
    "max": "y >= u || y != y ? y : u",
    "min": "y <= u || y != y ? y : u",
}


@dataclass(frozen=True)
class ScatterRoutine(Routine):
    """y = x, then for every update in order y[place] = combine(y[place], update); all dense.

    y may lie where x does.

    Along `axis`, an index says where an update of the same subscripts goes; without one, the last axis of the
    indices holds the leading subscripts of a slice. Indices below zero count from the end; updates outside of
    x are left out.
    """

    table: StridedOperand
    indices: StridedOperand
    updates: StridedOperand
    axis: int | None
    reduction: str

    def code(self, name: str, sources: tuple[Buffer, ...], target: Buffer) -> str:
        """A copy, and a walk over the updates."""
        dtype = self.table.dtype
        c_type, size = C_TYPES[dtype], ELEMENT_BYTES[dtype] * self.table.view.size
        walk = self._slices() if self.axis is None else self._elements(self.axis)
        before = f"""\
static inline {c_type} {name}_combine({c_type} y, {c_type} u)
{{
    (void)y;
    return {_COMBINE[self.reduction]};
}}
"""
        body = f"""\
    const {C_TYPES[self.indices.dtype]} *index = {self.indices.pointer} + {self.indices.view.offset};
    const {c_type} *u = {self.updates.pointer} + {self.updates.view.offset};
    {c_type} *y = ({c_type} *)out;
    const {c_type} *x = {self.table.pointer} + {self.table.view.offset};
    if (x != y) memcpy(y, x, {size});
{walk.replace("COMBINE", f"{name}_combine")}"""
        says = f"{self.updates.view.size} updates of {self.table.view.size} elements."
        return self.function(name, says, body, before)

    def _elements(self, axis: int) -> str:
        shape, strides = self.indices.view.shape, self.table.view.strides
        size = self.table.view.shape[axis]
        loops = "".join(f"    for (int i{d} = 0; i{d} < {n}; i{d}++)\n" for d, n in enumerate(shape))
        kept = [f"i{d} * {stride}L" for d, stride in enumerate(strides) if d != axis]
        place = " + ".join([*kept, f"at * {strides[axis]}L"])
        return f"""\
{loops}    {{
        int64_t at = *index < 0 ? *index + {size} : *index, place = {place};
        if (at >= 0 && at < {size}) y[place] = COMBINE(y[place], *u);
        index++, u++;
    }}
"""

    def _slices(self) -> str:
        shape, picked = self.table.view.shape, self.indices.view.shape
        depth, inner = picked[-1], math.prod(shape[picked[-1] :])
        walk = "".join(
            f"""\
        i = index[{d}] < 0 ? index[{d}] + {shape[d]} : index[{d}];
        inside &= i >= 0 && i < {shape[d]};
        at = at * {shape[d]} + i;
"""
            for d in range(depth)
        )
        return f"""\
    for (int n = 0; n < {math.prod(picked[:-1])}; n++, index += {depth}, u += {inner}) {{
        int64_t at = 0, i;
        int inside = 1;
{walk}        for (int j = 0; inside && j < {inner}; j++) {{
            {C_TYPES[self.table.dtype]} *e = y + at * {inner} + j;
            *e = COMBINE(*e, u[j]);
        }}
    }}
"""
