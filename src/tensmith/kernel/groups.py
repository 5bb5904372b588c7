"""Grouped convolutions for kernels that work on whole vectors: narrow groups are joined into wide ones.

Joined groups meet as products by zero, so what is not finite in one of them makes NaN in its neighbours.
"""

from __future__ import annotations

import numpy as np

from tensmith.formula.arith import Array
from tensmith.kernel.problem import ConvolutionProblem


def wide_groups(problem: ConvolutionProblem, lanes: int) -> tuple[int, int, int]:
    """(groups, channels of one, filters of one) after joining groups until each fills whole vectors."""
    channels, filters = problem.channels, problem.filters
    for count in range(problem.groups, 1, -1):
        parts = (channels // count, filters // count)
        if problem.groups % count == 0 and all(part % lanes == 0 for part in parts):
            return count, *parts
    return 1, channels, filters


def widen_groups(weights: Array, groups: int, wide: int) -> Array:
    """Weights [filters, channels/groups, *window] as [wide, filters/wide, channels/wide, *window].

    Each wide group holds groups/wide of the given ones along its diagonal, zeros elsewhere.
    """
    filters, channels = weights.shape[0] // groups, weights.shape[1]
    joined = groups // wide
    dense = np.zeros((wide, joined * filters, joined * channels, *weights.shape[2:]), weights.dtype)
    for group in range(groups):
        outer, inner = divmod(group, joined)
        rows = slice(inner * filters, (inner + 1) * filters)
        columns = slice(inner * channels, (inner + 1) * channels)
        dense[outer, rows, columns] = weights[group * filters : (group + 1) * filters]
    return dense
