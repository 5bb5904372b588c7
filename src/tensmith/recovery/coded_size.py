"""What codes take in a file, as a part of the loss: training moves weights to where answers want them, and an
entropy coder is paid by how alike they are.

A code takes as many bits as it is rare (Shannon 1948); between two codes a weight takes its share of both, so
that the bits have gradients. What a bit costs follows from what all may take, as in entropy-constrained
quantization (Chou, Lookabaugh & Gray 1989), where that price is Lagrange's multiplier.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any, TypeAlias

import torch

from tensmith.recovery.learning import Learning, LearningGrid

Tensor: TypeAlias = Any

# Codes that are nowhere count as so much of one.
_RARE = 0.05
# A price changes by shares of how far off the bits are, and of how much farther they went since; at most so
# much at a time. It never gets so low that it could not rise again.
_OFF, _FARTHER, _MOST_CHANGE, _LEAST_PRICE = 0.8, 20.0, 0.3, 1e-6
# A first price asks for so many times the loss, did all bits go.
_FIRST = 2.0


class _CodeLengths:
    """Of the codes of one grid, as they are at present."""

    def __init__(self, grid: LearningGrid) -> None:
        self.grid = grid
        self._lengths: Tensor = None

    def count(self) -> float:
        """All bits, by how often each magnitude is there; no larger one is shorter. A sign takes a bit."""
        with torch.no_grad():
            seen = torch.bincount(self.grid.codes().abs().long().flatten(), minlength=2).float()
            shares = (seen + _RARE) / (seen + _RARE).sum()
            lengths = -torch.log2(shares)
            lengths[1:] += 1
            self._lengths = torch.cummax(lengths, 0).values
            return float((seen * self._lengths).sum())

    def length(self) -> Tensor:
        """The bits of all codes, between whole ones in proportion; those that none has are as the largest."""
        if self._lengths is None:
            self.count()
        size = torch.clamp(self.grid.unrounded().abs(), max=len(self._lengths) - 1)
        below = torch.clamp(size.detach().floor(), max=len(self._lengths) - 2)
        place = below.long()
        first, second = self._lengths[place], self._lengths[place + 1]
        return (first + (size - below) * (second - first)).sum()


class CodedSize:
    """The bits of all codes of a network, which a price holds at a `target`. 0: no codes, or no target.

    price: nats of the loss that a bit a weight costs. off: by what share of the target there were more of
    them when it was last set.
    """

    def __init__(self, learning: Iterable[Learning]) -> None:
        self._grids = [_CodeLengths(each) for each in learning if isinstance(each, LearningGrid)]
        self._weights = sum(each.grid.numbers.numel() for each in self._grids)
        self.target = self.price = self.off = 0.0

    def bits(self) -> float:
        """As they are now."""
        return sum(each.count() for each in self._grids)

    def aim(self, target: float, loss: float) -> None:
        """From now on, at a price that the loss says."""
        self.target, self.off = target, 0.0
        if target and not self.price:
            self.price = max(_FIRST * loss * self._weights / target, _LEAST_PRICE)

    def follow(self) -> None:
        """The price goes up while there are too many bits, down while there are too few."""
        if self.target:
            off = self.bits() / self.target - 1
            change = _OFF * off + _FARTHER * (off - self.off)
            factor = math.exp(min(max(change, -_MOST_CHANGE), _MOST_CHANGE))
            self.price, self.off = max(self.price * factor, _LEAST_PRICE), off

    def add_gradients(self) -> None:
        """Those of what the codes cost."""
        if self.target:
            (self.price / self._weights * sum(each.length() for each in self._grids)).backward()
