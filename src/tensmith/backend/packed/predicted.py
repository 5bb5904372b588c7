"""Integers of convolutions: a kernel's taps, each foretold by those of it that are known already.

Filters are smooth and kernels are large or small as a whole, so earlier taps tell a tap's mean and spread.
Tap k of kernel p has the mean of a linear form of up to eight earlier taps near it, and the spread of the
kernel's rests so far, drawn towards row[o] * column[i] as `scaled` has it, times the tap's own. Taps are
coded one after the other, all kernels at once, so that a decoder knows all spreads of a tap before it reads.

Means are integers in 16ths, sums of rests integers in 256ths, levels quarter octaves as exponent and mantissa
of a float32 say. Floats are only multiplied, clipped and rounded, one operation at a time, which is the same
on every machine.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cache, lru_cache, partial

import numpy as np

from tensmith.backend.packed import scaled
from tensmith.backend.packed.compiled import KernelPlan
from tensmith.backend.packed.elements import AnyIntegers, Integers, moved
from tensmith.backend.packed.frequency import (
    CONTEXTS,
    DEGREES,
    FARTHEST,
    LEVELS,
    MAX_LEVEL,
    MEANS,
    MIN_LEVEL,
    PARTS,
    Floats,
    context_shifts,
    magnitude_bins,
    octaves,
)
from tensmith.backend.packed.rans import Contexts, batch_of, counted, numbered
from tensmith.backend.packed.scaled import SpreadShape
from tensmith.backend.packed.streams import EncodedTensor, StreamReader, number
from tensmith.errors import ModelError
from tensmith.trellis import Truths

MAX_TAPS = 64
_NEAR = 8  # earlier taps that a mean rests on
_ONE = 16  # the weight 1
_MANTISSA = 23  # bits of a float32's
_QUARTERS = tuple((octaves(quarter, 2) - (1 << 16)) << (_MANTISSA - 16) for quarter in (1, 2, 3))
_MOST_REST, _MOST_ADDED = (1 << 14) - 1, 1 << 20  # so that sums of all taps fit into 32 bits
_PRIORS = (1, 2, 4, 8, 16, 64)  # how many taps the row's and column's spread counts for
_MOST_TURN = 16  # of the common level
_SAMPLE = 1 << 14  # elements that a model is fitted to
_ALL = slice(None)


@dataclass(frozen=True, eq=False)
class _Model:
    """What all kernels share: weights [taps, _NEAR] in 16ths, levels of taps, prior, a turn of all levels."""

    weights: Integers
    taps: Integers
    prior: int
    turn: int = 0


class _KernelContexts:
    """Tells contexts of kernels whose levels are `grid`: arrays [taps, kernels], of any run of taps."""

    def __init__(self, model: _Model, grid: AnyIntegers) -> None:
        taps = np.arange(len(model.taps))
        self._first = _first_rests(model, grid)
        self._shares, self._turns = _shares(model, taps)[:, None], _turns(model)[:, None]

    def at(self, taps: slice, means: Integers, learned: Integers) -> Contexts:
        """The level and the mean in one number: of taps of such means, after rests of the sums `learned`."""
        spreads = (self._first + learned).astype(np.float32) * self._shares[taps]
        levels = np.clip(_quarter_octaves(spreads) + self._turns[taps], 0, LEVELS - 1)
        parts = np.clip(means.astype(np.float32) * _inverse_spreads()[levels], -FARTHEST, FARTHEST)
        contexts: Contexts = (levels * MEANS + (parts + np.float32(FARTHEST + 0.5)).astype(np.int64)).astype(
            np.uint16
        )
        return contexts


def _means(weights: Integers, near: Integers, known: AnyIntegers, tap: int) -> Integers:
    """The mean of each kernel at a tap, by the values of earlier ones, [taps, kernels]."""
    count = min(tap, _NEAR)
    means: Integers = weights[tap, :count] @ known[near[tap, :count]]
    return means


def _learned(factors: Integers, values: Integers, means: Integers) -> Integers:
    """What values add to the sums of rests, each by the factor of its tap."""
    rest = np.minimum(np.abs(_ONE * values - means), _MOST_REST)
    added: Integers = np.minimum(rest * factors >> 6, _MOST_ADDED)
    return added


def _quarter_octaves(spreads: Floats) -> Integers:
    """Four times log2 of them, and 4 * 127, rounded down."""
    bits = spreads.view(np.int32)
    fraction = bits & (1 << _MANTISSA) - 1
    steps = sum((fraction >= quarter).astype(np.int64) for quarter in _QUARTERS)
    return 4 * (bits >> _MANTISSA).astype(np.int64) + steps


def _first_rests(model: _Model, grid: AnyIntegers) -> Integers:
    """Sums of rests before there are any: the row's and column's spread, as often as it counts."""
    return model.prior * _prior_spreads()[grid.ravel() - MIN_LEVEL]


def _shares(model: _Model, taps: Integers) -> Floats:
    """What a sum of rests is multiplied by, for their mean, at each tap."""
    return np.float32(1) / (taps + model.prior).astype(np.float32)


def _turns(model: _Model) -> Integers:
    """From the quarter octaves of a spread to a level, counted from the lowest, at each tap."""
    return model.taps + (model.turn - 4 * (127 + 8) - MIN_LEVEL)


def _rest_factors(model: _Model) -> Integers:
    """What a rest in 16ths at each tap is multiplied by, over 64, for 256ths at level 0."""
    return np.array([octaves(-int(level), 2) >> 6 for level in model.taps], np.int64)


@cache
def _prior_spreads() -> Integers:
    """Of each level, in 256ths, rounded up so as to be of that level."""
    return np.array([-(-octaves(level, 2) >> 8) for level in range(MIN_LEVEL, MAX_LEVEL + 1)], np.int64)


@cache
def _inverse_spreads() -> Floats:
    """Of each level, how many parts of a spread a 16th is."""
    scales = np.array([octaves(level, 2) for level in range(MIN_LEVEL, MAX_LEVEL + 1)], np.float64)
    return (PARTS * (1 << 12) / scales).astype(np.float32)


def _table(
    shape: SpreadShape, contexts: Integers, low: int, high: int, odd: Integers | None = None
) -> Integers:
    """Frequencies [contexts, alphabet]; odd: the quantizer of each."""
    return shape.frequencies(contexts // MEANS + MIN_LEVEL, low, high, context_shifts()[contexts], odd)


def _present(contexts: Contexts, odd: Truths | None) -> tuple[Integers, Integers | None, Contexts]:
    """The distinct contexts, their quantizers if there are such, and the index of each element's."""
    if odd is None:
        present, index = numbered(contexts.ravel())
        return present, None, index
    present, index = numbered((contexts + CONTEXTS * odd).ravel())
    return present % CONTEXTS, present // CONTEXTS, index


