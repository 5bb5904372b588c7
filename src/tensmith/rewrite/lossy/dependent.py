"""Weights rounded for an entropy coder, those of a column by the quantizers of a trellis.

As `coded`, on a grid nearly twice as fine, of which a `trellis` offers each weight every second number. Of
each column it is the way through the states that costs least, error and bits together (Viterbi 1967).
"""

from __future__ import annotations

import ctypes
import functools
import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from tensmith import trellis
from tensmith.errors import TensmithError
from tensmith.formula.arith import Array
from tensmith.rewrite.lossy.coded import Layer, coded_layer, means
from tensmith.rewrite.lossy.compensation import TreatColumn

# The grid's step, as a share of the one that codes without a trellis have at the same price.
FINER = 0.58
# A narrower grid is not made finer; nor is one that most rows reach the end of.
_LEAST_TOP, _FINE = 31, 0.8
# Ways to lead on: quantizer 0's even and odd codes, quantizer 1's even and odd ones. Numbers of a way are
# four apart; 0 is among the even codes of both.
_FIRST = np.array([0, 2, 3, 1])[:, None]
_ODD = np.array([0, 0, 1, 1])
_HOLDS_0 = np.array([True, False, True, False])[:, None]
_APART = 4
# By quantizer: from the odds against 0 of codes without a trellis, so many times them and so many more; and
# how much farther they reach.
_ODDS, _REACH = ((0.8, 0.0), (2.0, 1.5)), (0.7, 0.9)
_TINY = 1e-3
_SOURCE = Path(__file__).with_name("way.c")


@dataclass(frozen=True)
class _Lengths:
    """Bits of numbers: of 0, of the first one beside it, and of each further one; [2, groups, rows, d]."""

    zero: Array
    first: Array
    further: Array

    @staticmethod
    def like(codes: Array, taps: int) -> _Lengths:
        """As they are about where `codes` [groups, rows, d] are what a layer has without a trellis.

        Codes look geometric beside 0: of each quantizer it is told how many there are and how far they reach,
        times what the row and the channel have of the layer's mean.
        """
        magnitudes = np.abs(codes)
        local = means(magnitudes, taps)
        local = local / local.mean()
        beside = magnitudes[magnitudes > 0]
        count = beside.size + 0.5
        odds = count / (codes.size - beside.size + 0.5)
        reach = (float(beside.sum()) - beside.size + _TINY) / count
        found = []
        for (times, more), farther in zip(_ODDS, _REACH):
            beside_0, beyond = (times * odds + more) * local, farther * reach * local
            zero, ends = np.log2(1 + beside_0), np.log2(1 + beyond)
            found.append((zero, zero + 1 - np.log2(beside_0) + ends, ends - np.log2(beyond)))
        return _Lengths(*(np.stack(each) for each in zip(*found)))

    def column(self, group: int, index: int) -> _Lengths:
        """Those of one column, for each way to lead on: [4, rows]."""
        parts = (self.zero, self.first, self.further)
        return _Lengths(*(each[_ODD, group, :, index] for each in parts))


