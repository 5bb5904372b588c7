"""Storing the sums of 8-bit products: a tile in blocks, or rows that may end in a part of a vector."""

from __future__ import annotations

from tensmith.kernel.buffer import Buffer
from tensmith.kernel.epilogue import Epilogue
from tensmith.kernel.parts import load_code, store_code
from tensmith.kernel.quantized import FIELDS, finish_code, put_code, rounding
from tensmith.kernel.register_tiles import vector_step
from tensmith.kernel.tiles import Extent

# Cycles from sums to bytes, of a vector.
_FINISH = 4


def finish_cycles(tile: Extent, blocks: int) -> float:
    """Cycles to store a tile, four positions at once."""
    return _FINISH * blocks * tile[0] * (tile[1] // 4 * 4 + 3 * (tile[1] % 4 > 0))


def finish_vectors(
    tile: Extent, blocks: int, target: Buffer, kept: Buffer, epilogue: Epilogue, lanes: int
) -> str:
    """C that stores the sums a[i][j][k] of a tile: bytes of up to four positions at once, or floats."""
    rows, columns = tile
    read = "widen" if kept.dtype == "u8" else "load"
    residual = f"{read}(r + i * {kept.row} + (j) * {kept.block} + k * {vector_step(kept, lanes)})"
    fields = f"(b + k * {FIELDS * lanes})"
    at = f"y + i * {target.row} + j * {target.block} + k * {vector_step(target, lanes)}"
    value = finish_code(epilogue, "a[i][j][k]", fields, residual, lanes)
    over = f"    UNROLL for (int k = 0; k < {blocks}; k++) UNROLL for (int i = 0; i < {rows}; i++)"
    if target.dtype == "f32":
        return f"{over}\n        UNROLL for (int j = 0; j < {columns}; j++) store({at}, {value});\n"
    if epilogue.activation is not None:
        value = f"({value}) * h[3]"
    count = f"j + 4 <= {columns} ? 4 : {columns} - j"
    return f"""\
{over} {{
        vi q[{columns + -columns % 4}];
        UNROLL for (int j = 0; j < {columns}; j++) q[j] = {rounding(epilogue)}({value});
        UNROLL for (int j = {columns}; j < {columns + -columns % 4}; j++) q[j] = q[{columns - 1}];
        UNROLL for (int j = 0; j < {columns}; j += 4)
            {put_code(at, count, "q[j], q[j + 1], q[j + 2], q[j + 3]", epilogue)}
    }}
"""


def finish_rows(
    columns: int, blocks: int, last: int, target: Buffer, kept: Buffer, epilogue: Epilogue, lanes: int
) -> str:
    """C that stores the sums a[0][j][k] of `columns` rows: up to four vectors of bytes at once, or floats.

    The last of `blocks` vectors has `last` elements; the residual lies in rows as well.
    """
    whole = blocks - (last < lanes)

    def value(count: int) -> str:
        other = f"r + j * {kept.block} + k * {lanes}"
        return finish_code(epilogue, "a[0][j][k]", f"(b + k * {FIELDS * lanes})",
                           _read(other, kept.dtype, count, lanes), lanes)  # fmt: skip

    at = f"y + j * {target.block} + k * {lanes}"
    store = _store_bytes(at, blocks, last, lanes, epilogue)
    done, rest = (store_code(at, value(count), count, lanes) for count in (lanes, last))
    if target.dtype == "u8":
        unit = " * h[3]" if epilogue.activation is not None else ""
        done, rest = (f"q[k] = {rounding(epilogue)}(({value(count)}){unit})" for count in (lanes, last))
    lines = [f"        UNROLL for (int k = 0; k < {whole}; k++) {done};"]
    if whole < blocks:
        lines.append(f"        {{ enum {{ k = {whole} }}; {rest}; }}")
    if target.dtype == "u8":
        lines = [f"        vi q[{blocks + -blocks % 4}];", *lines, *store]
    return "\n".join([f"    UNROLL for (int j = 0; j < {columns}; j++) {{", *lines, "    }", ""])


def _store_bytes(at: str, blocks: int, last: int, lanes: int, epilogue: Epilogue) -> list[str]:
    """Lines of C that pack the vectors q four at a time; what is behind the row stays as it is."""
    lines = [
        f"        UNROLL for (int k = {blocks}; k < {blocks + -blocks % 4}; k++) q[k] = q[{blocks - 1}];"
    ]
    for first in range(0, blocks, 4):
        count = min(4, blocks - first)
        bytes_ = (count - 1) * lanes + (last if first + count == blocks else lanes)
        lines.append(f"""\
        {{
            enum {{ k = {first} }};
            uint8_t t[{4 * lanes}];
            {put_code("t", str(count), "q[k], q[k + 1], q[k + 2], q[k + 3]", epilogue)}
            memcpy({at}, t, {bytes_});
        }}""")
    return lines


def _read(pointer: str, dtype: str, count: int, lanes: int) -> str:
    """The C expression of `count` numbers there."""
    if dtype == "f32":
        return load_code(pointer, count, lanes)
    return f"widen({pointer})" if count == lanes else f"widen_step({pointer}, 1, {count})"
