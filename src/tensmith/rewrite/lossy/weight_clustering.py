"""Weight clustering: every weight of a tensor becomes one of few values, its codebook (Han et al. 2016)."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping

import numpy as np

from tensmith.errors import ProgramError
from tensmith.formula.arith import Array
from tensmith.ir import Program
from tensmith.rewrite.calibration import Calibration
from tensmith.rewrite.lossy.bias_correction import known_inputs, with_fitted_rows
from tensmith.rewrite.lossy.compensation import compensated_rounding, damped
from tensmith.rewrite.lossy.parameters import Parameters
from tensmith.rewrite.lossy.tables import layers_but_tables
from tensmith.rewrite.lossy.weights import layer_sites, weighted_layers
from tensmith.rewrite.method import WEIGHTS, Form, Method, MethodOutlook, Params, Prospect, Standing, lossy

_ROUNDS = 100
_SEARCHED_BITS = 5
# Times that the codebook is fitted again, and the largest for which that is worth its cost.
_TURNS, _MOST_FITTED = 2, 16


@lossy(
    "weight_clustering",
    stage=WEIGHTS,
    promise="makes all weights of a tensor one of few values, so that a short code stands for each",
)
class WeightClustering(Method):
    """params: bits 1..8, for 2^bits values a tensor; init "linear" or "quantile"; criterion "obs" (weights
    count by their input's energy, and later columns make up for errors) or "weights" (plain k-means). Layers
    too wide for moments take that.

    Zeros stay zeros, as one of the values.
    """

    def extensions(self, plan: Standing, prospect: Prospect) -> Iterable[Form]:
        """In the place of weights on a grid, or where there are no grids."""
        step = self.step(bits=_SEARCHED_BITS)
        if plan.graded is None and plan.ready and plan.find(self.name) is None:
            yield Form(plan.having(step), "clusters", order=50)
        elif plan.graded is not None and plan.graded.rule == "weight_only" and not plan.on_line:
            yield Form((step,), "clusters", order=50)

    def outlooks(self, prospect: Prospect) -> Mapping[str, MethodOutlook]:
        """All layers, a code for each weight and a table of values."""
        count = 2**_SEARCHED_BITS
        return {
            layer.site: MethodOutlook(
                f"{count} values", math.prod(layer.shape) * _SEARCHED_BITS / 8 + 4 * count
            )
            for layer in weighted_layers(prospect.program)
            if math.prod(layer.shape) > count
        }

    sites = staticmethod(layer_sites)

    def apply(self, program: Program, site: str, params: Params, calibration: Calibration) -> Program:
        """Constants of the same shape with few values; one that several layers read changes once.

        Tensors with as few values already stay; ProgramError if that is all of them.
        """
        reader = Parameters(self.name, params)
        bits, init = reader.count("bits"), reader.choice("init", "linear", "quantile")
        criterion = reader.choice("criterion", "obs", "weights")
        reader.done()
        if bits is None or bits > 8:
            raise reader.wrong("give bits, a whole number from 1 to 8")
        layers = [
            layer
            for layer in layers_but_tables(program, site)
            if len(np.unique(program.constants[layer.weight])) > 2**bits
        ]
        if not layers:
            raise ProgramError(
                f"the weights at '{site}' have at most {2**bits} values already; use fewer bits"
            )
        weights = {layer: layer.rows(program.constants[layer.weight]) for layer in layers}
        inputs = known_inputs(program, layers if criterion == "obs" else (), calibration)
        clustered = {
            layer: _fitted(rows, inputs[layer].second, 2**bits, init)
            if layer in inputs
            else _plain(rows, 2**bits, init)
            for layer, rows in weights.items()
        }
        return with_fitted_rows(program, clustered, inputs)


def _plain(rows: Array, count: int, init: str) -> Array:
    return nearest(rows, k_means(rows, np.ones_like(rows), count, init))


def _fitted(rows: Array, second: Array, count: int, init: str) -> Array:
    """rows [g, rows, d] on a codebook that is fitted to their assignment, and they to it, in turns."""
    energy = np.einsum("gdd->gd", second)
    importance = np.maximum(energy, 1e-9 * max(float(energy.max()), 1e-30))[:, None]
    codebook = k_means(rows, np.broadcast_to(importance, rows.shape), count, init)
    turns = _TURNS if count <= _MOST_FITTED else 0
    for turn in range(turns + 1):
        found = np.stack([_compensated(w, h, codebook) for w, h in zip(rows, second)])
        if turn < turns:
            codebook = refitted(rows, found, second, codebook)
    return found


def k_means(values: Array, importance: Array, count: int, init: str) -> Array:
    """At most `count` rising values of small sum of importance * (value - nearest)^2, by Lloyd's rounds.

    In one dimension clusters are intervals, so a round is two look-ups in sums over the sorted values. If
    some values are zero, zero is among the result, and stands for nothing else in the rounds.
    """
    flat, weight = values.reshape(-1), importance.reshape(-1)
    zeros = bool((flat == 0).any())
    order = np.argsort(flat[flat != 0], kind="stable")
    ordered, mass = flat[flat != 0][order], weight[flat != 0][order]
    if not ordered.size:
        return np.zeros(1)
    total = np.concatenate([[0.0], np.cumsum(mass)])
    moment = np.concatenate([[0.0], np.cumsum(mass * ordered)])
    wanted = count - zeros
    if init == "linear":
        centres = np.linspace(ordered[0], ordered[-1], wanted) if wanted > 1 else ordered[:1]
    else:
        shares = total[-1] * (np.arange(wanted) + 0.5) / wanted
        centres = ordered[np.searchsorted(total[1:], shares).clip(0, len(ordered) - 1)]
    for _ in range(_ROUNDS):
        borders = np.searchsorted(ordered, (centres[1:] + centres[:-1]) / 2)
        edges = np.concatenate([[0], borders, [len(ordered)]])
        masses = total[edges[1:]] - total[edges[:-1]]
        sums = moment[edges[1:]] - moment[edges[:-1]]
        moved = np.where(masses > 0, sums / np.where(masses > 0, masses, 1), centres)
        if np.array_equal(moved, centres):
            break
        centres = np.sort(moved)
    return np.unique(np.concatenate([centres, [0.0]]) if zeros else centres)


def nearest(values: Array, codebook: Array) -> Array:
    """Each value's nearest in the rising codebook; zeros stay zeros."""
    places = np.searchsorted((codebook[1:] + codebook[:-1]) / 2, values)
    return np.where(values == 0, 0.0, codebook[places])


def refitted(rows: Array, found: Array, second: Array, codebook: Array) -> Array:
    """The codebook of least output error for rows assigned as in `found`; all [g, rows, d], zero kept.

    With M_k the 0/1 mask of value k, the values c solve sum(l; <M_k H, M_l> c_l) = <M_k H, W>.
    """
    free = np.flatnonzero(codebook)
    index = np.searchsorted(codebook, found)
    gram, right = np.zeros((len(codebook), len(codebook))), np.zeros(len(codebook))
    for w, assigned, h in zip(rows, index, second):
        moments = damped(h)
        for k in free:
            spread = (assigned == k) @ moments
            right[k] += np.vdot(spread, w)
            gram[k] += np.bincount(assigned.reshape(-1), spread.reshape(-1), len(codebook))
    used = free[np.diag(gram)[free] > 0]
    result = codebook.copy()
    result[used] = np.linalg.lstsq(gram[np.ix_(used, used)], right[used], rcond=None)[0]
    return np.unique(result)


def _compensated(weights: Array, second: Array, codebook: Array) -> Array:
    """weights [rows, d] on the codebook, a column at a time, zeros kept."""
    zero = weights == 0

    def round_column(column: Array, index: int) -> Array:
        return np.where(zero[:, index], 0.0, nearest(column, codebook))

    return compensated_rounding(weights, second, round_column)
