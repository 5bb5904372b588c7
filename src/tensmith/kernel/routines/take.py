"""Rows chosen by index: embedding and gather."""

from __future__ import annotations

from dataclasses import dataclass

from tensmith.kernel.buffer import C_TYPES, ELEMENT_BYTES, Buffer
from tensmith.kernel.routine import Routine
from tensmith.kernel.routines.strided import StridedOperand


@dataclass(frozen=True)
class ByIndex(Routine):
    """What chooses among the elements of a table, all dense.

    Indices below zero count from the end. One outside of x gives not-a-number, or zero of whole numbers.
    """

    table: StridedOperand
    indices: StridedOperand

    @property
    def missing(self) -> str:
        """What stands for an element that is not there."""
        return "NAN" if self.table.dtype == "f32" else "0"

    def chosen(self, name: str, says: str, body: str) -> str:
        """The C function: `body` reads x and index, and writes y."""
        c_type = C_TYPES[self.table.dtype]
        operands = f"""\
    const {c_type} *x = {self.table.pointer} + {self.table.view.offset};
    const {C_TYPES[self.indices.dtype]} *index = {self.indices.pointer} + {self.indices.view.offset};
    {c_type} *y = ({c_type} *)out;
"""
        return self.function(name, says, operands + body)


@dataclass(frozen=True)
class Take(ByIndex):
    """y[o, n, :] = x[o, index[n], :]; x: [outer, count, inner]."""

    outer: int
    count: int
    inner: int

    def code(self, name: str, sources: tuple[Buffer, ...], target: Buffer) -> str:
        """A copy for each index."""
        chosen, size = self.indices.view.size, ELEMENT_BYTES[self.table.dtype] * self.inner
        body = f"""\
    for (int o = 0; o < {self.outer}; o++) for (int n = 0; n < {chosen}; n++, y += {self.inner}) {{
        int64_t row = index[n] < 0 ? index[n] + {self.count} : index[n];
        if (row >= 0 && row < {self.count}) memcpy(y, x + (o * {self.count}L + row) * {self.inner}, {size});
        else for (int j = 0; j < {self.inner}; j++) y[j] = {self.missing};
    }}
"""
        return self.chosen(name, f"{chosen} of {self.count} rows of {self.inner}.", body)
