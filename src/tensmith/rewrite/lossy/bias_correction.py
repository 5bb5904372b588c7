"""Biases that make up for the mean of what a change of weights does to a layer's output.

With x of mean m, (W - W') x has the mean (W - W') m, which a bias gives back; what is left to care about is
the covariance of x rather than E[x x^T] (Nagel et al. 2019, section 4.2, with exact means).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

import numpy as np

from tensmith.formula.arith import Array
from tensmith.ir import Node, Program
from tensmith.ir.part import without_dead
from tensmith.rewrite.calibration import MOST_MOMENT_BYTES, Calibration
from tensmith.rewrite.lossy.weights import (
    RecurrentWeights,
    StoredWeights,
    WeightedLayer,
    find_multiplying,
    tied_layers,
    with_rows,
)


def takes_bias(program: Program, layer: WeightedLayer | RecurrentWeights) -> bool:
    """Whether a constant can be added to each output channel of the layer itself."""
    if isinstance(layer, RecurrentWeights):
        return not layer.bias or layer.bias in program.constants
    if layer.bias and layer.bias not in program.constants:
        return False
    attrs = layer.node.attrs
    if not layer.product.biased or attrs.get("alpha", 1) != 1 or attrs.get("beta", 1) != 1:
        return False
    return not layer.bias or of_channels(layer, program.constants[layer.bias])


def of_channels(layer: WeightedLayer, bias: Array) -> bool:
    """Whether a bias has a number for each output channel, as no column of one for each row has."""
    rows = layer.shape[1] if layer.transposed else layer.shape[0]
    return bool(bias.size == rows == np.atleast_1d(bias).shape[-1])


def shifted_bias(constants: Mapping[str, Array], layer: StoredWeights, shift: Array) -> Array:
    """The layer's bias, or zeros, plus `shift` [rows]; for a layer that takes a bias."""
    like, shift = constants[layer.bias or layer.weight], layer.as_bias(shift)
    old = like if layer.bias else np.zeros_like(shift)
    return np.asarray((old + shift.reshape(old.shape)).astype(like.dtype))


def with_bias_shifts(program: Program, shifts: Mapping[str, Array]) -> Program:
    """The program with `shifts` [rows] by site added to biases; each layer gets a bias of its own."""
    constants = dict(program.constants)
    changed: dict[Node, Node] = {}
    for site, shift in shifts.items():
        layer = find_multiplying(program, site)
        now = changed.get(layer.node, layer.node)  # the other matrix of a recurrent layer may have one, too
        name, inputs = next(program.fresh(f"{site}.bias")), [*now.inputs]
        inputs[layer.bias_place : layer.bias_place + 1] = [name]
        constants[name] = shifted_bias(constants, replace(layer, node=now), shift)
        changed[layer.node] = replace(now, inputs=tuple(inputs))
    nodes = tuple(changed.get(node, node) for node in program.nodes)
    return without_dead(replace(program, nodes=nodes, constants=constants))


def too_wide(layer: StoredWeights) -> bool:
    """Whether nobody gathers the moments of its inputs."""
    return 8 * layer.depth**2 > MOST_MOMENT_BYTES


@dataclass(frozen=True)
class LayerInputs:
    """Moments of what a layer's weights multiply, in all layers that read them.

    second: [groups, d, d], about the mean where biases give that back; means: by site [groups, d], empty
    where they do not.
    """

    second: Array
    means: Mapping[str, Array]


def layer_inputs(
    program: Program, layer: WeightedLayer, calibration: Calibration, biases: bool = True
) -> LayerInputs:
    """The moments to fit changed weights by. biases: they give means back, where they can."""
    tied = tied_layers(program, layer)
    moments = {own.site: calibration.moment(program, own.site) for own in tied}
    count = sum(moment.count for moment in moments.values())
    second = np.asarray(sum(moment.second * (moment.count / count) for moment in moments.values()))
    if not biases or not all(takes_bias(program, own) for own in tied):
        return LayerInputs(second, {})
    for moment in moments.values():
        second = second - moment.first[:, :, None] * moment.first[:, None, :] * (moment.count / count)
    return LayerInputs(second, {site: moment.first for site, moment in moments.items()})


def known_inputs(
    program: Program, layers: Iterable[WeightedLayer], calibration: Calibration
) -> dict[WeightedLayer, LayerInputs]:
    """Those of layers that are not too wide for moments."""
    return {layer: layer_inputs(program, layer, calibration) for layer in layers if not too_wide(layer)}


def with_fitted_rows(
    program: Program, changed: Mapping[WeightedLayer, Array], inputs: Mapping[WeightedLayer, LayerInputs]
) -> Program:
    """The program with rows replaced as in `with_rows`, and the means of the outputs given back where inputs
    are known."""
    shifts: dict[str, Array] = {}
    for layer, found in inputs.items():
        error = layer.rows(program.constants[layer.weight]) - changed[layer]
        for site, mean in found.means.items():
            shifts[site] = np.einsum("grd,gd->gr", error, mean).reshape(-1)
    return with_bias_shifts(with_rows(program, changed), shifts)
