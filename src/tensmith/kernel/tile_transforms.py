"""Winograd's transforms of one tile as C: B^T d B before the products, A^T m A behind them.

A tile's elements are vectors: of channels before, of filters behind.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tensmith.kernel.buffer import Buffer
from tensmith.kernel.cook_toom import Filtering, Matrix, columns_code, rows_code
from tensmith.kernel.epilogue import Epilogue

Writer = Callable[[Matrix, Sequence[str], Sequence[str]], list[str]]


def input_transform(name: str, minimal: Filtering, row: int, column: int, spectrum: int) -> str:
    """The function `name`(in, v): B^T d B of a tile of n x n vectors.

    They lie `row` and `column` floats apart, the results `spectrum`.
    """
    n, matrix = minimal.products, minimal.input_matrix
    columns = lines(matrix, rows_code, [f"x[{i}]" for i in range(n)], [f"d[{i}][j]" for i in range(n)])
    rows = lines(matrix, rows_code, [f"d[i][{j}]" for j in range(n)], [f"y[{j}]" for j in range(n)])
    return f"""\
static void {name}(const float *restrict in, float *restrict v)
{{
    vf d[{n}][{n}], x[{n}], y[{n}];
    UNROLL for (int j = 0; j < {n}; j++) {{
        UNROLL for (int i = 0; i < {n}; i++) x[i] = load(in + i * {row} + j * {column});
        {columns}
    }}
    UNROLL for (int i = 0; i < {n}; i++) {{
        {rows}
        UNROLL for (int j = 0; j < {n}; j++) store(v + (i * {n} + j) * {spectrum}, y[j]);
    }}
}}
"""


def output_transform(name: str, minimal: Filtering, target: Buffer, epilogue: Epilogue, lanes: int) -> str:
    """The function `name`(m, b, r, y, rows, columns): A^T m A of a tile and the epilogue.

    A tile that reaches over the border is cut to `rows` and `columns`.
    """
    size, n, matrix = minimal.outputs, minimal.products, minimal.output_matrix
    columns = lines(matrix, columns_code, [f"x[{i}]" for i in range(n)], [f"d[{i}][j]" for i in range(size)])
    rows = lines(matrix, columns_code, [f"d[i][{j}]" for j in range(n)], [f"z[i][{j}]" for j in range(size)])
    kept = epilogue.residual or target
    value = epilogue.apply("z[i][j]", "load(b)", f"load(r + i * {kept.row} + j * {lanes})")
    save = f"store(y + i * {target.row} + j * {lanes}, {value});"
    return f"""\
static void {name}(const float *restrict m, const float *b, const float *r, float *y,
        int rows, int columns)
{{
    vf d[{size}][{n}], x[{n}], z[{size}][{size}];
    (void)b; (void)r;
    UNROLL for (int j = 0; j < {n}; j++) {{
        UNROLL for (int i = 0; i < {n}; i++) x[i] = load(m + (i * {n} + j) * {lanes});
        {columns}
    }}
    UNROLL for (int i = 0; i < {size}; i++) {{
        {rows}
    }}
    if (rows >= {size} && columns >= {size}) {{
        UNROLL for (int i = 0; i < {size}; i++) UNROLL for (int j = 0; j < {size}; j++) {save}
    }} else {{
        for (int i = 0; i < {size} && i < rows; i++) for (int j = 0; j < {size} && j < columns; j++) {save}
    }}
}}
"""


def lines(matrix: Matrix, code: Writer, x: list[str], y: list[str]) -> str:
    """The lines of C that multiply x by a matrix."""
    return "\n        ".join(code(matrix, x, y))
