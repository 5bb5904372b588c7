"""Elements and slices chosen by computed subscripts: ONNX's GatherElements and GatherND."""

from __future__ import annotations

import math
from dataclasses import dataclass

from tensmith.kernel.buffer import ELEMENT_BYTES, Buffer
from tensmith.kernel.routines.take import ByIndex


@dataclass(frozen=True)
class PickElements(ByIndex):
    """y[.., j, ..] = x[.., index[.., j, ..], ..] along `axis`; y is as large as the indices."""

    axis: int

    def code(self, name: str, sources: tuple[Buffer, ...], target: Buffer) -> str:
        """A loop an axis."""
        shape, strides = self.indices.view.shape, self.table.view.strides
        size = self.table.view.shape[self.axis]
        loops = "".join(f"    for (int i{d} = 0; i{d} < {n}; i{d}++)\n" for d, n in enumerate(shape))
        kept = [f"i{d} * {stride}L" for d, stride in enumerate(strides) if d != self.axis]
        place = " + ".join([*kept, f"at * {strides[self.axis]}L"])
        body = f"""\
{loops}    {{
        int64_t at = *index < 0 ? *index + {size} : *index;
        *y++ = at >= 0 && at < {size} ? x[{place}] : {self.missing};
        index++;
    }}
"""
        says = f"{'x'.join(map(str, shape))} elements chosen among {size} along axis {self.axis}."
        return self.chosen(name, says, body)


@dataclass(frozen=True)
class PickSlices(ByIndex):
    """y[b.., n.., :] = x[b.., index[b.., n.., :].., :]: subscripts of axes behind `batch` leading ones."""

    batch: int

    def code(self, name: str, sources: tuple[Buffer, ...], target: Buffer) -> str:
        """A slice for each row of subscripts."""
        shape, picked = self.table.view.shape, self.indices.view.shape
        depth = picked[-1]
        axes = range(self.batch, self.batch + depth)
        inner = math.prod(shape[self.batch + depth :])
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
        body = f"""\
    for (int b = 0; b < {batches}; b++) for (int n = 0; n < {count}; n++, index += {depth}, y += {inner}) {{
        int64_t at = b;
        int inside = 1;
{walk}        if (inside) memcpy(y, x + at * {inner}, {ELEMENT_BYTES[self.table.dtype] * inner});
        else for (int j = 0; j < {inner}; j++) y[j] = {self.missing};
    }}
"""
        return self.chosen(name, f"{batches * count} slices of {inner}.", body)
