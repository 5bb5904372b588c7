"""A group of elementwise ops in one pass."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from tensmith.kernel.buffer import Buffer
from tensmith.kernel.quantized import QuantizationParameters
from tensmith.kernel.routine import ROUTINE_SIGNATURE, Routine

Kind = Literal["image", "channel", "constant"]


@dataclass(frozen=True)
class Pointwise(Routine):
    """y[c,i,j] = expression of the leaves at the same place.

    `expression` is C over vectors, with {0}, {1}... for the leaves. A leaf is an "image" as large as y, a
    "channel" image of one position, or a "constant": one number a channel, in the order of `constants`,
    each table as long as y's channels rounded up to a vector. All images lie in blocks of one vector; those
    of bytes are read as floats. If y is one, the expression is in units of its `grid`, the zero point off.
    """

    expression: str
    leaves: tuple[Kind, ...]
    lanes: int
    grid: QuantizationParameters | None = None

    def code(self, name: str, sources: tuple[Buffer, ...], target: Buffer) -> str:
        """A loop over blocks, rows and positions."""
        images = iter(range(len(sources)))
        tables = iter(range(self.leaves.count("constant")))
        length = target.blocks * self.lanes
        before, reads = [], []
        for kind in self.leaves:
            if kind == "constant":
                at = next(tables) * length
                before.append(f"vf k{at} = load(constants + {at} + b * {self.lanes});")
                reads.append(f"k{at}")
                continue
            index = next(images)
            source = sources[index]
            read = "widen" if source.dtype == "u8" else "load"
            pointer = f"(const {source.c_type} *)in[{index}]"
            origin = f"{pointer} + {source.address(0, 0, 0)} + b * {source.plane}"
            if kind == "channel":
                before.append(f"vf s{index} = {read}({origin});")
                reads.append(f"s{index}")
            else:
                before.append(f"const {source.c_type} *x{index} = {origin};")
                reads.append(f"{read}(x{index} + i * {source.row} + j * {self.lanes})")
        lines = "\n        ".join(before)
        return f"""\
/* {target.channels}x{target.height}x{target.width}, elementwise. */
static void {name}({ROUTINE_SIGNATURE})
{{
    (void)constants;
    for (int b = 0; b < {target.blocks}; b++) {{
        {lines}
        {target.c_type} *y = ({target.c_type} *)out + {target.address(0, 0, 0)} + b * {target.plane};
        for (int i = 0; i < {target.height}; i++) for (int j = 0; j < {target.width}; j++)
            {self._store(f"y + i * {target.row} + j * {self.lanes}", self.expression.format(*reads))};
    }}
}}
"""

    def _store(self, at: str, value: str) -> str:
        if self.grid is None:
            return f"store({at}, {value})"
        bounds = ", ".join(f"isplat({n})" for n in (self.grid.zero_point, self.grid.low, self.grid.high))
        return f"put_one({at}, rint_i({value}), {bounds})"
