"""Normalization and softmax of every row of a dense matrix."""

from __future__ import annotations

from dataclasses import dataclass

from tensmith.kernel.buffer import Buffer
from tensmith.kernel.epilogue import literal
from tensmith.kernel.parts import load_code, store_code
from tensmith.kernel.routine import Routine


@dataclass(frozen=True)
class RowNorm(Routine):
    """y = (x - mean) / sqrt(variance + epsilon) * scale + shift, each over the columns of a row.

    Without `centred` the mean counts as zero (root mean square normalization). `constants` holds the scale
    if there is one, then the shift.
    """

    rows: int
    columns: int
    lanes: int
    epsilon: float
    centred: bool
    scale: bool
    shift: bool

    def code(self, name: str, sources: tuple[Buffer, ...], target: Buffer) -> str:
        """Two sums, then one pass."""
        n, lanes = self.columns, self.lanes
        whole = n - n % lanes
        middle = f"row_sum(x, {n}) / {n}" if self.centred else "0"
        body = ""
        if whole:
            body += f"        for (int j = 0; j < {whole}; j += {lanes}) {self._store('j', lanes)}\n"
        if whole < n:
            body += f"        {self._store(str(whole), n - whole)}\n"
        text = f"""\
    for (int i = 0; i < {self.rows}; i++) {{
        const float *x = in[0] + i * {n};
        float *y = out + i * {n};
        float mean = {middle};
        float factor = 1 / sqrtf(row_squares(x, mean, {n}) / {n} + {literal(self.epsilon)});
{body}    }}
"""
        return self.function(name, f"{self.rows} rows of {n}, normalized.", text)

    def _store(self, j: str, count: int) -> str:
        """The C statement for `count` elements from j on."""

        def read(pointer: str) -> str:
            return load_code(f"{pointer} + {j}", count, self.lanes)

        value = f"({read('x')} - mean) * factor"
        if self.scale:
            value += f" * {read('constants')}"
        if self.shift:
            value += f" + {read(f'constants + {self.columns if self.scale else 0}')}"
        return f"{store_code(f'y + {j}', value, count, self.lanes)};"


@dataclass(frozen=True)
class RowSoftmax(Routine):
    """y = exp(x - max(x)) / sum(exp(x - max(x))) of every row."""

    rows: int
    columns: int
    lanes: int

    def code(self, name: str, sources: tuple[Buffer, ...], target: Buffer) -> str:
        """Exponentials and their sum, then the shares."""
        n, lanes = self.columns, self.lanes
        left = n % lanes
        at = f"y + {n - left}"
        scaled = store_code(at, f"{load_code(at, left, lanes)} * share", left, lanes)
        rest = f"        {scaled};\n" if left else ""
        body = f"""\
    for (int i = 0; i < {self.rows}; i++) {{
        float *y = out + i * {n}, share = 1 / row_exp(in[0] + i * {n}, y, {n});
        for (int j = 0; j < {n - left}; j += {lanes}) store(y + j, load(y + j) * share);
{rest}    }}
"""
        return self.function(name, f"softmax of {self.rows} rows of {n}.", body)
