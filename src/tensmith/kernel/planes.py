"""Kernels whose lanes are positions: images lie as planes, a weight is broadcast to a vector of positions.

Filters are worked on in chunks, groups one after the other; no group sees another's channels.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from tensmith.formula.arith import Array
from tensmith.formula.poly import Poly
from tensmith.kernel.algorithm import Kernel
from tensmith.kernel.buffer import Buffer
from tensmith.kernel.isa import Isa
from tensmith.kernel.nest import (
    Axis,
    Fetched,
    ForEach,
    MultiplyAdd,
    Operand,
    Registers,
    apart,
)
from tensmith.kernel.problem import ConvolutionProblem
from tensmith.kernel.tiles import chunks, read_buffer

_LATENCY = 8
_MOST_CANDIDATES = 6
# Cycles to broadcast a weight, beside the multiply-adds; to turn a vector of y into the blocks that most of
# its readers want.
_BROADCAST, _TURN = 0.5, 4


@dataclass(frozen=True)
class OverPlanes(Kernel):
    """A kernel that reads planes and writes planes."""

    @property
    def source(self) -> Buffer:
        """Planes, with the pads that are read as a halo."""
        return read_buffer(self.problem, 1, "u8" if self.problem.dtype == "u8" else "f32")

    @property
    def target(self) -> Buffer:
        """Planes."""
        return Buffer(self.problem.filters, *self.problem.output, dtype=self.source.dtype)


@dataclass(frozen=True)
class PlaneKernel(OverPlanes):
    """Takes every convolution of floats; a register tile is `count` filters by `vectors` vectors."""

    count: int
    vectors: int

    @classmethod
    @abstractmethod
    def run(cls, problem: ConvolutionProblem) -> int:
        """How many positions lie side by side: the most that a tile can have."""

    @classmethod
    def candidates(cls, problem: ConvolutionProblem, isa: Isa) -> Iterator[Kernel]:
        """Tiles that fit the registers, cheapest first."""
        most = -(-cls.run(problem) // isa.lanes)
        fitting = [
            cls(problem, isa, count, vectors)
            for count in range(1, min(problem.filters // problem.groups, isa.registers) + 1)
            for vectors in range(1, min(most, isa.registers) + 1)
            if isa.fits(count, vectors)
        ]
        yield from sorted(fitting, key=lambda tile: tile.cost().cycles)[:_MOST_CANDIDATES]

    def pack(self, weights: Array) -> Array:
        """[group][chunk][channel][window][filter in chunk]."""
        matrix = weights.reshape(self.problem.groups, self.problem.filters // self.problem.groups, -1)
        return np.concatenate([
            group[start : start + self.count].T.reshape(-1)
            for group in matrix.astype(np.float32)
            for start in range(0, matrix.shape[1], self.count)
        ])  # fmt: skip

    def _weights(self) -> Operand:
        """[group, filter, channel, *window], read from beginning to end."""
        index = tuple(map(Poly.symbol, ("group", "k", "c", "u", "v")))
        return Operand("w", index, (0, 1, 0, 0, self.count))

    def _products(self, x: Registers) -> ForEach:
        """The products of one tap: a[k][p], of each filter and each vector of positions."""
        k, p = apart("k", self.count), x.axes[0]
        return ForEach((k, p), (MultiplyAdd((k, p), Fetched(self._weights()), x),))

    def _taps(self) -> tuple[Axis, Axis, Axis]:
        """Channels of a group and the window."""
        tall, wide = self.problem.window
        return Axis("c", self.problem.channels // self.problem.groups), Axis("u", tall), Axis("v", wide)


def step_cycles(count: int, vectors: int, loads: float) -> float:
    """Cycles of one step of a tile's sums, `loads` for its vectors of x."""
    return max(count * vectors, loads + _BROADCAST * count, _LATENCY)


def turning_cycles(target: Buffer, isa: Isa) -> float:
    """Cycles until y lies in blocks."""
    return _TURN * target.size / isa.lanes


def filter_chunks(problem: ConvolutionProblem, chunk: int) -> list[tuple[int, int]]:
    """(filters, how many such chunks) of one group."""
    return chunks(problem.filters // problem.groups, chunk)
