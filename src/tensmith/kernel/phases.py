"""A strided convolution as the sum of convolutions of stride 1 over the phases of its image.

With k = s t + f, and x_f[j] = x[s j + f - pad] the phase f of x:

    sum(k < r; x[s o + k - pad] w[k]) = sum(f < s; sum(t; x_f[o + t] w[s t + f]))

Each phase has ceil(r / s) taps, or one less where s t + f would reach beyond the window. In two dimensions
there are s^2 phases (f, g).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tensmith.formula.arith import Array


@dataclass(frozen=True)
class Phases:
    """The phases of a square window at stride 1 or 2; in `order` those with all taps are neighbours."""

    window: int
    stride: int

    @property
    def taps(self) -> int:
        """Of the longest phase."""
        return -(-self.window // self.stride)

    @property
    def order(self) -> tuple[tuple[int, int], ...]:
        """(f, g) of every phase."""
        return ((0, 0),) if self.stride == 1 else ((0, 1), (0, 0), (1, 0), (1, 1))

    def _short(self, phase: int) -> bool:
        return -(-(self.window - phase) // self.stride) < self.taps

    def alive(self, last_row: bool, last_column: bool) -> tuple[int, int]:
        """(first, stop) of the phases that count in a product; at infinity, only those with a last tap."""
        places = [
            place
            for place, (f, g) in enumerate(self.order)
            if not (last_row and self._short(f)) and not (last_column and self._short(g))
        ]
        return places[0], places[-1] + 1

    def split(self, weights: Array) -> Array:
        """Weights [filters, channels, window, window] as [filters, phases, channels, taps, taps]."""
        size = self.taps * self.stride
        full = np.zeros((*weights.shape[:2], size, size), weights.dtype)
        full[:, :, : self.window, : self.window] = weights
        return np.stack([full[:, :, f :: self.stride, g :: self.stride] for f, g in self.order], 1)
