"""Integers of convolutions: a kernel's taps, each foretold by those of it that are known already.

Filters are smooth and kernels are large or small as a whole, so earlier taps tell a tap's mean and spread.
Tap k of kernel p has the mean of a linear form of up to eight earlier taps near it, and the spread of the
kernel's rests so far, drawn towards row[o] * column[i] as `scaled` has it, times the tap's own. Taps are
coded one after the other, all kernels at once, so that a decoder knows all spreads of a tap before it reads.

Everything is integer arithmetic: values in 16ths where means are, scales out of 2^16, levels in quarter
octaves.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cache

import numpy as np

from tensmith.backend.packed import scaled
from tensmith.backend.packed.elements import Integers
from tensmith.backend.packed.frequency import DEGREES, MAX_LEVEL, MIN_LEVEL, magnitude_bins, octaves
from tensmith.backend.packed.rans import Contexts, batch_of
from tensmith.backend.packed.scaled import Shape
from tensmith.backend.packed.streams import EncodedTensor, StreamReader, number
from tensmith.errors import ModelError

MAX_TAPS = 64
_NEAR = 8  # earlier taps that a mean rests on
_ONE = 16  # the weight 1
_PARTS, _FARTHEST = 3, 9  # means are rounded to thirds of a spread, three spreads at most
_MEANS = 2 * _FARTHEST + 1
_PRIORS = (1, 2, 4, 8, 16, 64)  # how many taps the row's and column's spread counts for
_MOST_TURN = 16  # of the common level


@dataclass(frozen=True)
class _Model:
    """What all kernels share: weights [taps, _NEAR] in 16ths, levels of taps, prior, a turn of all levels."""

    weights: Integers
    taps: Integers
    prior: int
    turn: int = 0


class _Kernels:
    """Foretells tap after tap. known: the values so far, [taps, kernels]; grid: the kernels' levels."""

    def __init__(self, model: _Model, grid: Integers, near: Integers, known: Integers) -> None:
        self._model, self._near, self._known = model, near, known
        levels = np.clip(grid.ravel(), MIN_LEVEL, MAX_LEVEL)
        self._prior = _scales()[levels - MIN_LEVEL]
        self._rests = np.zeros(levels.size, np.int64)
        self._mean = np.zeros(levels.size, np.int64)

    def contexts(self, tap: int) -> Contexts:
        """The context of each kernel at that tap: its level and its mean, in one number."""
        model = self._model
        known = min(tap, _NEAR)
        self._mean = model.weights[tap, :known] @ self._known[self._near[tap, :known]]
        spread = (self._rests + model.prior * self._prior) // (tap + model.prior)
        levels = np.searchsorted(_scales(), spread, side="right") - 1 + (model.turn + int(model.taps[tap]))
        levels = np.clip(levels, 0, MAX_LEVEL - MIN_LEVEL)
        scale = _scales()[levels]
        means = (2 * _PARTS * (self._mean << 12) + scale) // (2 * scale)
        contexts: Contexts = (levels * _MEANS + np.clip(means, -_FARTHEST, _FARTHEST) + _FARTHEST).astype(
            np.uint16
        )
        return contexts

    def learn(self, tap: int) -> None:
        """Takes in that tap's values, which are known now."""
        rest = np.abs(_ONE * self._known[tap] - self._mean)
        self._rests += rest * octaves(-int(self._model.taps[tap]), 2) >> 4


@cache
def _scales() -> Integers:
    """2^16 times the scale of each level, ascending."""
    return np.array([octaves(level, 2) for level in range(MIN_LEVEL, MAX_LEVEL + 1)], np.int64)


def _table(shape: Shape, contexts: Integers, low: int, high: int) -> Integers:
    """Frequencies [contexts, alphabet]."""
    levels, means = np.divmod(contexts, _MEANS)
    shifts = (means - _FARTHEST) * _scales()[levels] // (_PARTS << 8)
    return shape.frequencies(levels + MIN_LEVEL, low, high, shifts)


def _layout(shape: tuple[int, ...]) -> tuple[int, int] | None:
    """Kernels and taps of a tensor [o, i, ...taps]; None where there are no taps, or too many."""
    taps = math.prod(shape[2:])
    return (shape[0] * shape[1], taps) if len(shape) > 2 and 1 < taps <= MAX_TAPS and all(shape) else None


def _nearest(shape: tuple[int, ...]) -> Integers:
    """For each tap the eight earlier ones nearest to it, latest first among equals; -1 where there are less."""
    places = np.stack([axis.ravel() for axis in np.indices(shape[2:])], axis=1)
    near = np.full((len(places), _NEAR), -1, np.int64)
    for tap in range(1, len(places)):
        distance = ((places[:tap] - places[tap]) ** 2).sum(axis=1)
        order = np.lexsort((-np.arange(tap), distance))[:_NEAR]
        near[tap, : order.size] = order
    return near


