"""Elements and slices chosen by computed subscripts: ONNX's GatherElements and GatherND."""

from __future__ import annotations

import math
from dataclasses import dataclass

from tensmith.kernel.buffer import C_TYPES, ELEMENT_BYTES, Buffer
from tensmith.kernel.routine import ROUTINE_SIGNATURE, Routine
from tensmith.kernel.routines.strided import StridedOperand


def _missing(dtype: str) -> str:
    """What stands for an element that is not there."""
    return "NAN" if dtype == "f32" else "0"


@dataclass(frozen=True)
class PickElements(Routine):
    """y[.., j, ..] = x[.., index[.., j, ..], ..] along `axis`; all dense, y as large as the indices.

    Indices below zero count from the end. One outside of x gives not-a-number, or zero of whole numbers.
    """

    table: StridedOperand
    indices: StridedOperand
    axis: int

    def code(self, name: str, sources: tuple[Buffer, ...], target: Buffer) -> str:
        """A loop an axis."""
        shape, strides = self.indices.view.shape, self.table.view.strides
        size, c_type = self.table.view.shape[self.axis], C_TYPES[self.table.dtype]
        loops = "".join(f"    for (int i{d} = 0; i{d} < {n}; i{d}++)\n" for d, n in enumerate(shape))
        kept = [f"i{d} * {stride}L" for d, stride in enumerate(strides) if d != self.axis]
        place = " + ".join([*kept, f"at * {strides[self.axis]}L"])
        return f"""\
/* {"x".join(map(str, shape))} elements chosen among {size} along axis {self.axis}. */
static void {name}({ROUTINE_SIGNATURE})
{{
    (void)constants; (void)scratch;
    const {c_type} *x = {self.table.pointer} + {self.table.view.offset};
    const {C_TYPES[self.indices.dtype]} *index = {self.indices.pointer} + {self.indices.view.offset};
    {c_type} *y = ({c_type} *)out;
{loops}    {{
        int64_t at = *index < 0 ? *index + {size} : *index;
        *y++ = at >= 0 && at < {size} ? x[{place}] : {_missing(self.table.dtype)};
        index++;
    }}
}}
"""


@dataclass(frozen=True)
class PickSlices(Routine):
    """y[b.., n.., :] = x[b.., index[b.., n.., :].., :]: subscripts of the axes behind `batch` leading ones.

    Subscripts below zero count from the end. One outside of x gives not-a-number, or zero of whole numbers.
    """

    table: StridedOperand
    indices: StridedOperand
    batch: int

    def code(self, name: str, sources: tuple[Buffer, ...], target: Buffer) -> str:
        """A slice for each row of subscripts."""
        shape, picked = self.table.view.shape, self.indices.view.shape
        depth, dtype = picked[-1], self.table.dtype
        axes = range(self.batch, self.batch + depth)
        inner, c_type = math.prod(shape[self.batch + depth :]), C_TYPES[dtype]
        batches, count = math.prod(shape[: self.batch]), math.prod(picked[self.batch : -1])
        walk = "".join(
            f"""\
        {{
            int64_t i = index[{n}] < 0 ? index[{n}] + {shape[d]} : index[{n}];
            inside &= i >= 0 && i < {shape[d]};
            at = at * {shape[d]} + i;
        }}
"""
            for n, d in enumerate(axes)
        )
        return f"""\
/* {batches * count} slices of {inner}. */
static void {name}({ROUTINE_SIGNATURE})
{{
    (void)constants; (void)scratch;
    const {c_type} *x = {self.table.pointer} + {self.table.view.offset};
    const {C_TYPES[self.indices.dtype]} *index = {self.indices.pointer} + {self.indices.view.offset};
    {c_type} *y = ({c_type} *)out;
    for (int b = 0; b < {batches}; b++) for (int n = 0; n < {count}; n++, index += {depth}, y += {inner}) {{
        int64_t at = b;
        int inside = 1;
{walk}        if (inside) memcpy(y, x + at * {inner}, {ELEMENT_BYTES[dtype] * inner});
        else for (int j = 0; j < {inner}; j++) y[j] = {_missing(dtype)};
    }}
}}
"""
