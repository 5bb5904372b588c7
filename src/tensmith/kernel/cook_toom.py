"""Minimal filtering F(m, r): m outputs of an r-tap filter by m + r - 1 products (Winograd 1980; Toom, Cook).

    y = A^T [(G g) * (B^T d)]      y[i] = sum(k < r; d[i + k] g[k]), * elementwise

The matrices evaluate polynomials at the points 0, 1, -1, 2, -2, 1/2, -1/2 ... and at infinity. `code` turns
B^T and A^T into C, sharing the even and the odd part between the points p and -p.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cache

from tensmith.kernel.epilogue import literal

Matrix = tuple[tuple[Fraction, ...], ...]

POINTS = (*map(Fraction, (0, 1, -1, 2, -2)), Fraction(1, 2), Fraction(-1, 2))


@dataclass(frozen=True)
class Filtering:
    """A^T [m, n], G [n, r] and B^T [n, n] of F(m, r), n = m + r - 1."""

    outputs: int
    taps: int
    output_matrix: Matrix
    filter_matrix: Matrix
    input_matrix: Matrix

    @property
    def products(self) -> int:
        """n."""
        return self.outputs + self.taps - 1


@cache
def filtering(outputs: int, taps: int) -> Filtering:
    """F(outputs, taps) over the first points."""
    count = outputs + taps - 1
    points = POINTS[: count - 1]
    scale = [math.prod(p - q for q in points if q != p) for p in points]
    last = (Fraction(0),) * (taps - 1) + (Fraction(1),)
    output = tuple((*(p**i for p in points), Fraction(int(i == outputs - 1))) for i in range(outputs))
    filters = (*(tuple(p**k / n for k in range(taps)) for p, n in zip(points, scale)), last)
    inputs = (
        *((*_roots(q for q in points if q != p), Fraction(0)) for p in points),
        tuple(_roots(points)),
    )
    return Filtering(outputs, taps, output, filters, inputs)


def _roots(points: Iterable[Fraction]) -> list[Fraction]:
    """Coefficients of the monic polynomial with these roots, the constant first."""
    coefficients = [Fraction(1)]
    for p in points:
        shifted = [Fraction(0), *coefficients]
        coefficients = [s - p * c for s, c in zip(shifted, [*coefficients, Fraction(0)])]
    return coefficients


def rows_code(matrix: Matrix, x: Sequence[str], y: Sequence[str]) -> list[str]:
    """C statements for y = matrix x, the rows of p and -p from one even and one odd sum."""
    lines = []
    row = 0
    while row < len(matrix):
        even, odd = (_sum(matrix[row], x, parity) for parity in (0, 1))
        mirrored = tuple(-c if j % 2 else c for j, c in enumerate(matrix[row]))
        flipped = tuple(-c for c in mirrored)
        if row + 1 < len(matrix) and matrix[row + 1] in (mirrored, flipped) and even and odd:
            swap = matrix[row + 1] == flipped
            lines.append(f"{{ vf e = {even}, o = {odd}; {y[row]} = e + o;")
            lines.append(f"  {y[row + 1]} = {'o - e' if swap else 'e - o'}; }}")
            row += 2
        else:
            lines.append(f"{y[row]} = {_sum(matrix[row], x)};")
            row += 1
    return lines


def columns_code(matrix: Matrix, x: Sequence[str], y: Sequence[str]) -> list[str]:
    """C statements for y = matrix x, where the columns of p and -p differ in the sign of odd rows alone."""
    lines, names = [], list(x)
    joined = [list(row) for row in matrix]
    column = 1
    while column + 1 < len(x):
        mirrored = all(
            row[column + 1] == (-row[column] if i % 2 else row[column]) for i, row in enumerate(matrix)
        )
        if mirrored:
            lines.append(
                f"vf s{column} = {x[column]} + {x[column + 1]}, d{column} = {x[column]} - {x[column + 1]};"
            )
            names[column], names[column + 1] = f"s{column}", f"d{column}"
            for i, row in enumerate(joined):
                row[column + 1] = row[column] if i % 2 else Fraction(0)
                row[column] = Fraction(0) if i % 2 else row[column]
        column += 2
    lines += [f"{target} = {_sum(row, names)};" for target, row in zip(y, joined)]
    return lines


def _sum(coefficients: Sequence[Fraction], x: Sequence[str], parity: int | None = None) -> str:
    """The C sum of the terms, of even or odd places only if asked; empty if there are none."""
    text = ""
    for place, (coefficient, name) in enumerate(zip(coefficients, x)):
        if not coefficient or (parity is not None and place % 2 != parity):
            continue
        size = abs(coefficient)
        term = name if size == 1 else f"{literal(float(size))} * {name}"
        sign = "-" if coefficient < 0 else "+"
        text = f"{text} {sign} {term}" if text else (f"-{term}" if sign == "-" else term)
    return text
