"""Weights rounded for what an entropy coder makes of them: few bits are small codes and not few levels.

Codes q of a layer y = w x minimise

    E[|y - scale * q x|^2] + price * bits(q)

a column at a time, the columns not yet treated making up for the error (`compensation`): entropy-constrained
quantization (Chou, Lookabaugh & Gray 1989) in the order of GPTQ (Frantar et al. 2023). One step serves all
rows, for at one price the best uniform step does not depend on how far a row reaches: an error of step^2 / 12
a weight is worth its bits where step^2 = 6 price / ln 2 (Gish & Pierce 1968).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from tensmith.formula.arith import Array
from tensmith.rewrite.lossy.compensation import Compensation, TreatColumn, damped

# Times that codes are chosen, each time by the lengths that the last ones have.
_ROUNDS = 2
# Rows and columns count as so many more weights of the layer's mean: some have hardly a code but 0.
_PRIOR = 8
_LEAST_MEAN, _TINY = 1e-3, 1e-12


@dataclass(frozen=True)
class CodeLengths:
    """Bits of codes beside those of 0: of the first step away, and of each further one, [..., d]."""

    first: Array
    further: Array

    @staticmethod
    def of(codes: Array, taps: int) -> CodeLengths:
        """Of codes [groups, rows, d] that look geometric, their means by row and channel of `taps` weights.

        p(q) ~ theta^|q| has the mean magnitude 2 theta / (1 - theta^2). By how much there are more zeros than
        that says is told of the layer as a whole.
        """
        magnitudes = np.abs(codes)
        mean = np.maximum(means(magnitudes, taps), _LEAST_MEAN)
        theta = (np.sqrt(1 + mean**2) - 1) / mean
        zero = (1 - theta) / (1 + theta)
        seen = [np.count_nonzero(magnitudes == level) + 0.5 for level in (0, 1)]
        expected = [float(zero.sum()), float((2 * zero * theta).sum())]
        further = -np.log2(theta)
        first = further + math.log2(seen[0] / seen[1]) - math.log2(expected[0] / expected[1])
        return CodeLengths(np.maximum(first, 0.0), further)

    def column(self, group: int, index: int) -> CodeLengths:
        """Those of one column, [rows]."""
        return CodeLengths(self.first[group, :, index], self.further[group, :, index])

    def cheapest(self, values: Array, price: Array | float, top: int) -> Array:
        """The codes within +-top of least (value - code)^2 + price * bits."""
        size = np.abs(values)
        nearest = np.minimum(np.rint(size), top)
        best, least = np.zeros(size.shape), size**2
        for count in (np.maximum(nearest - 1, 0), nearest):
            bits = np.where(count > 0, self.first + self.further * (count - 1), 0.0)
            cost = (size - count) ** 2 + price * bits
            best, least = np.where(cost < least, count, best), np.minimum(least, cost)
        return np.asarray(np.copysign(best, values))


def means(magnitudes: Array, taps: int) -> Array:
    """Mean magnitudes [groups, rows, d], each the product of what its row and its channel have."""
    groups, rows, d = magnitudes.shape
    mean = max(float(magnitudes.mean()), 1e-9)
    by_channel = magnitudes.reshape(groups * rows, d // taps, taps)
    row = (by_channel.sum(axis=(1, 2)) + _PRIOR * mean) / (d + _PRIOR)
    channel = (by_channel.sum(axis=(0, 2)) + _PRIOR * mean) / (groups * rows * taps + _PRIOR)
    return np.outer(row, np.repeat(channel, taps)).reshape(magnitudes.shape) / mean


@dataclass(frozen=True)
class Layer:
    """Rows [groups, rows, d] in units of scales [groups, rows].

    prices: of a bit at each weight, in squares of these units. parts: how the columns of each group make up
    for one another; none: they do not.
    """

    rows: Array
    scales: Array
    prices: Array
    parts: Sequence[Compensation]
    taps: int
    top: int

    def treated(self, group: int, treat: TreatColumn) -> Array:
        """The rows of a group with every column treated."""
        rows = self.rows[group]
        if self.parts:
            return self.parts[group].applied(rows, lambda *_: treat)
        return np.stack([treat(column, index) for index, column in enumerate(rows.T)], axis=1)

    def codes(self) -> Array:
        """Those of least error and bits."""
        codes = np.clip(np.rint(self.rows), -self.top, self.top)
        for _ in range(_ROUNDS):
            lengths = CodeLengths.of(codes, self.taps)
            if self.parts:
                codes = np.stack(
                    [self.treated(group, self._by(lengths, group)) for group in range(len(codes))]
                )
            else:
                codes = lengths.cheapest(self.rows, self.prices, self.top)
        return codes

    def _by(self, lengths: CodeLengths, group: int) -> TreatColumn:
        """What chooses the codes of a group's columns; zeros stay."""
        zeros = self.rows[group] == 0

        def treat(column: Array, index: int) -> Array:
            codes = lengths.column(group, index).cheapest(column, self.prices[group, :, index], self.top)
            return np.where(zeros[:, index], 0.0, codes)

        return treat


def coded_layer(
    rows: Array,
    second: Array,
    price: float,
    taps: int,
    top: int,
    *,
    finer: float = 1.0,
    compensating: bool = True,
) -> Layer:
    """What `coded` rounds. finer: the step, as a share of the best uniform one."""
    parts = [Compensation.of(h) for h in second] if compensating else []
    worth = np.stack([part.costs for part in parts] or [np.diag(damped(h)) for h in second])
    step = finer * math.sqrt(6 * price / math.log(2) / float(worth.mean()))
    scales = np.maximum(step, np.maximum(np.abs(rows).max(axis=2), _TINY) / top)
    scales = scales.astype(np.float32).astype(np.float64)
    prices = price / (scales[..., None] ** 2 * worth[:, None, :])
    return Layer(rows / scales[..., None], scales, prices, parts, taps, top)


def coded(
    rows: Array, second: Array, price: float, taps: int, top: int, *, compensating: bool = True
) -> tuple[Array, Array]:
    """Codes within +-top and scales [groups, rows] for rows [groups, rows, d] and moments [groups, d, d].

    price: of a bit, in squared output error. Columns are `taps` to a channel. Without `compensating`, each
    weight stands for itself.
    """
    layer = coded_layer(rows, second, price, taps, top, compensating=compensating)
    return layer.codes(), layer.scales
