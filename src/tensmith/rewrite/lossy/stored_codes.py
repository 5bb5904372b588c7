"""Weights as codes in the program, and those that no layer has: of recurrent layers, and bare tables."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace

import ml_dtypes
import numpy as np

from tensmith.ir import Program, make_node
from tensmith.ir.edits import reading_as
from tensmith.rewrite.calibration import Calibration
from tensmith.rewrite.lossy.grid import QuantizedWeights, largest_code, on_grid
from tensmith.rewrite.lossy.tables import looked_up_as_codes, table_in_codes
from tensmith.rewrite.lossy.weights import (
    LookupTable,
    StoredWeights,
    WeightedLayer,
    called,
    dequantized,
    distinct,
    grid_bytes,
    is_table,
    stored_weights,
)
from tensmith.rewrite.method import MethodOutlook, Params, bits_of


def weights_beside_layers(program: Program) -> list[StoredWeights]:
    """Those of recurrent layers and of tables that no layer multiplies with, one of each constant."""
    return distinct(own for own in stored_weights(program) if not isinstance(own, WeightedLayer))


def outlooks_in_integers(
    program: Program, layers: Iterable[WeightedLayer], bits: int
) -> dict[str, MethodOutlook]:
    """What layers would be in integers; the others on a grid, by every node that reads them."""
    words = f"{bits}-bit weights"
    others = (own for own in stored_weights(program) if not isinstance(own, WeightedLayer))
    return {
        layer.site: MethodOutlook(words, grid_bytes(layer, bits), 1.0, "int8", math.prod(layer.shape), bits)
        for layer in layers
    } | {own.site: MethodOutlook(words, grid_bytes(own, bits), bits=bits) for own in others}


def grids_beside_layers(
    program: Program, params: Params, skip: Collection[str], calibration: Calibration
) -> dict[str, QuantizedWeights]:
    """Grids for these by site, but for those that `skip` names, in bits of `params`."""
    grids = {}
    for own in weights_beside_layers(program):
        names = called(program, own)
        if names.isdisjoint(skip):
            bits = bits_of(params, own.site, *sorted(names))
            grids[own.site] = on_grid(program, own, bits, params, calibration)
    return grids


def beside_layers_in_codes(program: Program, grids: Mapping[str, QuantizedWeights]) -> Program:
    """The program with these on their grids."""
    for own in weights_beside_layers(program):
        if own.site in grids:
            program = in_codes(program, own, grids[own.site])
    return program


def in_codes(program: Program, layer: StoredWeights, grid: QuantizedWeights) -> Program:
    """The program with weights as codes and scales, which it opens; up to 4 bits as int4 where that goes."""
    like = program.constants[layer.weight]
    grid = grid.with_scales_in(like.dtype)
    if isinstance(layer, LookupTable):
        return table_in_codes(program, layer, grid)
    table = is_table(program, layer)
    few = int(np.abs(grid.codes).max()) <= largest_code(4)
    # ONNX gathers no int4, and nobody steps recurrent layers with it.
    narrow = few and not table and isinstance(layer, WeightedLayer)
    codes = grid.codes.astype(ml_dtypes.int4) if narrow else grid.codes
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
    renamed = {layer.weight: nodes[-1].output}
    nodes += [reading_as(other, renamed) for other in program.nodes]
    kept = {name: array for name, array in program.constants.items() if name != layer.weight}
    return replace(program, nodes=tuple(nodes), constants={**kept, **constants})
