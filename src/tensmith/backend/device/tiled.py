"""One group of threads a tile of a product of matrices, whose factors pass through local memory.

Each thread keeps 4 x 4 sums in registers (Volkov and Demmel 2008). What a factor is at a row and a depth is
computed where it is brought into local memory: a convolution's window is never written out.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from tensmith.backend.device.contraction import Contraction
from tensmith.backend.device.definitions import Axes
from tensmith.backend.device.kernel import DeviceKernel, KernelText, block, count
from tensmith.formula.expr import Expr
from tensmith.formula.walk import reads

# Rows and columns of a tile at least and at most, its depth, and the sums of a thread along each.
_LEAST, _MOST = 16, 64
_DEPTH = 16
_OWN = 4
# The axes along which tiles follow each other.
_DOWN, _OVER = "down%", "over%"


class _Tile(NamedTuple):
    rows: int
    columns: int

    @property
    def across(self) -> int:
        """Threads along the columns."""
        return self.columns // _OWN

    @property
    def threads(self) -> int:
        """Threads of a group."""
        return self.rows // _OWN * self.across


def tiled(product: Contraction, stored: Mapping[str, str]) -> DeviceKernel:
    """The kernel of a contraction of floats."""
    frame = KernelText(product.group, stored)
    frame.text.names |= {_DOWN: "down", _OVER: "over"}
    rows, columns, depth = count(product.rows), count(product.columns), count(product.depth)
    tile = _Tile(_fitting(rows), _fitting(columns))
    down, over = -(-rows // tile.rows), -(-columns // tile.columns)
    lines = [
        f"LOCAL float left[{_DEPTH}][{tile.rows}], right[{_DEPTH}][{tile.columns}];",
        *frame.indices((*product.batch, (_DOWN, down), (_OVER, over)), "GROUP"),
        f"const int row0 = down * {tile.rows}, column0 = over * {tile.columns};",
        f"const int r0 = THREAD / {tile.across} * {_OWN}, c0 = THREAD % {tile.across} * {_OWN};",
        f"float sums[{_OWN}][{_OWN}] = {{{{0}}}};",
        *block(
            f"for (int depth0 = 0; depth0 < {depth}; depth0 += {_DEPTH})",
            [
                *_loaded(frame, tile, "left", "row", product.rows, product.depth, product.left),
                *_loaded(frame, tile, "right", "column", product.columns, product.depth, product.right),
                "BARRIER;",
                f"for (int d = 0; d < {_DEPTH}; d++)",
                "    UNROLL",
                f"    for (int r = 0; r < {_OWN}; r++)",
                "        UNROLL",
                f"        for (int c = 0; c < {_OWN}; c++)",
                "            sums[r][c] += left[d][r0 + r] * right[d][c0 + c];",
                "BARRIER;",
            ],
        ),
        "UNROLL",
        *block(f"for (int n = 0; n < {_OWN * _OWN}; n++)", _stored(frame, product)),
    ]
    return frame.kernel("tiled", lines, count(product.batch) * down * over, tile.threads)


def _fitting(size: int) -> int:
    """The tile's size along an axis: the power of two that covers it, within bounds."""
    return min(_MOST, max(_LEAST, 1 << (size - 1).bit_length()))


def _loaded(
    frame: KernelText, tile: _Tile, name: str, word: str, axes: Axes, depth: Axes, factor: Expr
) -> list[str]:
    """The statements that bring a factor's part into local memory; neighbours in memory by neighbours."""
    wide = tile.rows if word == "row" else tile.columns
    along = _is_innermost(factor, depth) and not _is_innermost(factor, axes)
    d, at = (f"e % {_DEPTH}", f"e / {_DEPTH}") if along else (f"e / {wide}", f"e % {wide}")
    inside = [
        *frame.indices(axes, word),
        *frame.indices(depth, "depth"),
        *frame.assigned("x", factor),
    ]
    test = f"if (depth < {count(depth)} && {word} < {count(axes)})"
    body = [
        f"const int depth = depth0 + {d}, {word} = {word}0 + {at};",
        "float x = 0;",
        *block(test, inside),
        f"{name}[{d}][{at}] = x;",
    ]
    return block(f"for (int e = THREAD; e < {_DEPTH * wide}; e += {tile.threads})", body)


def _is_innermost(factor: Expr, axes: Axes) -> bool:
    """Whether the last of some axes goes along the memory that a factor reads."""
    read = next(reads(factor), None)
    step = read.indices[0].coefficient(axes[-1][0]) if read is not None and axes else None
    return step is not None and step.constant == 1


def _stored(frame: KernelText, product: Contraction) -> list[str]:
    """The statements that finish and store one of a thread's sums."""
    rows, columns = count(product.rows), count(product.columns)
    inside = [
        *frame.indices(product.rows, "row"),
        *frame.indices(product.columns, "column"),
        f"const float folded = sums[n / {_OWN}][n % {_OWN}];",
        *frame.members(),
    ]
    return [
        f"const int row = row0 + r0 + n / {_OWN}, column = column0 + c0 + n % {_OWN};",
        *block(f"if (row < {rows} && column < {columns})", inside),
    ]
