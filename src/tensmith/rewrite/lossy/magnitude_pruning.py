"""Magnitude pruning: the weights that matter least become zero.

They matter by size (Han et al. 2015), or by what their loss costs when the other weights of the row make up
for it (optimal brain surgeon; SparseGPT, Frantar & Alistarh 2023). Between layers what they cost is compared
as a share of their layer's (LAMP; Lee et al. 2021).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from tensmith.formula.arith import Array
from tensmith.ir import Program
from tensmith.rewrite.calibration import Calibration
from tensmith.rewrite.lossy.bias_correction import LayerInputs, known_inputs, with_fitted_rows
from tensmith.rewrite.lossy.compensation import Compensation, TreatColumn, damped_cholesky
from tensmith.rewrite.lossy.parameters import Parameters
from tensmith.rewrite.lossy.tables import layers_but_tables
from tensmith.rewrite.lossy.weights import layer_sites, weighted_layers
from tensmith.rewrite.method import WEIGHTS, Form, Method, MethodOutlook, Params, Prospect, Standing, lossy

# Columns whose zeros are chosen at once. Few, since each choice should see what the one before moved.
_BLOCK = 32
# Shares of weights that a search makes zero, one after the other.
_SPARSITIES = (0.3, 0.5, 0.7)
# The share that is worth trying where training follows.
_CHALLENGING = 0.8


@lossy(
    "magnitude_pruning",
    stage=WEIGHTS,
    promise="sets the weights that matter least to zero, so that they need not be stored",
)
class MagnitudePruning(Method):
    """params: sparsity in 0..1, the share of weights that is zero afterwards (in every layer for scope
    "layer", over all of them for "global"); criterion "l1" or "obs", which is "l1" in layers too wide for
    moments."""

    zeros = True

    def extensions(self, plan: Standing, prospect: Prospect) -> Iterable[Form]:
        """More zeros everywhere."""
        taken = plan.find(self.name)
        sparsity = next((s for s in _SPARSITIES if taken is None or s > taken.params["sparsity"]), None)
        if plan.ready and not plan.on_line and sparsity is not None:
            step = self.step(sparsity=sparsity, scope="global", criterion="obs")
            yield Form(plan.having(step), plan.family, order=30)

    def challenges(self, plan: Standing, prospect: Prospect) -> Iterable[Form]:
        """Most weights gone."""
        if plan.ready and plan.find(self.name) is None:
            step = self.step(sparsity=_CHALLENGING, scope="global", criterion="obs")
            yield Form(plan.having(step), plan.family)

    def outlooks(self, prospect: Prospect) -> Mapping[str, MethodOutlook]:
        """All layers with the first share of zeros; where they are takes its entropy."""
        share = _SPARSITIES[0]
        bits = -share * math.log2(share) - (1 - share) * math.log2(1 - share)
        found = {}
        for layer in weighted_layers(prospect.program):
            stored = prospect.program.constants[layer.weight]
            size = (1 - share) * stored.nbytes + bits * stored.size / 8
            found[layer.site] = MethodOutlook(f"{share:.0%} zeros", size)
        return found

    sites = staticmethod(layer_sites)

    def apply(self, program: Program, site: str, params: Params, calibration: Calibration) -> Program:
        """Constants of the same shape with more zeros; a constant that several layers read changes once."""
        reader = Parameters(self.name, params)
        sparsity = reader.number("sparsity", low=0, high=1)
        scope, criterion = reader.choice("scope", "layer", "global"), reader.choice("criterion", "l1", "obs")
        reader.done()
        if not sparsity:
            raise reader.wrong("sparsity is missing or 0; give the share of weights to remove")
        layers = layers_but_tables(program, site)
        weights = {layer: layer.rows(program.constants[layer.weight]) for layer in layers}
        inputs = known_inputs(program, layers if criterion == "obs" else (), calibration)
        shares = [sparsity] * len(layers)
        if scope == "global":
            shares = _shares([_costs(rows, inputs.get(layer)) for layer, rows in weights.items()], sparsity)
        changed = {
            layer: _treated(rows, inputs.get(layer), share)
            for (layer, rows), share in zip(weights.items(), shares)
        }
        return with_fitted_rows(program, changed, inputs)


def _treated(rows: Array, inputs: LayerInputs | None, share: float) -> Array:
    """Rows [g, rows, d] with a share of them zero."""
    if inputs is None:
        return smallest_to_zero(rows, share)
    quota = Quota(share)
    return np.stack([surgeon(w, h, quota) for w, h in zip(rows, inputs.second)])


def _shares(costs: Sequence[Array], sparsity: float) -> list[float]:
    """The share of each layer that goes: of all layers together the weights that cost least for theirs."""
    scores = [_layer_adapted(cost) for cost in costs]
    flat = np.concatenate([score.reshape(-1) for score in scores])
    count = round(sparsity * flat.size)
    threshold = np.partition(flat, count - 1)[count - 1] if count else -np.inf
    # The last weight of each layer scores 1, and stays unless all are to go.
    return [float(np.mean((score <= threshold) & ((score < 1) | (sparsity == 1)))) for score in scores]


def smallest_to_zero(rows: Array, share: float) -> Array:
    """The array with round(share * size) entries of least magnitude zero; of equals, the first go."""
    result = rows.copy().reshape(-1)
    result[np.argsort(np.abs(result), kind="stable")[: round(share * result.size)]] = 0
    return result.reshape(rows.shape)


class Quota:
    """Deals out round(share * size) in portions, so that the portions add up to what is due in all."""

    def __init__(self, share: float) -> None:
        self._share, self._seen, self._taken = share, 0, 0

    def take(self, size: int) -> int:
        """What is due of the next `size`."""
        self._seen += size
        due = round(self._share * self._seen) - self._taken
        self._taken += due
        return due


def surgeon(weights: Array, second: Array, quota: Quota) -> Array:
    """weights [rows, d] with a share of them zero and the others moved so that the outputs stay close.

    In each block of columns the weights of least w^2 / U[j,j]^2 go. The ones already zero go first.
    """

    def begin(block: Array, columns: Array, diagonal: Array) -> TreatColumn:
        cost = np.abs(block) / diagonal
        cost[weights[:, columns] == 0] = -1
        gone = np.zeros(block.size, dtype=bool)
        gone[np.argsort(cost.reshape(-1), kind="stable")[: quota.take(block.size)]] = True
        mask = dict(zip(columns.tolist(), gone.reshape(block.shape).T))
        return lambda column, index: np.where(mask[index], 0, column)

    return Compensation.of(second).applied(weights, begin, _BLOCK)


def _costs(rows: Array, inputs: LayerInputs | None) -> Array:
    """What each weight's removal alone adds to the squared error of its layer's output; of inputs that are
    not known, all alike and each for itself."""
    if inputs is None:
        return np.asarray(rows**2)
    costs = []
    for w, h in zip(rows, inputs.second):
        factor = damped_cholesky(h)
        inverse_diagonal = np.einsum("kj,kj->j", factor, factor)
        costs.append(w**2 / inverse_diagonal)
    return np.stack(costs)


def _layer_adapted(costs: Array) -> Array:
    """Each cost as a share of those in its layer that are no smaller (arXiv:2010.07611).

    They can be compared between layers, and no layer goes as a whole: the last weight's share is 1.
    """
    flat = costs.reshape(-1)
    order = np.argsort(flat, kind="stable")
    left = np.cumsum(flat[order][::-1], dtype=np.float64)[::-1]
    shares = np.empty(flat.shape)
    shares[order] = flat[order] / np.maximum(left, 1e-300)
    return shares.reshape(costs.shape)
