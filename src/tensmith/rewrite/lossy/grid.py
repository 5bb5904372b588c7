"""Weights on an integer grid: symmetric, one scale an output channel, any number of bits from 2 to 8."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import ml_dtypes
import numpy as np

from tensmith.errors import ProgramError
from tensmith.formula.arith import Array
from tensmith.ir import Program
from tensmith.rewrite.calibration import Calibration
from tensmith.rewrite.lossy.bias_correction import LayerInputs, layer_inputs, too_wide
from tensmith.rewrite.lossy.coded import coded
from tensmith.rewrite.lossy.compensation import compensated_rounding
from tensmith.rewrite.lossy.dependent import dependent
from tensmith.rewrite.lossy.parameters import ROUNDINGS
from tensmith.rewrite.lossy.weights import (
    RecurrentWeights,
    StoredWeights,
    WeightedLayer,
    is_table,
    sole_reader,
)

# What rounds for an entropy coder.
_SHORT_CODES = {"coded": coded, "dependent": dependent}
# The grid on which a search finds out how sensitive a layer is.
PROBE_BITS = 4

_FRACTIONS = np.linspace(0.4, 1.0, 25)
_TINY = 1e-12
# Weights that are rounded at a time where nothing makes up for them.
_AT_A_TIME = 1 << 18
# A depthwise filter has few weights to make up for one another, and there are many of them: rounded plainly.
_MOST_COMPENSATED_GROUPS = 32


@dataclass(frozen=True)
class QuantizedWeights:
    """codes: int8, the layout of the stored weights; scales: float32 [rows], one an output channel.

    shifts: what biases give back of the means of outputs [rows], by the site of each layer of these weights.
    """

    codes: Array
    scales: Array
    axis: int
    shifts: Mapping[str, Array] = field(default_factory=dict)

    def values(self, like: Array) -> Array:
        """What the codes stand for, as the constant that they are made of is."""
        return self._times(self.scales).reshape(like.shape).astype(like.dtype)

    def no_finer_than(self, least: Array) -> QuantizedWeights:
        """With scales of at least that [rows]; codes are rounded anew where theirs is smaller."""
        scales = np.maximum(self.scales, least.astype(np.float32))
        coarser = np.divide(self.scales, scales, out=np.ones_like(scales), where=scales > 0)
        codes = np.rint(self._times(coarser)).astype(self.codes.dtype)
        return replace(self, codes=codes, scales=scales)

    def _times(self, factors: Array) -> Array:
        """The codes, those of each row times a number of its own."""
        shape = [-1 if d == self.axis else 1 for d in range(self.codes.ndim)]
        return np.asarray(self.codes * factors.reshape(shape))

    def with_scales_in(self, dtype: np.dtype[Any]) -> QuantizedWeights:
        """With scales that this type of floats rounds by little: those smaller than its normal numbers become
        the next larger number."""
        near = self.scales.astype(dtype)
        above = np.where(near < self.scales, np.nextafter(near, dtype.type(np.inf)), near)
        small = self.scales < float(ml_dtypes.finfo(dtype).tiny)
        return self.no_finer_than(np.where(small, above, 0)) if small.any() else self


def largest_code(bits: int) -> int:
    """Of a symmetric grid; ProgramError for bits that there are no grids of."""
    if not 2 <= bits <= 8:
        raise ProgramError(f"weights take 2 to 8 bits, not {bits}")
    return int(2 ** (bits - 1) - 1)


def on_grid(
    program: Program, layer: StoredWeights, bits: int, params: Mapping[str, Any], calibration: Calibration
) -> QuantizedWeights:
    """The weights of a layer as codes within +-(2**(bits-1) - 1) and scales.

    params["rounding"]: "nearest", "compensated" (later columns make up for the error), "coded" (codes are
    small, too, see `coded`) or "dependent" (so are they, by a trellis, see `dependent`). For the latter two a
    megabyte is worth params["price"] nats, and rounding the layer to the nearest of PROBE_BITS costs
    params["worth"][site] nats. params["scales"]: "max" (the largest weight is representable) or "mse" (least
    error, inputs weighed by their energy); these two find their own. Nothing makes up for errors in rows of a
    table, which stand for themselves (as well), in matrices that recurrent layers share, in layers too wide
    for moments, whose codes are the nearest, and in those that params["plain"] names.
    """
    top = largest_code(bits)
    rounding, choice = params.get("rounding", "nearest"), params.get("scales", "max")
    if rounding not in ROUNDINGS or choice not in ("max", "mse"):
        raise ProgramError(f"unknown rounding '{rounding}' or scales '{choice}'")
    if rounding in _SHORT_CODES and not too_wide(layer):
        return _coded(program, layer, _SHORT_CODES[rounding], top, params, calibration)
    if not _makes_up(program, layer, params):
        rounding = "nearest"
    if (rounding, choice) == ("nearest", "max") and (len(layer.shape) == 2 or not layer.transposed):
        return _nearest(program, layer, top)
    rows = layer.rows(layer.stored(program))
    needed = rounding == "compensated" or (choice == "mse" and not too_wide(layer))
    second = _second(program, layer, calibration) if needed else None
    scales = _scales(rows, top, None if choice == "max" or second is None else second)
    if rounding == "compensated" and second is not None:
        codes = np.stack([_compensated(r, s, h, top) for r, s, h in zip(rows, scales, second)])
    else:
        codes = np.clip(np.rint(rows / scales[..., None]), -top, top)
    return _quantized(program, layer, codes, scales)


def can_make_up(program: Program, layer: StoredWeights) -> bool:
    """Whether weights of a layer may move to make up for the rounding of others."""
    few = layer.groups <= _MOST_COMPENSATED_GROUPS and not too_wide(layer)
    if isinstance(layer, RecurrentWeights):
        return few and sole_reader(program, layer)
    return isinstance(layer, WeightedLayer) and few and not is_table(program, layer)


def _makes_up(program: Program, layer: StoredWeights, params: Mapping[str, Any]) -> bool:
    return layer.site not in params.get("plain", ()) and can_make_up(program, layer)


def _second(program: Program, layer: StoredWeights, calibration: Calibration) -> Array:
    """Moments [groups, d, d] of what the weights multiply: all alike in bare tables.

    What looks rows of a table up sees all of their elements alike, too.
    """
    if isinstance(layer, RecurrentWeights):
        return calibration.moment(program, layer.site).second
    if not isinstance(layer, WeightedLayer):
        return np.eye(layer.shape[-1])[None]
    second = layer_inputs(program, layer, calibration, biases=False).second
    if is_table(program, layer):
        return np.stack([np.eye(len(h)) * max(float(np.trace(h)) / len(h), _TINY) for h in second])
    return second


def _nearest(program: Program, layer: StoredWeights, top: int) -> QuantizedWeights:
    """Each weight rounded to the nearest, some rows at a time: a table of tokens is large."""
    weights = layer.stored(program)
    codes = np.empty(weights.shape, np.int8)
    given, made = (weights.T, codes.T) if layer.transposed else (weights, codes)
    many = max(1, _AT_A_TIME * len(given) // weights.size)
    scales = []
    for first in range(0, len(given), many):
        part = given[first : first + many]
        rows = part.reshape(1, len(part), -1).astype(np.float64)
        found = _scales(rows, top, None)
        made[first : first + many] = np.clip(np.rint(rows / found[..., None]), -top, top).reshape(part.shape)
        scales.append(found.reshape(-1))
    axis = weights.ndim - 1 if layer.transposed else 0
    return QuantizedWeights(codes, np.concatenate(scales).astype(np.float32), axis)


def _quantized(
    program: Program,
    layer: StoredWeights,
    codes: Array,
    scales: Array,
    shifts: Mapping[str, Array] | None = None,
) -> QuantizedWeights:
    weights = layer.stored(program)
    axis = weights.ndim - 1 if layer.transposed else 0
    tensor = layer.tensor(codes, weights).astype(np.int8)
    return QuantizedWeights(tensor, scales.reshape(-1).astype(np.float32), axis, shifts or {})


def _coded(
    program: Program,
    layer: StoredWeights,
    made: Callable[..., tuple[Array, Array]],
    top: int,
    params: Mapping[str, Any],
    calibration: Calibration,
) -> QuantizedWeights:
    rows = layer.rows(layer.stored(program))
    plain = _second(program, layer, calibration)
    inputs = LayerInputs(plain, {})
    if isinstance(layer, WeightedLayer) and not is_table(program, layer):
        inputs = layer_inputs(program, layer, calibration)
    taps = math.prod(layer.shape[2:]) if len(layer.shape) > 2 else 1
    price = _price(rows, plain, params, layer.site)
    with np.errstate(over="ignore", invalid="ignore"):
        making_up = _makes_up(program, layer, params)
        codes, scales = made(rows, inputs.second, price, taps, top, compensating=making_up)
    if not np.isfinite(scales).all():
        raise ProgramError(
            f"at the price of {params['price']} '{layer.site}' has no scales; give a lower one"
        )
    error = rows - codes * scales[..., None]
    shifts = {site: np.einsum("grd,gd->gr", error, mean).reshape(-1) for site, mean in inputs.means.items()}
    return _quantized(program, layer, codes, scales, shifts)


def _price(rows: Array, second: Array, params: Mapping[str, Any], site: str) -> float:
    """What a bit is worth in squared output error, as much of it as the probe made costing what it did.

    A layer whose worth is not told counts as the one that is worth most.
    """
    price, worth = params.get("price"), params.get("worth", {})
    if price is None or not worth:
        raise ProgramError(f"rounding '{params.get('rounding')}' needs price, and worth by layer")
    nats = max(float(worth.get(site, max(worth.values()))), _TINY)
    scales = _scales(rows, largest_code(PROBE_BITS), None)
    probe = np.rint(rows / scales[..., None]) * scales[..., None] - rows
    error = sum(float(np.einsum("rd,rd->", e @ h, e)) for e, h in zip(probe, second))
    return float(price) * error / (8e6 * nats)


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
    """Codes [rows, d] of one group; zeros stay, as somebody may have made them on purpose."""

    def round_column(column: Array, index: int) -> Array:
        rounded = np.clip(np.rint(column / scales), -top, top) * scales
        return np.where(rows[:, index] == 0, 0.0, rounded)

    rounded = compensated_rounding(rows, second, round_column)
    return np.rint(rounded / scales[:, None])
