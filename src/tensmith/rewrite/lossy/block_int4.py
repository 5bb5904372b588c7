"""Weights of matrix products in 4 bits, a scale for each block of what they are multiplied with."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any

import ml_dtypes
import numpy as np

from tensmith.errors import ProgramError
from tensmith.formula.arith import Array
from tensmith.ir import Node, Program, make_node
from tensmith.ir.part import without_dead
from tensmith.rewrite.calibration import Calibration
from tensmith.rewrite.lossy.parameters import Parameters
from tensmith.rewrite.lossy.weights import (
    WeightedLayer,
    alone,
    stored_weights,
    weighted_layers,
)
from tensmith.rewrite.method import NUMBERS, Form, Method, MethodOutlook, Params, Prospect, Standing, lossy
from tensmith.rewrite.rule import EVERYWHERE, Step

BLOCK = 32
# Scales that are tried, as shares of the largest weight of a block: codes reach from -8 to 7.
_SHARES = np.linspace(0.6, 1.0, 9) / 7
_TINY = 1e-12
# Weights that are rounded at a time: so many stay in the cache of a processor.
_AT_A_TIME = 1 << 16


@lossy(
    "block_int4", stage=NUMBERS, promise="4-bit weights in matrix products, a scale for each block of them"
)
class BlockInt4(Method):
    """w becomes dequantize(codes, scales): codes in -8..7, one scale a column and `block` rows of w.

    Only matrix products whose weights nothing else reads, at least a block deep. params: block (32), a
    multiple of 16; skip. Of a few scales a block takes the one with the least squared error, so it needs no
    data. Engines keep such weights packed in memory.
    """

    settles_bits = True

    def starts(self, prospect: Prospect) -> Iterable[Form]:
        """Where products hold half of the weights or more."""
        layers = weighted_layers(prospect.program)
        if layers and 2 * _size(products(prospect.program, BLOCK)) >= _size(layers):
            yield self._form(prospect.program)

    def retreats(self, plan: Standing, prospect: Prospect) -> Iterable[Form]:
        """The most sensitive products left out."""
        step = plan.find(self.name)
        if step is not None and not plan.on_line:
            damage = prospect.divergence()
            own = {layer.site: damage[layer.site] for layer in products(prospect.program, BLOCK)}
            skip = prospect.most_sensitive(own, len(step.params.get("skip", ())))
            if skip is not None:
                yield self._form(prospect.program, skip)

    def _form(self, program: Program, skip: Collection[str] = ()) -> Form:
        """Products in 4 bits but for the skipped ones, and what that leaves in floats in 8 bits."""
        params: dict[str, Any] = {"skip": sorted(skip)} if skip else {}
        step = self.step(**params)
        treated = {layer.site for layer in products(program, BLOCK)} - set(skip)
        rest = any(own.site not in treated for own in stored_weights(program))
        bytes_ = Step("weight_only", params={"stored": "codes", "default_bits": 8}, kind="lossy")
        return Form((step, bytes_) if rest else (step,), self.name, order=40)

    def outlooks(self, prospect: Prospect) -> Mapping[str, MethodOutlook]:
        """Matrix products, smaller to read as well."""
        found = {}
        for layer in products(prospect.program, BLOCK):
            size = math.prod(layer.shape) * (4 + 32 / BLOCK) / 8
            found[layer.site] = MethodOutlook(
                f"4-bit weights in blocks of {BLOCK}", size, loaded=size, bits=4
            )
        return found

    def sites(self, program: Program) -> Iterator[str]:
        """All at once, or one matrix product."""
        yield EVERYWHERE
        yield from (layer.site for layer in products(program, BLOCK))

    def apply(self, program: Program, site: str, params: Params, calibration: Calibration) -> Program:
        """The program with the matrix products at `site` in 4 bits."""
        reader = Parameters(self.name, params)
        block, skip = reader.count("block", BLOCK, low=16) or BLOCK, reader.layers("skip")
        reader.done()
        if block % 16:
            raise reader.wrong(f"a block is a multiple of 16, not {block}")
        chosen = [layer for layer in products(program, block) if site in (EVERYWHERE, layer.site)]
        if not chosen:
            raise ProgramError(
                f"there is no matrix product of depth {block} with weights of its own at '{site}'"
            )
        for layer in chosen:
            if layer.site not in skip:
                program = _replaced(program, layer, block)
        return without_dead(program)


def products(program: Program, block: int) -> list[WeightedLayer]:
    """Matrix products of fp32 that a block fits into, and that alone read their weights, turned or plain."""
    return [
        layer
        for layer in weighted_layers(program)
        if len(layer.shape) == 2
        and alone(program, layer)
        and program.type(layer.weight).dtype == "f32"
        and layer.shape[0 if layer.transposed else 1] >= block
    ]


def _size(layers: Iterable[WeightedLayer]) -> int:
    return sum(math.prod(layer.shape) for layer in layers)


def _replaced(program: Program, layer: WeightedLayer, block: int) -> Program:
    """The program with one product's weights dequantized, in the layout in which the product reads them."""
    weights = program.constants[layer.weight]
    codes, scales = rounded(weights if layer.transposed else weights.T, block)
    axis = 0 if layer.transposed != layer.turned else 1
    *names, opened = (program.unused(f"{layer.site}.{part}") for part in ("codes", "scales", "weights"))
    made = make_node("dequantize_linear", names, (opened,), {"axis": axis, "block_size": block})
    nodes: list[Node] = []
    for node in program.nodes:
        if node is layer.node:
            nodes += [made, replace(node, inputs=(node.inputs[0], opened, *node.inputs[2:]))]
        else:
            nodes.append(node)
    kept = [array if axis == 0 else np.ascontiguousarray(array.T) for array in (codes, scales)]
    return replace(program, nodes=tuple(nodes), constants={**program.constants, **dict(zip(names, kept))})


def rounded(weights: Array, block: int) -> tuple[Array, Array]:
    """(codes [d, columns] in int4, scales [blocks, columns]) of weights [d, columns]."""
    depth, columns = weights.shape
    blocks = -(-depth // block)
    codes, scales = np.empty((depth, columns), np.int8), np.empty((blocks, columns), np.float32)
    many = max(1, _AT_A_TIME // (block * columns))
    for first in range(0, blocks, many):
        rows = slice(first * block, (first + many) * block)
        scales[first : first + many], found = _rounded_blocks(weights[rows], block)
        codes[rows] = found
    return codes.astype(ml_dtypes.int4), scales


def _rounded_blocks(weights: Array, block: int) -> tuple[Array, Array]:
    """Scales [blocks, columns] and codes [d, columns] of a few blocks."""
    depth, columns = weights.shape
    full = np.zeros((-(-depth // block) * block, columns), np.float32)
    full[:depth] = weights
    parts = full.reshape(-1, block, columns)
    largest = np.maximum(abs(parts).max(1), _TINY)
    best = largest * np.float32(_SHARES[-1])
    least = np.full(best.shape, np.inf)
    found = np.empty_like(parts)
    for share in _SHARES:
        scale = largest * np.float32(share)
        _encode(parts, scale, found)
        found *= scale[:, None]
        found -= parts
        error = np.square(found, out=found).sum(1)
        best, least = np.where(error < least, scale, best), np.minimum(error, least)
    _encode(parts, best, found)
    return best, found.reshape(-1, columns)[:depth]


def _encode(parts: Array, scale: Array, out: Array) -> None:
    """The codes of parts [blocks, block, columns] at scales [blocks, columns], into `out`."""
    np.divide(parts, scale[:, None], out=out)
    np.rint(out, out=out)
    np.clip(out, -8, 7, out=out)
