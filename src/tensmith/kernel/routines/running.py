"""Running sums and products along an axis."""

from __future__ import annotations

from dataclasses import dataclass

from tensmith.kernel.buffer import Buffer
from tensmith.kernel.routine import Routine
from tensmith.kernel.routines.strided import StridedOperand

# Integers wrap, which in C only those without a sign may.
_C_TYPES = {"f32": "float", "i64": "uint64_t", "i32": "uint32_t"}


@dataclass(frozen=True)
class Running(Routine):
    """y[o, i, j] = the sum or product of x[o, k, j] for k <= i, or k < i if `exclusive`.

    x: [outer, size, inner], dense floats, i64 or i32. From the other end if `backwards`.
    """

    source: StridedOperand
    outer: int
    size: int
    inner: int
    product: bool
    exclusive: bool
    backwards: bool

    def code(self, name: str, sources: tuple[Buffer, ...], target: Buffer) -> str:
        """Each row is the one before it, and one of x."""
        c_type, sign = _C_TYPES[self.source.dtype], "*" if self.product else "+"
        place = f"{self.size} - 1 - i" if self.backwards else "i"
        before = f"at + {self.inner}" if self.backwards else f"at - {self.inner}"
        taken = before if self.exclusive else "at"
        first = str(int(self.product)) if self.exclusive else "x[at + j]"
        row = f"for (int j = 0; j < {self.inner}; j++) y[at + j] ="
        body = f"""\
    const {c_type} *x = (const {c_type} *){self.source.pointer} + {self.source.view.offset};
    {c_type} *y = ({c_type} *)out;
    for (int o = 0; o < {self.outer}; o++) for (int i = 0; i < {self.size}; i++) {{
        const long at = (o * {self.size}L + {place}) * {self.inner};
        if (i == 0) {row} {first};
        else {row} y[{before} + j] {sign} x[{taken} + j];
    }}
"""
        return self.function(name, f"{'product' if self.product else 'sum'}s of up to {self.size}.", body)
