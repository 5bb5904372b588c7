"""Softmax over the channels of each position."""

from __future__ import annotations

from dataclasses import dataclass

from tensmith.kernel.buffer import Buffer
from tensmith.kernel.routine import Routine


@dataclass(frozen=True)
class SoftmaxRoutine(Routine):
    """y[c] = exp(x[c] - max(x)) / sum(k; exp(x[k] - max(x))), at every position; blocks of one vector."""

    lanes: int

    def code(self, name: str, sources: tuple[Buffer, ...], target: Buffer) -> str:
        """Three passes: the maximum, the exponentials and their sum, the division."""
        (source,) = sources
        read = f"x[c / {self.lanes} * {source.plane} + c % {self.lanes}]"
        body = f"""\
    for (int i = 0; i < {source.height}; i++) for (int j = 0; j < {source.width}; j++) {{
        const float *x = in[0] + {source.address(0, 0, 0)} + i * {source.row} + j * {self.lanes};
        float *y = out + {target.address(0, 0, 0)} + i * {target.row} + j * {self.lanes};
        float most = -INFINITY, sum = 0;
        for (int c = 0; c < {source.channels}; c++)
            most = {read} <= most ? most : {read};
        for (int b = 0; b < {source.blocks}; b++)
            store(y + b * {target.plane}, vexp(load(x + b * {source.plane}) - most));
        for (int c = 0; c < {source.channels}; c++)
            sum += y[c / {self.lanes} * {target.plane} + c % {self.lanes}];
        for (int b = 0; b < {source.blocks}; b++)
            store(y + b * {target.plane}, load(y + b * {target.plane}) / sum);
    }}
"""
        says = f"softmax over {source.channels} channels of {source.height}x{source.width} positions."
        return self.function(name, says, body)
