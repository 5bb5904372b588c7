"""Static 8-bit quantization: integer weights and activations, in the form both engines run fastest.

One form serves ONNX Runtime and OpenVINO: QuantizeLinear / DequantizeLinear pairs around float ops,
activations uint8 per tensor, weights int8 symmetric per output channel, biases int32 on the product of both
scales (Jacob et al., CVPR 2018; ONNX Runtime's QDQ format). Fewer weight bits use fewer codes of the same
int8 tensor: they run at the same speed and pack smaller. Tables of embeddings are int8 tensors with a scale a
row; one that the output head multiplies with stays one. A recurrent layer's weights are codes, and so is what
it multiplies all steps at once; its state stays a float.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import reduce
from itertools import chain
from typing import Any

import numpy as np

from tensmith.errors import ProgramError
from tensmith.formula.arith import Array
from tensmith.ir import Node, Program, make_node
from tensmith.ir.onnx_schema import ELEMENT_CODES
from tensmith.ir.ops.product import Product
from tensmith.ir.part import without_dead
from tensmith.rewrite.calibration import Calibration, Histogram
from tensmith.rewrite.lossy.bias_correction import of_channels, with_bias_shifts
from tensmith.rewrite.lossy.grid import QuantizedWeights, on_grid
from tensmith.rewrite.lossy.parameters import Parameters
from tensmith.rewrite.lossy.placement import Placement, place
from tensmith.rewrite.lossy.ranges import METHODS, choose_range
from tensmith.rewrite.lossy.stored_codes import (
    beside_layers_in_codes,
    grids_beside_layers,
    in_codes,
    outlooks_in_integers,
)
from tensmith.rewrite.lossy.tables import looked_up_as_codes
from tensmith.rewrite.lossy.weights import (
    StoredWeights,
    WeightedLayer,
    called,
    dequantized,
    distinct,
    stored_weights,
    weighted_layers,
)
from tensmith.rewrite.method import (
    NUMBERS,
    Form,
    Method,
    MethodOutlook,
    Params,
    Prospect,
    Standing,
    bits_of,
    lossy,
)

_LEVELS = 255
# What a search tries of ranges. Not entropy: it changed three to five times as many answers as the others of
# SqueezeNet and MobileNetV2, lost the most of ResNet-56 and ResNet-8, and each is a candidate's time.
_CALIBRATIONS: tuple[Mapping[str, Any], ...] = (
    {"calibration": "minmax"},
    {"calibration": "mse"},
    {"calibration": "percentile", "percentile": 99.99},
)
_COMPENSATED: Mapping[str, Any] = {"scales": "mse", "rounding": "compensated"}
# Codes of a bias, so that 32 bits have room for the sum of products as well.
_LARGEST_BIAS = 2.0**30
# A layer's dequantized weights are named after its site.
_WEIGHT_SUFFIX = ".weight"


def is_at(node: Node, site: str) -> bool:
    """Whether it is the node of a site; quantization may have given it the name of a rectifier behind it."""
    return site in node.outputs or node.operand(1) == site + _WEIGHT_SUFFIX


@lossy("int8", stage=NUMBERS, promise="8-bit weights and activations, scales from calibration data")
class Int8(Method):
    """params: calibration (minmax, percentile, mse, entropy), percentile; bits {site: 2..8}, default_bits;
    scales (max, mse); rounding (nearest, compensated; coded or dependent with price and worth, see `grid`);
    plain [sites where nothing makes up for errors of rounding]; weight_only [sites that open codes and
    multiply floats]; skip [sites that stay in float]."""

    graded = True
    acts_on = (StoredWeights,)
    rounds_activations = True
    spares = ("weight_only", "skip")

    def treatment(self, params: Params, *names: str) -> str:
        """With what is rounded."""
        words = super().treatment(params, *names)
        return f"{words}, multiplied in float" if {*names} & {*params.get("weight_only", ())} else words

    def starts(self, prospect: Prospect) -> Iterable[Form]:
        """All layers, in the range that calibration saw."""
        if place(prospect.program, frozenset()).values:
            yield self._form({**_CALIBRATIONS[0], "default_bits": prospect.bits})

    def variants(self, start: Form, lost: float) -> Iterable[Form]:
        """Other calibrations and weights that make up for each other, where the first form cost something."""
        params = start.steps[0].params
        if lost > 0:
            yield from (self._form({**params, **other, **_COMPENSATED}) for other in _CALIBRATIONS[1:])

    def extensions(self, plan: Standing, prospect: Prospect) -> Iterable[Form]:
        """Layers and products of values that stay in floats, in bfloat16 where that is fast."""
        step = plan.find(self.name)
        if step is None or not plan.on_line or "bf16" not in prospect.precisions:
            return
        if any(step.params.get(spared) for spared in self.spares) or _multiplies_values(prospect.program):
            yield Form(plan.steps, plan.family, {"precision": "bf16"}, order=10)

    def outlooks(self, prospect: Prospect) -> Mapping[str, MethodOutlook]:
        """All layers, in integers."""
        program = prospect.program
        return outlooks_in_integers(program, weighted_layers(program), prospect.bits)

    def _form(self, params: Params) -> Form:
        return Form((self.step(**params),), "int8", order=10)

    def apply(self, program: Program, site: str, params: Params, calibration: Calibration) -> Program:
        """The program with every layer but the skipped ones in 8 bits."""
        reader = Parameters(self.name, params)
        skip = reader.grids()
        reader.choice("calibration", *METHODS)
        reader.number("percentile", low=50, high=101)
        weight_only = reader.layers("weight_only") - skip
        reader.done()
        named = skip.union(weight_only, params.get("bits", {}), params.get("worth", {}))
        unknown = named - {own.site for own in stored_weights(program)}
        if unknown:
            raise ProgramError(f"'{min(unknown)}' is not a layer of the program")
        spared = skip | weight_only
        placement = place(program, spared)
        if not placement.values:
            raise ProgramError("nothing is left to quantize: every layer is skipped")
        opened = (layer for layer in weighted_layers(program) if layer.site in weight_only)
        in_floats = distinct(layer for layer in opened if skip.isdisjoint(called(program, layer)))
        grids = _activation_grids(program, placement, params, calibration)
        weights = {
            layer.site: on_grid(program, layer, bits_of(params, layer.site), params, calibration)
            for layer in (*placement.layers, *in_floats)
        }
        beside = grids_beside_layers(program, params, skip, calibration)
        shifts = {site: grid.shifts[site] for site, grid in weights.items() if site in grid.shifts}
        for layer in in_floats:  # the codes are those of all layers that read them
            shifts |= {site: by for site, by in weights[layer.site].shifts.items() if site in weight_only}
        if shifts:
            program = with_bias_shifts(program, shifts)
            placement = place(program, spared)
        writer = _Writer(program, placement, grids)
        for layer in placement.layers:
            writer.write_weights(layer, weights[layer.site])
        program = looked_up_as_codes(writer.program_with_pairs(), writer.tables)
        for layer in in_floats:
            program = in_codes(program, layer, weights[layer.site])
        return without_dead(beside_layers_in_codes(program, beside))


def _multiplies_values(program: Program) -> bool:
    """Whether it holds products of values that it computes, as attention is."""
    products = (node for node in program.nodes if node.kind(Product) is not None)
    return any(not any(name in program.static_values for name in node.inputs[:2]) for node in products)


@dataclass(frozen=True)
class ActivationGrid:
    """x is near scale * (q - zero_point), q in 0..255."""

    scale: np.float32
    zero_point: int

    def cuts_like_a_rectifier(self, bound: float | None) -> bool:
        """Whether saturation does what max(x, 0), or min(max(x, 0), bound), would do before it."""
        top = float(self.scale) * (_LEVELS - self.zero_point)
        return self.zero_point == 0 and (bound is None or top <= bound * (1 + 1e-6))


def _activation_grids(
    program: Program, placement: Placement, params: Params, calibration: Calibration
) -> dict[str, ActivationGrid]:
    sources = list(dict.fromkeys(placement.grid_of(value) for value in placement.values))
    spans = {source: (source, *placement.spans.get(source, ())) for source in sources}
    seen = calibration.histograms(program, list(dict.fromkeys(chain(*spans.values()))))
    histograms = {
        source: reduce(Histogram.merged, (seen[name] for name in spans[source])) for source in sources
    }
    upper = dict(placement.rectified.values())
    grids: dict[str, ActivationGrid] = {}
    for source in sources:
        low, high = choose_range(histograms[source], params)
        if source in upper:
            low, high = 0.0, min(high, upper[source] or high)
        scale = np.float32((high - low) / _LEVELS)
        grids[source] = ActivationGrid(scale, int(np.clip(np.rint(-low / scale), 0, _LEVELS)))
    return {value: grids[placement.grid_of(value)] for value in placement.values}


@dataclass
class _Writer:
    """Builds the new node list: weights first, then a pair after each quantized value."""

    program: Program
    placement: Placement
    grids: Mapping[str, ActivationGrid]
    constants: dict[str, Array] = field(default_factory=dict)
    weight_nodes: list[Node] = field(default_factory=list)
    operands: dict[str, tuple[str, ...]] = field(default_factory=dict)
    tables: dict[str, tuple[str, str]] = field(default_factory=dict)

    def write_weights(self, layer: WeightedLayer, grid: QuantizedWeights) -> None:
        """Constants and dequantizations of a layer's weights and bias."""
        bias = self._bias_in_codes(layer)
        if bias is not None:
            # A channel of hardly any weights has a scale in which its bias fits no 32 bits.
            least = np.abs(bias) / (self.grids[layer.node.inputs[0]].scale * _LARGEST_BIAS)
            grid = grid.no_finer_than(least)
        operand = self.program.unused(layer.site + _WEIGHT_SUFFIX)
        base = self.program.unused(f"{operand}.rows") if layer.turned else operand
        weight = self._dequantized(base, grid.codes, grid.scales, grid.axis)
        if grid.axis == 0:
            self.tables[layer.weight] = (self._made(base, "codes"), self._made(base, "scale"))
        if layer.turned:
            self.weight_nodes.append(make_node("transpose", (weight,), (operand,), {"perm": (1, 0)}))
        inputs = [layer.node.inputs[0], operand]
        if bias is not None:
            scales = self.grids[layer.node.inputs[0]].scale * grid.scales
            codes = np.rint(bias / scales.astype(np.float64)).astype(np.int32)
            inputs.append(self._dequantized(self._made(layer.site, "bias"), codes, scales, 0))
        elif layer.bias:
            inputs.append(layer.bias)
        self.operands[layer.site] = tuple(inputs)

    def _bias_in_codes(self, layer: WeightedLayer) -> Array | None:
        """A bias [rows] that can be stored on the grid of its products; None without one."""
        bias = self.program.constants.get(layer.bias) if layer.bias else None
        if bias is None or not of_channels(layer, bias) or not np.isfinite(bias).all():
            return None
        return bias.reshape(-1).astype(np.float64)

    def _dequantized(self, base: str, codes: Array, scales: Array, axis: int) -> str:
        node, constants = dequantized(self.program, base, base, codes, scales, axis)
        self.constants |= constants
        self.weight_nodes.append(node)
        return base

    def program_with_pairs(self) -> Program:
        """The program: rectifiers gone where the grid does their work, pairs in, layers on new operands."""
        early = {
            before: after
            for before, (after, bound) in self.placement.rectified.items()
            if self.grids[after].cuts_like_a_rectifier(bound)
        }
        vanished = set(early.values())
        nodes: list[Node] = list(self.weight_nodes)
        for name in self.program.inputs:
            nodes += self._pair(name)
        for node in self.program.nodes:
            if node.output in vanished:
                continue
            outputs = tuple(early.get(name, name) for name in node.outputs)
            if node.output in self.operands:
                nodes += [*self._layer(node, outputs[0]), *self._pair(outputs[0], widened=True)]
                continue
            inputs = map(self._read, self._with_wide_bias(node))
            nodes.append(replace(node, inputs=tuple(inputs), outputs=outputs))
            for name in outputs:
                nodes += self._pair(name)
        return replace(
            self.program, nodes=tuple(nodes), constants={**self.program.constants, **self.constants}
        )

    def _with_wide_bias(self, node: Node) -> tuple[str, ...]:
        """The inputs of a node, a bias [n] as [1, 1, n]: of that ONNX Runtime makes no Gemm in floats."""
        bias = self.placement.biased.get(node.output, "")
        if not bias:
            return node.inputs
        wide = self.program.unused(f"{bias}.wide")
        self.constants[wide] = self.program.constants[bias].reshape(1, 1, -1)
        return tuple(wide if name == bias else name for name in node.inputs)

    def _layer(self, node: Node, result: str) -> Iterator[Node]:
        """A layer on its new operands in fp32, and its result in the type that it had."""
        inputs = []
        for name in self.operands[node.output]:
            if name in self.grids:
                inputs.append(self._made(name, "dequantized"))
            elif name in self.program.facts and self._element(name):
                inputs.append(self._made(node.output, f"operand{len(inputs)}"))
                yield make_node("cast", (name,), (inputs[-1],), {"to": ELEMENT_CODES["f32"]})
            else:
                inputs.append(name)
        yield replace(node, inputs=tuple(inputs), outputs=(self._wide(result),))
        if element := self._element(result):
            yield make_node("cast", (self._wide(result),), (result,), {"to": element})

    def _element(self, name: str) -> int | None:
        """ONNX's code of the type of a value of other floats than fp32."""
        type_ = self.program.facts[name].type
        return None if type_ is None or type_.dtype == "f32" else ELEMENT_CODES[type_.dtype]

    def _wide(self, name: str) -> str:
        """A value in fp32."""
        return name if self._element(name) is None else self._made(name, "wide")

    def _read(self, name: str) -> str:
        if name not in self.grids:
            return name
        return self._made(name, "dequantized" if self._element(name) is None else "narrow")

    def _made(self, name: str, part: str) -> str:
        """The name of something that is made for a value."""
        return self.program.unused(f"{name}.{part}")

    def _pair(self, name: str, widened: bool = False) -> Iterator[Node]:
        """Codes of a value and what they stand for. widened: the value is there in fp32."""
        if name not in self.grids:
            return
        grid, code, element = self.grids[name], self._made(name, "quantized"), self._element(name)
        source = self.placement.grid_of(name)
        scale, zero = self._made(source, "scale"), self._made(source, "zero_point")
        self.constants[scale] = np.asarray(grid.scale, np.float32)
        self.constants[zero] = np.asarray(grid.zero_point, np.uint8)
        opened = self._made(name, "dequantized")
        if element and not widened:
            yield make_node("cast", (name,), (self._wide(name),), {"to": ELEMENT_CODES["f32"]})
        yield make_node("quantize_linear", (self._wide(name), scale, zero), (code,))
        yield make_node("dequantize_linear", (code, scale, zero), (opened,))
        if element:
            yield make_node("cast", (opened,), (self._read(name),), {"to": element})
