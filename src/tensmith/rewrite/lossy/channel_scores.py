"""How much each channel of a group matters, and how its consumers make up for those that go."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from tensmith.formula.arith import Array
from tensmith.ir import Program
from tensmith.rewrite.calibration import Calibration, Moment
from tensmith.rewrite.lossy.bias_correction import takes_bias, too_wide, with_bias_shifts
from tensmith.rewrite.lossy.compensation import damped
from tensmith.rewrite.lossy.dependency import ChannelGroup, ChannelUse
from tensmith.rewrite.lossy.weights import (
    StoredWeights,
    find_multiplying,
    sole_reader,
    stored_weights,
    with_rows,
)


@dataclass(frozen=True, eq=False)
class Reading:
    """One group of a consumer: rows [rows, d] against inputs with these moments, d positions of channels.

    moment: of this group's inputs, [d] and [d, d]; channels: the channel of each of the d positions, -1 for
    inputs that stay whatever is removed; biased: a bias can give back a mean.
    """

    rows: Array
    moment: Moment
    channels: Array
    biased: bool

    @property
    def moments(self) -> Array:
        """Second moments, about the mean where a bias can give that back."""
        return self.moment.about_mean if self.biased else self.moment.second


def readings(program: Program, use: ChannelUse, calibration: Calibration) -> list[Reading]:
    """What a consumer multiplies, group by group."""
    layer = find_multiplying(program, use.site)
    moment = calibration.moment(program, use.site)
    rows = layer.rows(layer.stored(program))
    channels = np.repeat(use.channels.reshape(layer.groups, -1), _taps(layer), axis=1)
    biased = takes_bias(program, layer)
    groups = zip(rows, moment.first, moment.second, channels)
    return [Reading(w, Moment(m, h, moment.count), places, biased) for w, m, h, places in groups]


def _taps(layer: StoredWeights) -> int:
    """Kernel positions: how many inputs of a row belong to one channel."""
    return int(np.prod(layer.shape[2:]))


def magnitude(program: Program, group: ChannelGroup) -> Array:
    """Sum of |w| of the rows a channel starts in, each layer's sums relative to their mean: [size]."""
    scores, layers = np.zeros(group.size), {own.site: own for own in stored_weights(program)}
    for use in group.producers:
        layer = layers[use.site]
        rows = np.abs(layer.rows(layer.stored(program))).sum(axis=2).reshape(-1)
        scores += _gathered(rows / max(float(rows.mean()), 1e-30), use.channels, group.size)
    return scores


def activity(group: ChannelGroup, read: list[list[Reading]], centred: bool) -> Array:
    """sum(w^2) * E[x^2] over the consumers' inputs, relative to each consumer's output energy: [size].

    With `centred`, the variance stands in for E[x^2] where a bias can make up for a constant.
    """
    scores = np.zeros(group.size)
    for parts in read:
        energy = sum(float(np.einsum("rd,rd->", p.rows @ p.moment.second, p.rows)) for p in parts)
        for part in parts:
            power = np.diag(part.moments if centred else part.moment.second).clip(0)
            costs = (part.rows**2).sum(axis=0) * power / max(energy, 1e-30)
            scores += _gathered(costs, part.channels, group.size)
    return scores


def eliminated(group: ChannelGroup, read: list[list[Reading]], count: int) -> Array:
    """The `count` channels that go one at a time, each the one whose loss the others make up for best.

    Optimal brain surgeon on whole channels: with P the inverse covariance of a consumer's inputs and J the
    positions of a channel, its loss costs trace(W_J P_JJ^-1 W_J^T); W and P are updated after each.
    """
    states = [_Elimination(part, len(parts)) for parts in read for part in parts]
    alive = np.ones(group.size, dtype=bool)
    order: list[int] = []
    for _ in range(count):
        costs = np.zeros(group.size)
        for state in states:
            state.add_costs(costs, alive)
        costs[~alive] = np.inf
        worst = int(np.argmin(costs))
        alive[worst] = False
        order.append(worst)
        for state in states:
            state.remove(worst)
    return np.array(order, dtype=np.int64)


class _Elimination:
    """The weights and the inverse covariance of one reading while channels go."""

    def __init__(self, part: Reading, groups: int) -> None:
        energy = float(np.einsum("rd,rd->", part.rows @ part.moment.second, part.rows)) * groups
        self._energy = max(energy, 1e-30)
        self._weights = part.rows.copy()
        self._inverse = np.linalg.inv(damped(part.moments))
        order = np.argsort(part.channels, kind="stable")
        numbers, starts = np.unique(part.channels[order], return_index=True)
        places = np.split(order, starts[1:])
        self._places = {int(n): place for n, place in zip(numbers, places) if n >= 0}

    def add_costs(self, costs: Array, alive: Array) -> None:
        """Adds what the loss of each channel that is left would cost, channels of a size together."""
        for size in {len(place) for place in self._places.values()}:
            own = [n for n, place in self._places.items() if len(place) == size and alive[n]]
            if not own:
                continue
            at = np.stack([self._places[n] for n in own])  # [n, size]
            blocks = self._inverse[at[:, :, None], at[:, None, :]]
            weights = self._weights[:, at].transpose(1, 2, 0)  # [n, size, rows]
            costs[own] += np.einsum("nkr,nkr->n", weights, np.linalg.solve(blocks, weights)) / self._energy

    def remove(self, channel: int) -> None:
        """The state without a channel."""
        place = self._places.pop(channel, None)
        if place is None:
            return
        pivot = np.linalg.solve(self._inverse[np.ix_(place, place)], self._inverse[place])
        self._weights -= self._weights[:, place] @ pivot
        self._inverse -= self._inverse[:, place] @ pivot


def refitted(program: Program, read: dict[str, list[Reading]], removed: Array) -> Program:
    """The program whose consumers make up, by least squares, for the channels in `removed`.

    W' = W C[:,S] (C[S,S] + damping)^-1 over the inputs S that stay (He, Zhang & Sun, ICCV 2017), with C the
    covariance and the bias b' = b + (W - W' on S) E[x] where the layer has room for one, else C = E[x x^T].
    A layer whose weights others read too keeps them.
    """
    rows: dict[StoredWeights, Array] = {}
    shifts: dict[str, Array] = {}
    for site, parts in read.items():
        layer = find_multiplying(program, site)
        if not sole_reader(program, layer):
            continue
        fits = [_fit(part, removed) for part in parts]
        rows[layer] = np.stack(fits)
        if parts[0].biased:
            shifts[site] = np.concatenate([(p.rows - fit) @ p.moment.first for p, fit in zip(parts, fits)])
    return with_bias_shifts(with_rows(program, rows), shifts)


def _fit(part: Reading, removed: Array) -> Array:
    """New rows, zero where the removed channels were."""
    stays = ~np.isin(part.channels, removed)
    moments = damped(part.moments, 1e-4)
    fit = np.zeros_like(part.rows)
    right = (part.rows @ moments[:, stays]).T
    fit[:, stays] = np.linalg.solve(moments[np.ix_(stays, stays)], right).T
    return fit


def _gathered(values: Array, channels: Array, size: int) -> Array:
    """Sums of `values` by channel: [size]."""
    member = channels >= 0
    return np.bincount(channels[member], values[member], size)


def by_consumer(
    program: Program, group: ChannelGroup, calibration: Calibration
) -> Iterator[tuple[str, list[Reading]]]:
    """(site, readings) of each consumer that is not too wide for moments."""
    for use in group.consumers:
        if not too_wide(find_multiplying(program, use.site)):
            yield use.site, readings(program, use, calibration)
