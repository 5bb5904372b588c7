"""Winograd's arithmetic in the formula language: transforms of a tile, products, the transform back."""

from __future__ import annotations

import operator
from collections.abc import Iterable
from dataclasses import dataclass
from fractions import Fraction
from functools import reduce as fold
from typing import TypeAlias

from tensmith.formula.expr import Expr, Formula, as_expr, compute, guard, inside, total
from tensmith.formula.poly import Poly
from tensmith.kernel.buffer import Buffer
from tensmith.kernel.cook_toom import Filtering
from tensmith.kernel.formulas import filters, image, laid
from tensmith.kernel.phases import Phases
from tensmith.kernel.problem import ConvolutionProblem

Pair: TypeAlias = tuple[int, int]


@dataclass(frozen=True)
class Tiled:
    """F(m x m) of a problem whose image lies in `source`: in blocks with a halo, or as planes without one.

    Channels are summed slice by slice, `slice` of them or all at once.
    """

    problem: ConvolutionProblem
    filtering: Filtering
    phases: Phases
    source: Buffer
    slice: int | None = None

    def formula(self) -> Formula:
        """y[k, i, j]: place (i % m, j % m) of tile (i // m, j // m)."""
        m = self.filtering.outputs
        places = {(a, b): self.place(a, b) for a in range(m) for b in range(m)}

        def element(k: Poly, i: Poly, j: Poly) -> Expr:
            value = as_expr(0)
            for (a, b), here in places.items():
                at = [i % m - a, a - i % m, j % m - b, b - j % m]
                value = value + guard(at, here[k, i // m, j // m])
            return value

        return compute((self.problem.filters, *self.problem.output), element)

    def place(self, a: int, b: int) -> Formula:
        """[k, tile down, tile across]: output (a, b) of every tile that has one.

        sum(p, q; A[a,p] A[b,q] sum(phase, c; U[k,c,p,q] V[c,p,q])), A^T the matrix of the outputs.
        """
        m, n, p = self.filtering.outputs, self.filtering.products, self.problem
        back = self.filtering.output_matrix
        shape = (p.filters, *(-(-(size - first) // m) for size, first in zip(p.output, (a, b))))

        def element(k: Poly, down: Poly, across: Poly) -> Expr:
            value = as_expr(0)
            for row in range(n):
                for column in range(n):
                    factor = back[a][row] * back[b][column]
                    if factor:
                        value = value + self._product(k, down * m, across * m, row, column) * factor
            return value

        return compute(shape, element)

    def _product(self, k: Poly, i: Poly, j: Poly, row: int, column: int) -> Expr:
        """The sum over channels and phases of one product; at infinity, over those with a last tap."""
        last = self.filtering.products - 1
        first, stop = self.phases.alive(row == last, column == last)
        point = (row, column)

        def element(c: Poly) -> Expr:
            return fold(
                operator.add,
                (
                    self._filter(k, c, phase, point) * self._input(c, i, j, phase, point)
                    for phase in self.phases.order[first:stop]
                ),
            )

        channels, slice_ = self.problem.channels, self.slice
        if slice_ is None:
            return total(channels, element)
        return total(
            (-(-channels // slice_), slice_),
            lambda at, c: guard([channels - 1 - at * slice_ - c], element(at * slice_ + c)),
        )

    def _filter(self, k: Poly, c: Poly, phase: Pair, point: Pair) -> Expr:
        """U = G w G^T at one point, w the taps of a phase."""
        (f, g), (row, column) = phase, point
        matrix, w = self.filtering.filter_matrix, filters(self.problem)
        stride, (height, width) = self.phases.stride, self.problem.window
        return _sum(
            (matrix[row][u] * matrix[column][v], w[k, c, stride * u + f, stride * v + g])
            for u in range(self.phases.taps)
            for v in range(self.phases.taps)
            if stride * u + f < height and stride * v + g < width
        )

    def _input(self, c: Poly, i: Poly, j: Poly, phase: Pair, point: Pair) -> Expr:
        """V = B^T d B at one point, d the tile of a phase that begins at (i, j)."""
        row, column = point
        matrix, n = self.filtering.input_matrix, self.filtering.products
        return _sum(
            (matrix[row][s] * matrix[column][t], self._read(c, i + s, j + t, phase))
            for s in range(n)
            for t in range(n)
        )

    def _read(self, channel: Poly, i: Poly, j: Poly, phase: Pair) -> Expr:
        """Element (i, j) of a phase of the padded image."""
        p, stride = self.problem, self.phases.stride
        down, across = i * stride + phase[0] - p.pads[0], j * stride + phase[1] - p.pads[1]
        return guard([*inside(down, p.height), *inside(across, p.width)], image(p)[channel, down, across])

    def padded(self, phase: Pair) -> Formula:
        """[channel block, lane, i, j]: what tiles read of a phase, zero in lanes past the channels."""
        block, channels = self.source.block, self.problem.channels

        def element(at: Poly, lane: Poly, i: Poly, j: Poly) -> Expr:
            channel = at * block + lane
            return guard([channels - 1 - channel], self._read(channel, i, j, phase))

        return compute((self.source.blocks, block, *self._reach), element)

    def stored(self, phase: Pair) -> Formula:
        """`padded` as it is read from memory; of planes without a halo, nothing beyond the image is."""
        p, source, stride = self.problem, self.source, self.phases.stride
        x = laid(p, source.block, halo=source.halo)

        def element(at: Poly, lane: Poly, i: Poly, j: Poly) -> Expr:
            down, across = i * stride + phase[0] - p.pads[0], j * stride + phase[1] - p.pads[1]
            value = x[at, down + source.halo.top, across + source.halo.left, lane]
            kept = [] if source.block > 1 else [*inside(down, p.height), *inside(across, p.width)]
            return guard([p.channels - 1 - at * source.block - lane, *kept], value)

        return compute((source.blocks, source.block, *self._reach), element)

    @property
    def _reach(self) -> tuple[int, ...]:
        """Rows and columns of a phase that the tiles read."""
        m, taps = self.filtering.outputs, self.filtering.taps
        return tuple(-(-size // m) * m + taps - 1 for size in self.problem.output)


def _sum(terms: Iterable[tuple[Fraction, Expr]]) -> Expr:
    """The sum of factor * term; terms that count for nothing are left out."""
    return fold(operator.add, (term * factor for factor, term in terms if factor), as_expr(0))
