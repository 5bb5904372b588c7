"""What products of a value with weights have in common, whatever they sum over."""

from __future__ import annotations

from typing import ClassVar

from tensmith.ir.op import Attrs, Op


class Product(Op):
    """y = sums of products of x, the first input, with weights, the second; a third, if any, is added.

    windowed: x is [N, C, spatial...], y [N, K, out...], the weights [K, C / group, window...]; else x and y
    are rows [..., C] and [..., K], and the weights a matrix (or many).
    """

    windowed: ClassVar[bool] = False
    biased: ClassVar[bool] = False  # whether there may be a third input

    @property
    def bare(self) -> bool:
        """Whether it is rows times a matrix and nothing else."""
        return not self.windowed and not self.biased

    def filters(self, attrs: Attrs) -> int:
        """The axis of the weights along which there is one filter for each channel of y."""
        raise NotImplementedError

    def channels(self, rank: int) -> int:
        """The axis of x, and of y, that channels lie along."""
        return 1 if self.windowed else rank - 1