def dependent(
    rows: Array, second: Array, price: float, taps: int, top: int, *, compensating: bool = True
) -> tuple[Array, Array]:
    """Numbers within +-top and scales, as `coded.coded` has codes.

    A column of all groups is of one trellis. Where none serves, or the grid cannot be finer, they are codes.
    """
    plain = coded_layer(rows, second, price, taps, top, compensating=compensating)
    codes = plain.codes()
    groups, count, depth = rows.shape
    if not trellis.serves(groups * count, depth // taps) or top < _LEAST_TOP:
        return codes, plain.scales
    layer = coded_layer(rows, second, price, taps, top, finer=FINER, compensating=compensating)
    if np.median(layer.scales / plain.scales) > _FINE:
        return codes, plain.scales
    ways = _Ways(layer, _Lengths.like(codes, taps))
    return np.stack([layer.treated(group, ways.treat(group)) for group in range(groups)]), layer.scales


class _Ways:
    """The cheapest ways through columns of a layer, one group after the other."""

    def __init__(self, layer: Layer, lengths: _Lengths) -> None:
        self._layer, self._lengths = layer, lengths
        self._states = np.zeros(layer.rows.shape[2], np.int64)

    def treat(self, group: int) -> TreatColumn:
        """What chooses the numbers of a group's columns; zeros stay."""
        layer, zeros = self._layer, self._layer.rows[group] == 0
        shares = (layer.scales[group] / layer.scales[group].min()) ** 2

        def treated(column: Array, index: int) -> Array:
            lengths = self._lengths.column(group, index)
            sizes, costs = _cheapest(
                np.abs(column), lengths, layer.prices[group, :, index], layer.top, zeros[:, index]
            )
            taken, self._states[index] = _way(costs * shares, int(self._states[index]))
            return np.asarray(np.copysign(sizes[taken, np.arange(len(column))], column))

        return treated


def _cheapest(values: Array, lengths: _Lengths, price: Array, top: int, zeros: Array) -> tuple[Array, Array]:
    """For each way to lead on the magnitude of least (value - it)^2 + price * bits, and that; [4, rows]."""
    nearest = np.floor((values - _FIRST) / _APART + 0.5)
    nearest = np.clip(nearest, 0, (top - _FIRST) // _APART)
    best, least = np.zeros(nearest.shape), np.where(_HOLDS_0, values**2 + price * lengths.zero, np.inf)
    for steps in (np.maximum(nearest - 1, 0), nearest):
        sizes = _FIRST + _APART * steps
        # Of a quantizer's numbers, every second is of one parity.
        bits = lengths.first + lengths.further * ((sizes - 1) // 2)
        costs = np.where(sizes > 0, (values - sizes) ** 2 + price * bits, np.inf)
        best, least = np.where(costs < least, sizes, best), np.minimum(least, costs)
    # What stays 0 takes no choice, and no way without it.
    return best * ~zeros, np.where(zeros, np.where(_HOLDS_0, price * lengths.zero, np.inf), least)


def _way(costs: Array, state: int) -> tuple[Array, int]:
    """How each row leads on, on the cheapest way from a state; and the state at its end. costs: [4, rows]."""
    compiled = _compiled()
    if compiled is None:
        return _way_in_python(costs, state)
    costs = np.ascontiguousarray(costs, np.float64)
    taken = np.empty(costs.shape[1], np.uint8)
    last = int(compiled(costs.ctypes.data, taken.size, state, taken.ctypes.data))
    return taken, last


@functools.cache
def _compiled() -> Any:
    """The function of way.c; None where nothing compiles it."""
    from tensmith.kernel.isa import host_isa
    from tensmith.kernel.toolchain import load_library

    try:
        found = load_library(_SOURCE.read_text(encoding="utf-8"), host_isa()).cheapest_way
    except TensmithError:
        return None
    pointer = ctypes.c_void_p
    found.argtypes, found.restype = [pointer, ctypes.c_int64, ctypes.c_int32, pointer], ctypes.c_int32
    return found


def _way_in_python(costs: Array, state: int) -> tuple[Array, int]:
    at = [math.inf] * trellis.STATES
    at[state] = 0.0
    zero, one, two, three = at
    came = []
    for even, uneven, even_1, uneven_1 in costs.T.tolist():
        # Into states 0, 2, 1, 3: see trellis.following.
        a, b, c, d = zero + even, zero + uneven, two + even_1, two + uneven_1
        e, f, g, h = one + uneven, one + even, three + uneven_1, three + even_1
        came.append((a <= e, c <= g, b <= f, d <= h))
        zero, two, one, three = min(a, e), min(b, f), min(c, g), min(d, h)
    ends = (zero, one, two, three)
    last = here = ends.index(min(ends))
    taken = []
    for lower in reversed(came):
        here, way = _BACK[here][lower[here]]
        taken.append(way)
    return np.array(taken[::-1], np.uint8), last


# By state, and whether it was come to from the lower one of two: that state, and the way taken there.
_BACK = (((1, 1), (0, 0)), ((3, 3), (2, 2)), ((1, 0), (0, 1)), ((3, 2), (2, 3)))
