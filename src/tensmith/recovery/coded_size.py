"""What codes take in a file, as a part of the loss: training moves weights to where answers want them, and an
entropy coder is paid by how alike they are.

A code takes as many bits as it is rare (Shannon 1948); between two codes a weight takes its share of both, so
that the bits have gradients. What a bit costs follows from what all may take, as in entropy-constrained
quantization (Chou, Lookabaugh & Gray 1989), where that price is Lagrange's multiplier.
"""

from __future__ import annotations

import math
from collections.abc import Iterable

import torch

from tensmith.recovery.learning import Learning, LearningGrid
from tensmith.recovery.meanings import Tensor

# Codes that are nowhere count as so much of one.
_RARE = 0.05
# What is lost falls with the sixth power of the bits, or so.
POWER = 6.0
# A price is e to so many times the share that bits are off, and its level follows slowly: weights take a
# thousand steps to answer a price. Bits that are farther off count as so far.
_AT_ONCE, _SLOWLY, _FARTHEST, _LEAST_PRICE = 40.0, 0.1, 0.075, 1e-6
# A common factor of all scales is at most e to this, found within so many halvings.
_WIDEST, _HALVINGS = 1.0, 12


class _CodeLengths:
    """Of the codes of one grid, as they are at present."""

    def __init__(self, grid: LearningGrid) -> None:
        self.grid = grid
        self.count()

    def count(self) -> float:
        """All bits, by how often each magnitude is there; a sign takes a bit.

        Gradients go by lengths that never fall as codes grow, or weights would be held where no code is.
        """
        with torch.no_grad():
            codes = torch.nan_to_num(self.grid.codes())
            seen = torch.bincount(codes.abs().long().flatten(), minlength=2).float()
            lengths = -torch.log2((seen + _RARE) / (seen + _RARE).sum())
            lengths[1:] += 1
            self._lengths = lengths.flip(0).cummin(0).values.flip(0)
            return float((seen * lengths).sum())

    def length(self) -> Tensor:
        """The bits of all codes, between whole ones in proportion; those that none has are as the largest."""
        size = torch.clamp(self.grid.unrounded().abs(), max=len(self._lengths) - 1)
        below = torch.clamp(size.detach().floor(), max=len(self._lengths) - 2)
        place = below.long()
        first, second = self._lengths[place], self._lengths[place + 1]
        return (first + (size - below) * (second - first)).sum()


class CodedSize:
    """The bits of all codes of a network, which a price holds at a `target`. 0: no codes, or no target.

    level: of the price, nats of the loss that a bit a weight costs.
    """

    def __init__(self, learning: Iterable[Learning]) -> None:
        self._grids = [_CodeLengths(each) for each in learning if isinstance(each, LearningGrid)]
        self._weights = sum(each.grid.numbers.numel() for each in self._grids)
        self.target = self.level = self._price = 0.0

    def bits(self) -> float:
        """As they are now."""
        return sum((each.count() for each in self._grids), start=0.0)

    @property
    def stands(self) -> dict[str, float]:
        """What it goes on from."""
        return {"target": self.target, "level": self.level}

    def aim(self, target: float, loss: float) -> None:
        """From now on; at first at a price at which a bit costs what one less would lose."""
        self.target = target
        if target and not self.level:
            price = POWER * loss * self._weights / target
            self.level = max(price, _LEAST_PRICE) if math.isfinite(price) else _LEAST_PRICE
        self._reprice()

    def reach(self, target: float) -> None:
        """Codes as of scales that are all finer or coarser by one factor: they take so many bits, or as near
        as that gets. What they stand for stays as large as it was.

        A price can only hold bits: weights on a coarse grid do not find codes that take more by themselves.
        """
        stood_for = [each.grid.value().detach() for each in self._grids]
        low, high = -_WIDEST, _WIDEST
        for _ in range(_HALVINGS):
            middle = (low + high) / 2
            self._widen(middle)
            low, high = (middle, high) if self.bits() > target else (low, middle)
            self._widen(-middle)
        self._widen(high)
        for each, values in zip(self._grids, stood_for):
            each.grid.come_near(values)
        self.bits()

    def _widen(self, power: float) -> None:
        with torch.no_grad():
            for each in self._grids:
                each.grid.parameters["scale"].tensor.add_(power)

    def follow(self) -> None:
        """The price goes up while there are too many bits, down while there are too few."""
        self.level = max(self.level * math.exp(_SLOWLY * self._reprice()), _LEAST_PRICE)

    def _reprice(self) -> float:
        """Sets the price by what the codes take; by what share that is off."""
        off = self.bits() / self.target - 1 if self.target else 0.0
        off = min(max(off, -_FARTHEST), _FARTHEST)
        self._price = self.level * math.exp(_AT_ONCE * off)
        return off

    def add_gradients(self) -> None:
        """Those of what the codes cost."""
        for each in self._grids if self.target else ():
            (self._price / self._weights * each.length()).backward()