def _layout(shape: tuple[int, ...]) -> tuple[int, int] | None:
    """Kernels and taps of a tensor [o, i, ...taps]; None where there are no taps, or too many."""
    taps = math.prod(shape[2:])
    return (shape[0] * shape[1], taps) if len(shape) > 2 and 1 < taps <= MAX_TAPS and all(shape) else None


@lru_cache
def _nearest(window: tuple[int, ...]) -> Integers:
    """For each tap of a window the eight earlier ones nearest to it, of equals the latest; -1 for none."""
    places = np.stack([axis.ravel() for axis in np.indices(window)], axis=1)
    near = np.full((len(places), _NEAR), -1, np.int64)
    for tap in range(1, len(places)):
        distance = ((places[:tap] - places[tap]) ** 2).sum(axis=1)
        order = np.lexsort((-np.arange(tap), distance))[:_NEAR]
        near[tap, : order.size] = order
    return near


def encode(
    values: Integers, shape: tuple[int, ...], most: float, odd: Truths | None = None
) -> EncodedTensor | None:
    """`values` (1-D, the row-major elements of `shape`); None without taps, or where it gains nothing.

    most: bits of the best that is known. odd: the quantizer of each, where a trellis made them.
    """
    if (layout := _layout(shape)) is None:
        return None
    center = int(np.median(values)) if odd is None else 0
    quantizers = None if odd is None else np.ascontiguousarray(odd.reshape(layout).T)
    planes = np.ascontiguousarray((values - center).reshape(layout).T)
    low, high = int(planes.min()), int(planes.max())
    near = _nearest(shape[2:])
    weights = _weights(planes, near)
    flat = SpreadShape(0, (0,) * int(magnitude_bins(low, high).max() + 1))
    stride = scaled.sampling_stride(planes.shape[1], max(1, _SAMPLE // len(planes)))
    *_, (rows, columns) = scaled.level_choices(np.abs(planes.T), shape[0], shape[1])
    base = int(np.median(rows))
    grid = scaled.level_grid(rows - base, columns, base)
    sampled = np.ascontiguousarray(planes[:, ::stride])
    own = None if quantizers is None else quantizers[:, ::stride]
    model, fitted, bits = _fit(sampled, own, near, grid.ravel()[::stride], weights, flat, low, high)
    header = [center, low, high, base, fitted.tail, *fitted.corrections, _PRIORS.index(model.prior)]
    head = (
        EncodedTensor(b"".join(map(number, [*header, model.turn])))
        + scaled.encode_levels(rows - base)
        + scaled.encode_levels(columns)
        + scaled.encode_levels(np.concatenate([model.taps[1:], weights[near >= 0]]))
    )
    if bits * planes.shape[1] / sampled.shape[1] + head.bits >= most:
        return None
    contexts = _KernelContexts(model, grid).at(_ALL, *_foretold(model, near, planes))
    present, of, index = _present(contexts, quantizers)
    table = _table(fitted, present, low, high, of)
    runs = (len(planes) * (1 if odd is None else shape[0]), -1)
    batches = [
        batch_of(run - low, places, table) for run, places in zip(planes.reshape(runs), index.reshape(runs))
    ]
    return head + EncodedTensor(batches=tuple(batches))


def decode(reader: StreamReader, shape: tuple[int, ...], dependent: bool = False) -> AnyIntegers:
    """Inverse of `encode`. dependent: whether a trellis made them."""
    take = reader.parameters.number
    center, low, high, base, fitted = scaled.read_shape(reader)
    prior = _PRIORS[take(0, len(_PRIORS) - 1)]
    turn = take(-_MOST_TURN, _MOST_TURN)
    layout = _layout(shape)
    if layout is None:
        raise ModelError("the packed model foretells taps where a tensor has none; the file is damaged")
    kernels, taps = layout
    rows, columns = scaled.decode_levels(reader, shape[0]), scaled.decode_levels(reader, shape[1])
    near = _nearest(shape[2:])
    coded = scaled.decode_levels(reader, taps - 1 + int(np.count_nonzero(near >= 0)))
    weights = np.zeros(near.shape, np.int64)
    weights[near >= 0] = coded[taps - 1 :]
    model = _Model(weights, np.concatenate([[0], coded[: taps - 1]]), prior, turn)
    grid = scaled.level_grid(rows, columns, base)
    if reader.compiled is not None:
        run = shape[1] if dependent else 0
        read = reader.compiled.kernels(fitted.density(low, high, dependent), _plan(model, grid, near, run))
        return moved(read.ravel(), center)
    planes = np.zeros((taps, kernels), np.int16)
    contexts, factors = _KernelContexts(model, grid), _rest_factors(model)
    learned = np.zeros(kernels, np.int64)
    for tap in range(taps):
        means = _means(weights, near, planes, tap)
        present, index = numbered(contexts.at(slice(tap, tap + 1), means, learned).ravel())
        if dependent:
            table = scaled.both_quantizers(partial(_table, fitted, present, low, high), present.size)
            planes[tap] = scaled.read_rows(reader, index.reshape(shape[:2]), table, low).ravel()
        else:
            planes[tap] = reader.symbols(index, _table(fitted, present, low, high)) + low
        learned += _learned(factors[tap], planes[tap].astype(np.int64), means)
    return moved(planes.T.ravel(), center)


def _plan(model: _Model, grid: AnyIntegers, near: Integers, run: int) -> KernelPlan:
    """What the compiled decoder computes contexts with. run: kernels of a row, where a trellis made them."""
    taps = np.arange(len(near))
    return KernelPlan(
        rests=_first_rests(model, grid),
        near=near,
        weights=model.weights,
        shares=_shares(model, taps),
        factors=_rest_factors(model),
        turns=_turns(model),
        inverse=_inverse_spreads(),
        quarters=_QUARTERS,
        most_rest=_MOST_REST,
        most_added=_MOST_ADDED,
        run=run,
    )


def _foretold(model: _Model, near: Integers, planes: Integers) -> tuple[Integers, Integers]:
    """Where all values are known: the means, and the sums of rests before each tap, [taps, kernels]."""
    means = np.stack([_means(model.weights, near, planes, tap) for tap in range(len(planes))])
    learned = np.zeros_like(planes)
    np.cumsum(_learned(_rest_factors(model)[:, None], planes, means)[:-1], axis=0, out=learned[1:])
    return means, learned


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
    planes: Integers,
    odd: Truths | None,
    near: Integers,
    grid: AnyIntegers,
    weights: Integers,
    start: SpreadShape,
    low: int,
    high: int,
) -> tuple[_Model, SpreadShape, float]:
    """Levels of taps by their rests; prior, turn, tail and corrections by what they cost; that, in bits."""
    means = np.stack([_means(weights, near, planes, tap) for tap in range(len(planes))])
    sizes = np.abs(_ONE * planes - means).mean(axis=1) + 1e-3
    taps = np.clip(np.rint(4 * np.log2(sizes / sizes[0])), -scaled.REACH, scaled.REACH).astype(np.int64)
    first = _Model(weights, taps, _PRIORS[2])
    foretold = _foretold(first, near, planes)  # the same for every prior and turn
    known: dict[tuple[int, int], tuple[Integers, Integers | None, Integers]] = {}

    def counts(model: _Model) -> tuple[Integers, Integers | None, Integers]:
        key = (model.prior, model.turn)
        if key not in known:
            present, of, index = _present(_KernelContexts(model, grid).at(_ALL, *foretold), odd)
            known[key] = present, of, counted((planes - low).ravel(), index, present.size, high - low + 1)
        return known[key]

    @cache
    def cost(model: _Model, shape: SpreadShape) -> float:
        present, of, table = counts(model)
        return scaled.code_length(table, _table(shape, present, low, high, of), shape)

    model, shape = first, start
    turns = [replace(model, turn=model.turn + turn) for turn in (0, -2, -1, 1)]
    model = min(turns, key=lambda each: cost(each, shape))
    priors = [replace(model, prior=prior) for prior in _PRIORS]
    model = min(priors, key=lambda each: cost(each, shape))
    tails = range(max(0, shape.tail - 2), min(len(DEGREES), shape.tail + 3))
    shape = min((replace(shape, tail=tail) for tail in tails), key=lambda each: cost(model, each))
    present, of, table = counts(model)
    expected = _table(shape, present, low, high, of)
    moved = scaled.corrected(shape, table, expected, magnitude_bins(low, high))
    shape = min(shape, moved, key=lambda each: cost(model, each))
    return model, shape, cost(model, shape)
