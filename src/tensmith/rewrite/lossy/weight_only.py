"""Weights on a coarse grid, activations left alone."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

import ml_dtypes
import numpy as np

from tensmith.formula.arith import Array
from tensmith.ir import Node, Program, make_node
from tensmith.rewrite.calibration import Calibration
from tensmith.rewrite.lossy.bias_correction import with_bias_shifts
from tensmith.rewrite.lossy.grid import QuantizedWeights, largest_code, on_grid
from tensmith.rewrite.lossy.parameters import Parameters
from tensmith.rewrite.lossy.recurrent_weights import recurrent_weights, rounded
from tensmith.rewrite.lossy.tables import is_table, looked_up_as_codes
from tensmith.rewrite.lossy.weights import WeightedLayer, grid_bytes, layers_at, tied_layers, weighted_layers
from tensmith.rewrite.method import NUMBERS, Form, Method, MethodOutlook, Prospect, bits_of, lossy
from tensmith.rewrite.rule import EVERYWHERE


@lossy("weight_only", stage=NUMBERS, promise="weights on a grid of few levels, activations untouched")
class WeightOnly(Method):
    """params: as int8 for weights (bits, default_bits, scales, rounding, skip), and `stored`.

    stored "codes": int8 (or int4 up to 4 bits) tensors and a dequantization in the program: small in memory
    where the engine keeps them so. "floats": the same values as floats: the graph and its speed unchanged,
    and the packed file as small. Everywhere, weights of recurrent layers are rounded too, to the nearest.
    """

    graded = True

    def starts(self, prospect: Prospect) -> Iterable[Form]:
        """All layers; and multiplied in bfloat16, where an engine does so fast."""
        if weighted_layers(prospect.program) or recurrent_weights(prospect.program):
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
            for layer in weighted_layers(prospect.program)
        }

    def apply(
        self, program: Program, site: str, params: Mapping[str, Any], calibration: Calibration
    ) -> Program:
        """The program with the weights of every layer at `site` rounded; tied weights stay tied."""
        reader = Parameters(self.name, params)
        stored, skip = reader.choice("stored", "codes", "floats"), reader.grids()
        reader.done()
        recurrent = recurrent_weights(program) if site == EVERYWHERE else {}
        for name, node in recurrent.items():
            if node.output not in skip:
                program = rounded(program, name, bits_of(params, node.output), stored)
        for layer in layers_at(program, site) if weighted_layers(program) or not recurrent else ():
            if skip.isdisjoint(tied.site for tied in tied_layers(program, layer)):
                grid = on_grid(program, layer, bits_of(params, layer.site), params, calibration)
                shifted = with_bias_shifts(program, grid.shifts) if grid.shifts else program
                written = _with_codes if stored == "codes" else _with_floats
                program = written(shifted, layer, grid)
        return program


def _spread(scales: Array, codes: Array, axis: int) -> Array:
    return scales.reshape(tuple(-1 if d == axis else 1 for d in range(codes.ndim)))


def _with_floats(program: Program, layer: WeightedLayer, grid: QuantizedWeights) -> Program:
    values = grid.codes.astype(np.float32) * _spread(grid.scales, grid.codes, grid.axis)
    return program.with_constants({layer.weight: values.astype(program.constants[layer.weight].dtype)})


def _with_codes(program: Program, layer: WeightedLayer, grid: QuantizedWeights) -> Program:
    table = is_table(program, layer)  # ONNX gathers no int4
    few = int(np.abs(grid.codes).max()) <= largest_code(4)
    codes = grid.codes.astype(ml_dtypes.int4) if few and not table else grid.codes
    scales = grid.scales.astype(program.constants[layer.weight].dtype)
    made = ("codes", "scale", "zero", "dequantized")
    *names, opened = (program.unused(f"{layer.weight}.{part}") for part in made)
    constants = dict(zip(names, (codes, scales, np.zeros(scales.shape, codes.dtype))))
    if table and grid.axis == 0:
        program = looked_up_as_codes(program.with_constants(constants), {layer.weight: (names[0], names[1])})
    node = make_node("dequantize_linear", names, (opened,), {"axis": grid.axis})
    nodes: list[Node] = [node]
    for other in program.nodes:
        inputs = tuple(opened if name == layer.weight else name for name in other.inputs)
        nodes.append(replace(other, inputs=inputs) if inputs != other.inputs else other)
    kept = {name: array for name, array in program.constants.items() if name != layer.weight}
    return replace(program, nodes=tuple(nodes), constants={**kept, **constants})
