"""Kernels whose lanes are positions: images lie as planes, a weight is broadcast to a vector of positions.

Filters are worked on in chunks, groups one after the other; no group sees another's channels.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from tensmith.formula.expr import Expr, Formula, compute, total
from tensmith.formula.poly import Poly
from tensmith.kernel.algorithm import Kernel
from tensmith.kernel.buffer import Buffer
from tensmith.kernel.formulas import filters, image, memory, window_address
from tensmith.kernel.isa import Isa
from tensmith.kernel.problem import ConvolutionProblem
from tensmith.kernel.tiles import chunks, read_buffer

Array = np.ndarray[Any, Any]

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
        return read_buffer(self.problem, 1)

    @property
    def target(self) -> Buffer:
        """Planes."""
        return Buffer(self.problem.filters, *self.problem.output)


@dataclass(frozen=True)
class PlaneKernel(OverPlanes):
    """Takes every convolution of floats; a register tile is `count` filters by `vectors` vectors."""

    count: int
    vectors: int

    @classmethod
    def cheapest(cls, problem: ConvolutionProblem, isa: Isa, positions: int) -> Iterator[Kernel]:
        """Tiles of at most so many positions that fit the registers, cheapest first."""
        fitting = [cls(problem, isa, *tile) for tile in register_tiles(problem, isa, positions)]
        yield from sorted(fitting, key=lambda tile: tile.cost().cycles)[:_MOST_CANDIDATES]

    def pack(self, weights: Array) -> Array:
        """[group][chunk][channel][window][filter in chunk]."""
        return pack_chunks(weights, self.problem.groups, self.count)

    def formula(self) -> Formula:
        """Every tap of every channel of the group."""
        return plane_sum(self.problem, self.source)


def pack_chunks(weights: Array, groups: int, chunk: int) -> Array:
    """Weights [filters, channels/groups, *window] as [group][chunk][channel][window][filter in chunk]."""
    matrix = weights.reshape(groups, len(weights) // groups, -1).astype(np.float32)
    return np.concatenate([
        group[start : start + chunk].T.reshape(-1)
        for group in matrix
        for start in range(0, matrix.shape[1], chunk)
    ])  # fmt: skip


def plane_sum(problem: ConvolutionProblem, source: Buffer) -> Formula:
    """sum(c, u, v; memory[plane of channel c of k's group, and the tap] * w), c < channels / groups."""
    x, w = memory(source, image(problem)), filters(problem)
    channels, count = problem.channels // problem.groups, problem.filters // problem.groups

    def element(k: Poly, i: Poly, j: Poly) -> Expr:
        def product(c: Poly, u: Poly, v: Poly) -> Expr:
            plane = (k // count * channels + c) * source.plane
            return x[plane + window_address(problem, source, i, j, u, v)] * w[k, c, u, v]

        return total(w.shape[1:], product)

    return compute((problem.filters, *problem.output), element)


def register_tiles(problem: ConvolutionProblem, isa: Isa, positions: int) -> list[tuple[int, int]]:
    """(filters, vectors of positions) of every tile that the registers hold beside a row of x."""
    most = -(-positions // isa.lanes)
    return [
        (count, vectors)
        for count in range(1, min(problem.filters // problem.groups, isa.registers) + 1)
        for vectors in range(1, min(most, isa.registers) + 1)
        if isa.fits(count, vectors)
    ]


def step_cycles(count: int, vectors: int, loads: float) -> float:
    """Cycles of one step of a tile's sums, `loads` for its vectors of x."""
    return max(count * vectors, loads + _BROADCAST * count, _LATENCY)


def turning_cycles(target: Buffer, isa: Isa) -> float:
    """Cycles until y lies in blocks."""
    return _TURN * target.size / isa.lanes


def filter_chunks(problem: ConvolutionProblem, chunk: int) -> list[tuple[int, int]]:
    """(filters, how many such chunks) of one group."""
    return chunks(problem.filters // problem.groups, chunk)
