"""Images enlarged by whole factors: every element repeated."""

from __future__ import annotations

from dataclasses import dataclass

from tensmith.kernel.buffer import ELEMENT_BYTES, Buffer
from tensmith.kernel.routine import ROUTINE_SIGNATURE, UnaryRoutine


@dataclass(frozen=True)
class Repeat(UnaryRoutine):
    """y[c, i, j] = x[c, i / factors[0], j / factors[1]], rounded down; both lie in blocks of one size."""

    factors: tuple[int, int]

    def unary_code(self, name: str, source: Buffer, target: Buffer) -> str:
        """A vector of channels is read once for each row that it is written to."""
        tall, wide = self.factors
        size = target.block * ELEMENT_BYTES[target.dtype]
        return f"""\
/* {source.height}x{source.width} to {target.height}x{target.width}. */
static void {name}({ROUTINE_SIGNATURE})
{{
    const {source.c_type} *x = (const {source.c_type} *)in[0] + {source.address(0, 0, 0)};
    {target.c_type} *y = ({target.c_type} *)out + {target.address(0, 0, 0)};
    (void)constants; (void)scratch;
    for (int b = 0; b < {target.blocks}; b++) for (int i = 0; i < {target.height}; i++) {{
        const {source.c_type} *p = x + b * {source.plane} + i / {tall} * {source.row};
        {target.c_type} *q = y + b * {target.plane} + i * {target.row};
        for (int j = 0; j < {source.width}; j++) UNROLL for (int n = 0; n < {wide}; n++)
            memcpy(q + (j * {wide} + n) * {target.block}, p + j * {source.block}, {size});
    }}
}}
"""
