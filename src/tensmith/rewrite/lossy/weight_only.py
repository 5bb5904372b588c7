"""Weights on a coarse grid, activations left alone."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

from tensmith.ir import Program
from tensmith.rewrite.calibration import Calibration
from tensmith.rewrite.lossy.bias_correction import with_bias_shifts
from tensmith.rewrite.lossy.grid import QuantizedWeights, on_grid
from tensmith.rewrite.lossy.parameters import Parameters
from tensmith.rewrite.lossy.stored_codes import in_codes, weights_beside_layers
from tensmith.rewrite.lossy.weights import (
    StoredWeights,
    called,
    find_layer,
    grid_bytes,
    layers_at,
    stored_weights,
    weighted_layers,
)
from tensmith.rewrite.method import NUMBERS, Form, Method, MethodOutlook, Params, Prospect, bits_of, lossy
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
        """The codes themselves in the file, for engines that keep them so; a trellis packs them smaller."""
        yield replace(start, steps=(self.step(stored="codes", default_bits=8),))

    def outlooks(self, prospect: Prospect) -> Mapping[str, MethodOutlook]:
        """All layers, smaller to ship."""
        return {
            layer.site: MethodOutlook("8-bit weights", grid_bytes(layer, 8), bits=8)
            for layer in stored_weights(prospect.program)
        }

    def apply(self, program: Program, site: str, params: Params, calibration: Calibration) -> Program:
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
                written = in_codes if stored == "codes" else _with_floats
                program = written(shifted, layer, grid)
        return program


def _rounded_at(program: Program, site: str) -> list[StoredWeights]:
    """One of each constant, those of recurrent layers and tables first."""
    if site != EVERYWHERE:
        named = (own for own in stored_weights(program) if own.site == site)
        return [next(named, None) or find_layer(program, site)]
    others = weights_beside_layers(program)
    layers = layers_at(program, site) if weighted_layers(program) or not others else ()
    return [*others, *layers]


def _with_floats(program: Program, layer: StoredWeights, grid: QuantizedWeights) -> Program:
    return program.with_constants({layer.weight: grid.values(program.constants[layer.weight])})