def encode(values: Integers, shape: tuple[int, ...], most: float) -> EncodedTensor | None:
    """`values` (1-D, the row-major elements of `shape`); None without taps, or where it gains nothing.

    most: bits of the best that is known.
    """
    if (layout := _layout(shape)) is None:
        return None
    center = int(np.median(values))
    planes = np.ascontiguousarray((values - center).reshape(layout).T)
    low, high = int(planes.min()), int(planes.max())
    near = _nearest(shape)
    weights = _weights(planes, near)
    flat = Shape(0, (0,) * int(magnitude_bins(low, high).max() + 1))
    best: EncodedTensor | None = None
    for rows, columns in scaled.level_choices(np.abs(planes.T), shape[0], shape[1]):
        base = int(np.median(rows))
        grid = scaled.level_grid(rows - base, columns, base)
        model, fitted = _fit(planes, near, grid, weights, flat)
        header = [center, low, high, base, fitted.tail, *fitted.corrections, _PRIORS.index(model.prior)]
        coded = weights[near >= 0]
        encoded = (
            EncodedTensor(b"".join(map(number, [*header, model.turn])))
            + scaled.encode_levels(rows - base)
            + scaled.encode_levels(columns)
            + scaled.encode_levels(model.taps)
            + scaled.encode_levels(coded)
        )
        contexts = np.stack(list(_all_contexts(model, grid, near, planes)))
        present, index = np.unique(contexts, return_inverse=True)
        table = _table(fitted, present.astype(np.int64), low, high)
        for plane, own in zip(planes, index.reshape(contexts.shape)):
            encoded += EncodedTensor(batches=(batch_of(plane - low, own.astype(np.uint16), table),))
        if encoded.bits < most:
            best, most = encoded, encoded.bits
    return best


def decode(reader: StreamReader, shape: tuple[int, ...], count: int) -> Integers:
    """Inverse of `encode`; `count` is the product of `shape`."""
    take = reader.parameters.number
    center, low, high, base, fitted = scaled.read_shape(reader)
    prior = _PRIORS[take(0, len(_PRIORS) - 1)]
    turn = take(-_MOST_TURN, _MOST_TURN)
    layout = _layout(shape)
    if layout is None:
        raise ModelError("the packed model foretells taps where a tensor has none; the file is damaged")
    kernels, taps = layout
    rows, columns = scaled.decode_levels(reader, shape[0]), scaled.decode_levels(reader, shape[1])
    own = scaled.decode_levels(reader, taps)
    near = _nearest(shape)
    weights = np.zeros(near.shape, np.int64)
    weights[near >= 0] = scaled.decode_levels(reader, int((near >= 0).sum()))
    planes = np.zeros((taps, kernels), np.int64)
    state = _Kernels(_Model(weights, own, prior, turn), scaled.level_grid(rows, columns, base), near, planes)
    for tap in range(taps):
        present, index = np.unique(state.contexts(tap), return_inverse=True)
        table = _table(fitted, present.astype(np.int64), low, high)
        planes[tap] = reader.symbols(index.astype(np.uint16), table) + low
        state.learn(tap)
    elements: Integers = planes.T.ravel() + center
    return elements


def _all_contexts(model: _Model, grid: Integers, near: Integers, planes: Integers) -> Iterator[Contexts]:
    state = _Kernels(model, grid, near, planes)
    for tap in range(len(planes)):
        yield state.contexts(tap)
        state.learn(tap)


def _weights(planes: Integers, near: Integers) -> Integers:
    """Least squares, with a little weight on small weights, in 16ths."""
    values = planes.astype(np.float64)
    products = values @ values.T
    ridge = 1e-9 + 1e-3 * products.trace() / len(planes)
    weights = np.zeros(near.shape, np.int64)
    for tap in range(1, len(planes)):
        own = near[tap][near[tap] >= 0]
        system = products[np.ix_(own, own)] + ridge * np.eye(own.size)
        found = np.linalg.solve(system, products[own, tap])
        weights[tap, : own.size] = np.clip(np.rint(_ONE * found), -scaled.REACH, scaled.REACH)
    return weights


def _fit(
    planes: Integers, near: Integers, grid: Integers, weights: Integers, flat: Shape
) -> tuple[_Model, Shape]:
    """Levels of taps from their rests; then prior, turn, tail and corrections by what they cost."""
    low, high = int(planes.min()), int(planes.max())
    alphabet = high - low + 1
    means = np.einsum("tn,tnp->tp", weights, planes[near])
    sizes = np.abs(_ONE * planes - means).mean(axis=1) + 1e-3
    taps = np.clip(np.rint(4 * np.log2(sizes / sizes[0])), -scaled.REACH, scaled.REACH).astype(np.int64)
    start = _Model(weights, taps, _PRIORS[2])
    counted: dict[tuple[int, int], tuple[Integers, Integers]] = {}

    def counts(model: _Model) -> tuple[Integers, Integers]:
        key = (model.prior, model.turn)
        if key not in counted:
            contexts = np.stack(list(_all_contexts(model, grid, near, planes))).astype(np.int64)
            present, index = np.unique(contexts, return_inverse=True)
            keys = index.ravel() * alphabet + (planes - low).ravel()
            table = np.bincount(keys, minlength=present.size * alphabet).reshape(present.size, alphabet)
            counted[key] = present, table
        return counted[key]

    def cost(model: _Model, shape: Shape) -> float:
        present, table = counts(model)
        return scaled.code_length(table, _table(shape, present, low, high), shape)

    model, shape = start, flat
    for _ in range(2):
        for turn in (-2, -1, 1):
            model = min(model, replace(model, turn=model.turn + turn), key=lambda each: cost(each, shape))
        model = min((replace(model, prior=prior) for prior in _PRIORS), key=lambda each: cost(each, shape))
        tails = [tail for tail in range(shape.tail - 2, shape.tail + 3) if 0 <= tail < len(DEGREES)]
        shape = min((replace(shape, tail=tail) for tail in tails), key=lambda each: cost(model, each))
        present, table = counts(model)
        moved = scaled.corrected(
            shape, table, _table(shape, present, low, high), magnitude_bins(low, high)
        )
        shape = min(shape, moved, key=lambda each: cost(model, each))
    return model, shape
