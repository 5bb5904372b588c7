"""Weights on a coarse grid, activations left alone."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

import ml_dtypes
import numpy as np

from tensmith.ir import Program, make_node
from tensmith.rewrite.calibration import Calibration
from tensmith.rewrite.lossy.bias_correction import with_bias_shifts
from tensmith.rewrite.lossy.grid import QuantizedWeights, largest_code, on_grid
from tensmith.rewrite.lossy.parameters import Parameters
from tensmith.rewrite.lossy.tables import looked_up_as_codes, table_in_codes
from tensmith.rewrite.lossy.weights import (
    LookupTable,
    StoredWeights,
    WeightedLayer,
    called,
    dequantized,
    distinct,
    find_layer,
    grid_bytes,
    is_table,
    layers_at,
    stored_weights,
    weighted_layers,
)
from tensmith.rewrite.method import NUMBERS, Form, Method, MethodOutlook, Prospect, bits_of, lossy
from tensmith.rewrite.rule import EVERYWHERE


@lossy("weight_only", stage=NUMBERS, promise="weights on a grid of few levels, activations untouched")
class WeightOnly(Method):
    """params: as int8 for weights (bits, default_bits, scales, rounding, price, worth, plain, skip), and
    `stored`.

    stored "codes": int8 (or int4 up to 4 bits) tensors and a dequantization in the program: small in memory
    where the engine keeps them so. "floats": the same values as floats: the graph and its speed unchanged,
    and the packed file as small. Everywhere, weights of recurrent layers and tables are rounded too.
    """

    graded = True
    acts_on = (StoredWeights,)

    def starts(self, prospect: Prospect) -> Iterable[Form]:
        """All layers; and multiplied in bfloat16, where an engine does so fast."""
        if stored_weights(prospect.program):
            steps = (self.step(stored="floats", default_bits=8),)
            yield Form(steps, self.name, order=20)
            if "bf16" in prospect.precisions:
                yield Form(steps, "bfloat16 arithmetic", {"precision": "bf16"}, order=50)

    def variants(self, start: Form, lost: float) -> Iterable[Form]:
        """The codes themselves in the file, for engines that keep them so."""
        if not start.settings:
            yield replace(start, steps=(self.step(stored="codes", default_bits=8),))

    def outlooks(self, prospect: Prospect) -> Mapping[str, MethodOutlook]:
        """All layers, smaller to ship."""
        return {
            layer.site: MethodOutlook("8-bit weights", grid_bytes(layer, 8), bits=8)
            for layer in stored_weights(prospect.program)
        }

    def apply(
        self, program: Program, site: str, params: Mapping[str, Any], calibration: Calibration
    ) -> Program:
        """The program with the weights of every layer at `site` rounded; tied weights stay tied."""
        reader = Parameters(self.name, params)
        stored, skip = reader.choice("stored", "codes", "floats"), reader.grids()
        reader.done()
        for layer in _rounded_at(program, site):
            names = called(program, layer)
            if skip.isdisjoint(names):
                bits = bits_of(params, layer.site, *sorted(names))
                grid = on_grid(program, layer, bits, params, calibration)
                shifted = with_bias_shifts(program, grid.shifts) if grid.shifts else program
                written = _with_codes if stored == "codes" else _with_floats
                program = written(shifted, layer, grid)
        return program


def _rounded_at(program: Program, site: str) -> list[StoredWeights]:
    """One of each constant, those of recurrent layers and tables first."""
    if site != EVERYWHERE:
        named = (own for own in stored_weights(program) if own.site == site)
        return [next(named, None) or find_layer(program, site)]
    others = distinct(own for own in stored_weights(program) if not isinstance(own, WeightedLayer))
    layers = layers_at(program, site) if weighted_layers(program) or not others else ()
    return [*others, *layers]


def _with_floats(program: Program, layer: StoredWeights, grid: QuantizedWeights) -> Program:
    return program.with_constants({layer.weight: grid.values(program.constants[layer.weight])})


def _with_codes(program: Program, layer: StoredWeights, grid: QuantizedWeights) -> Program:
    if isinstance(layer, LookupTable):
        return table_in_codes(program, layer, grid)
    table = is_table(program, layer)
    few = int(np.abs(grid.codes).max()) <= largest_code(4)
    # ONNX gathers no int4, and nobody steps recurrent layers with it.
    narrow = few and not table and isinstance(layer, WeightedLayer)
    codes = grid.codes.astype(ml_dtypes.int4) if narrow else grid.codes
    like = program.constants[layer.weight]
    scales = grid.scales.astype(like.dtype)
    made = ("dequantized", "shape", "opened")
    opened, shape, whole = (program.unused(f"{layer.weight}.{part}") for part in made)
    node, constants = dequantized(program, layer.weight, opened, codes, scales, grid.axis)
    if table and grid.axis == 0:
        pair = (node.inputs[0], node.inputs[1])
        program = looked_up_as_codes(program.with_constants(constants), {layer.weight: pair})
    nodes = [node]
    if layer.shape != like.shape:
        constants[shape] = np.array(like.shape, np.int64)
        nodes.append(make_node("reshape", (opened, shape), (whole,)))
    made_of_it = nodes[-1].output
    for other in program.nodes:
        inputs = tuple(made_of_it if name == layer.weight else name for name in other.inputs)
        nodes.append(replace(other, inputs=inputs) if inputs != other.inputs else other)
    kept = {name: array for name, array in program.constants.items() if name != layer.weight}
    return replace(program, nodes=tuple(nodes), constants={**kept, **constants})
