"""Heavy steps cut into parts that threads compute side by side: rows of the image, or filters.

A part is a smaller problem over the same memory. Rows of an image are that image with a larger halo: what
lies above and below a part's rows is not zeros then but its neighbours' rows, which is what a window reads
there. So kernels know nothing of threads; but those that put the zeros there themselves compute no such part.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace

from tensmith.backend.native.images import PositionWindow
from tensmith.backend.native.steps.step import Heavy
from tensmith.formula.arith import Array
from tensmith.kernel.algorithm import Kernel
from tensmith.kernel.problem import ConvolutionProblem
from tensmith.kernel.quantized import Requantization
from tensmith.kernel.tiles import read_halo

# Rows of a part are a multiple of this where the image has enough: tiles of several rows then fit.
_ROWS = 4


@dataclass(frozen=True)
class StepPart:
    """A part of a heavy step: its problem, the windows of x and y; the filters from, to."""

    problem: ConvolutionProblem
    x: PositionWindow | None
    y: PositionWindow | None
    filters: tuple[int, int]

    def fits(self, kernel: Kernel) -> bool:
        """Whether a kernel for its problem reads from memory all that windows reach, neighbours' rows too."""
        halo = kernel.source.halo
        return self.x is None or halo == halo.union(read_halo(self.problem))

    def of(self, step: Heavy) -> Heavy:
        """The step for these filters alone."""
        if self.problem.filters == step.problem.filters:
            return replace(step, problem=self.problem)
        chosen = slice(*self.filters)
        bias = None if step.bias is None else step.bias[chosen]
        how = None if step.requantization is None else _filters(step.requantization, chosen)
        weights = step.weights[chosen]
        return replace(step, problem=self.problem, weights=weights, bias=bias, requantization=how)


def _filters(how: Requantization, chosen: slice) -> Requantization:
    def some(array: Array | None) -> Array | None:
        return array if array is None or array.size == 1 else array[chosen]

    scales = how.scales if how.scales.size == 1 else how.scales[chosen]
    return replace(how, scales=scales, codes=some(how.codes), bias=some(how.bias))


def whole(problem: ConvolutionProblem) -> StepPart:
    """All of a problem."""
    return StepPart(problem, None, None, (0, problem.filters))


def cuts(problem: ConvolutionProblem, threads: int, lanes: int, tensor: bool) -> Iterator[list[StepPart]]:
    """Ways to cut a problem into at most so many parts of about one size; none if it has but one.

    Rows of a `tensor` lie one after another with all their columns: it is cut into rows alone.
    """
    by_rows = _rows(problem, threads)
    if len(by_rows) > 1:
        yield by_rows
    if problem.groups == 1 and not tensor:
        blocks = -(-problem.filters // lanes)
        parts = [
            StepPart(replace(problem, filters=stop - first), None, None, (first, stop))
            for first, stop in _shares(problem.filters, lanes * math.ceil(blocks / threads))
        ]
        if len(parts) > 1:
            yield parts


def _rows(problem: ConvolutionProblem, threads: int) -> list[StepPart]:
    """Parts of some rows each, or of some columns of an only row."""
    height, width = problem.output
    flat = problem.height == 1 and height == 1
    axis = 1 if flat else 0
    length = width if flat else height
    size = math.ceil(length / threads)
    even = math.ceil(size / _ROWS) * _ROWS
    parts = []
    for first, stop in _shares(length, even if math.ceil(length / even) == threads else size):
        reach = (stop - first - 1) * problem.strides[axis] + 1
        read = reach + problem.dilations[axis] * (problem.window[axis] - 1)
        read -= problem.pads[axis] + problem.pads[axis + 2]
        start = first * problem.strides[axis]
        if read < 1 or start + read > (problem.width if flat else problem.height):
            return []  # less than a window, or a window that lies in the border alone
        smaller = replace(problem, width=read) if flat else replace(problem, height=read)
        x, y = (
            PositionWindow(left=at, width=count, height=1)
            if flat
            else PositionWindow(at, count, width=across)
            for at, count, across in ((start, read, problem.width), (first, stop - first, width))
        )
        parts.append(StepPart(smaller, x, y, (0, problem.filters)))
    return parts


def _shares(length: int, size: int) -> list[tuple[int, int]]:
    """(first, stop) of the pieces of `size` that make up a length."""
    return [(first, min(first + size, length)) for first in range(0, length, size)]
