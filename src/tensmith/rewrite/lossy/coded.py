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
from collections.abc import Callable
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
        mean = np.maximum(_means(magnitudes, taps), _LEAST_MEAN)
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


def _means(magnitudes: Array, taps: int) -> Array:
    """Mean magnitudes [groups, rows, d], each the product of what its row and its channel have."""
    groups, rows, d = magnitudes.shape
    mean = max(float(magnitudes.mean()), 1e-9)
    by_channel = magnitudes.reshape(groups * rows, d // taps, taps)
    row = (by_channel.sum(axis=(1, 2)) + _PRIOR * mean) / (d + _PRIOR)
    channel = (by_channel.sum(axis=(0, 2)) + _PRIOR * mean) / (groups * rows * taps + _PRIOR)
    return np.outer(row, np.repeat(channel, taps)).reshape(magnitudes.shape) / mean


def coded(
    rows: Array, second: Array, price: float, taps: int, top: int, *, compensating: bool = True
) -> tuple[Array, Array]:
    """Codes within +-top and scales [groups, rows] for rows [groups, rows, d] and moments [groups, d, d].

    price: of a bit, in squared output error. Columns are `taps` to a channel. Without `compensating`, each
    weight stands for itself.
    """
    parts = [Compensation.of(h) for h in second] if compensating else []
    worth = np.stack([part.costs for part in parts] or [np.diag(damped(h)) for h in second])
    step = math.sqrt(6 * price / math.log(2) / float(worth.mean()))
    scales = np.maximum(step, np.maximum(np.abs(rows).max(axis=2), _TINY) / top)
    scales = scales.astype(np.float32).astype(np.float64)
    scaled = rows / scales[..., None]
    prices = price / (scales[..., None] ** 2 * worth[:, None, :])
    codes = np.clip(np.rint(scaled), -top, top)
    for _ in range(_ROUNDS):
        lengths = CodeLengths.of(codes, taps)
        if not compensating:
            codes = lengths.cheapest(scaled, prices, top)
            continue
        codes = np.stack(
            [
                part.applied(own, _treating(lengths, prices[group], own == 0, group, top))
                for group, (part, own) in enumerate(zip(parts, scaled))
            ]
        )
    return codes, scales


def _treating(
    lengths: CodeLengths, prices: Array, zeros: Array, group: int, top: int
) -> Callable[[Array, Array, Array], TreatColumn]:
    """What chooses the codes of a group's columns; zeros stay."""

    def treat(column: Array, index: int) -> Array:
        codes = lengths.column(group, index).cheapest(column, prices[:, index], top)
        return np.where(zeros[:, index], 0.0, codes)

    return lambda *_: treat
