"""Weights on an integer grid: symmetric, one scale an output channel, any number of bits from 2 to 8."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from tensmith.errors import ProgramError
from tensmith.formula.arith import Array
from tensmith.ir import Program
from tensmith.rewrite.calibration import Calibration
from tensmith.rewrite.lossy.compensation import compensated_rounding
from tensmith.rewrite.lossy.tables import is_table
from tensmith.rewrite.lossy.weights import WeightedLayer, shared_moment

_FRACTIONS = np.linspace(0.4, 1.0, 25)
_TINY = 1e-12
# A depthwise filter has few weights to make up for one another, and there are many of them: rounded plainly.
_MOST_COMPENSATED_GROUPS = 32


@dataclass(frozen=True)
class QuantizedWeights:
    """codes: int8, the layout of the weights; scales: float32 [rows], one an output channel."""

    codes: Array
    scales: Array
    axis: int


def largest_code(bits: int) -> int:
    """Of a symmetric grid; ProgramError for bits that there are no grids of."""
    if not 2 <= bits <= 8:
        raise ProgramError(f"weights take 2 to 8 bits, not {bits}")
    return int(2 ** (bits - 1) - 1)


def on_grid(
    program: Program, layer: WeightedLayer, bits: int, params: Mapping[str, Any], calibration: Calibration
) -> QuantizedWeights:
    """The weights of a layer as codes within +-(2**(bits-1) - 1) and scales.

    params["scales"]: "max" (the largest weight is representable) or "mse" (least error, inputs weighed by
    their energy). params["rounding"]: "nearest" or "compensated" (later columns make up for the error); rows
    of a table stand for themselves as well, so they are rounded plainly.
    """
    top = largest_code(bits)
    weights = program.constants[layer.weight]
    rows = layer.rows(weights)
    rounding, choice = params.get("rounding", "nearest"), params.get("scales", "max")
    if rounding not in ("nearest", "compensated") or choice not in ("max", "mse"):
        raise ProgramError(f"unknown rounding '{rounding}' or scales '{choice}'")
    if layer.groups > _MOST_COMPENSATED_GROUPS or is_table(program, layer):
        rounding = "nearest"
    needed = rounding == "compensated" or choice == "mse"
    second = shared_moment(program, layer, calibration).second if needed else None
    scales = _scales(rows, top, None if choice == "max" or second is None else second)
    if rounding == "compensated" and second is not None:
        codes = np.stack([_compensated(r, s, h, top) for r, s, h in zip(rows, scales, second)])
    else:
        codes = np.clip(np.rint(rows / scales[..., None]), -top, top)
    axis = weights.ndim - 1 if layer.transposed else 0
    return QuantizedWeights(
        layer.tensor(codes, weights).astype(np.int8), scales.reshape(-1).astype(np.float32), axis
    )


def _scales(rows: Array, top: int, second: Array | None) -> Array:
    """Scales [group, rows] in float32 precision for rows [group, rows, d]."""
    largest = np.maximum(np.abs(rows).max(axis=2), _TINY) / top
    if second is None:
        return np.asarray(largest.astype(np.float32).astype(np.float64))
    energy = np.stack([np.diag(h) for h in second])[:, None, :] + _TINY
    best, least = largest, np.full(largest.shape, np.inf)
    for fraction in _FRACTIONS:
        scale = largest * fraction
        error = np.clip(np.rint(rows / scale[..., None]), -top, top) * scale[..., None] - rows
        cost = np.sum(error**2 * energy, axis=2)
        best = np.where(cost < least, scale, best)
        least = np.minimum(least, cost)
    return np.asarray(best.astype(np.float32).astype(np.float64))


def _compensated(rows: Array, scales: Array, second: Array, top: int) -> Array:
    """Codes [rows, d] of one group."""

    def round_column(column: Array, _: int) -> Array:
        return np.asarray(np.clip(np.rint(column / scales), -top, top) * scales)

    rounded = compensated_rounding(rows, second, round_column, largest_first=True)
    return np.rint(rounded / scales[:, None])
