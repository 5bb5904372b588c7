"""What an 8-bit kernel does with its sums: everything behind a product of bytes that one pass computes.

    quantize(activation(conv(dequantize(x), dequantize(w), dequantize(b)) [+ residual]))

in the forms that tensmith, ONNX Runtime and NNCF write: x in bytes on one grid, w in int8 without zero point
on one grid or one a filter, b as int32 on the products' grid or in floats. Sums may pass a pair of their own
before a bias or a residual is added. Anything else is left to the float kernels.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np

from tensmith.backend.native.steps.curves import function_behind
from tensmith.backend.native.steps.graph import StepGraph
from tensmith.backend.native.steps.integers import IntegerOperands
from tensmith.backend.native.steps.layers import layer, numbers_of_channels
from tensmith.backend.native.steps.operands import Free
from tensmith.backend.native.steps.patterns import addend
from tensmith.backend.native.steps.step import Heavy
from tensmith.errors import EngineError
from tensmith.formula.arith import Array
from tensmith.formula.expr import Call, Num, Read
from tensmith.ir import Node
from tensmith.ir.ops.quantization import decodes, encodes
from tensmith.kernel.epilogue import Activation, literal
from tensmith.kernel.quantized import QuantizationParameters, Requantization, fields

# Weights of which two products with bytes fit 16 bits.
_NARROW = 64


def integer_layer(graph: StepGraph, node: Node, free: Free) -> tuple[Heavy, list[Node]] | None:
    """A convolution or product of bytes with its requantization, and the nodes it stands for, in order.

    Those are `node` and everything behind it that one pass computes. None if it is no such, or if its sums
    might not fit 32 bits.
    """
    given, rows = graph.integers.get(node), node in graph.tensors
    if given is None or (rows and graph.dtypes[given.node.inputs[0]] != "u8"):
        return None
    step = layer(graph, node, given.node.inputs)
    return (
        requantized(step, given, [node], Behind(graph, node.output, free, rows, given.bias)) if step else None
    )


def requantized(
    step: Heavy, given: IntegerOperands, nodes: list[Node], behind: Behind
) -> tuple[Heavy, list[Node]] | None:
    """The same of sums that `nodes` make, for those who know how to look behind them."""
    behind.follow()
    largest = np.abs(step.weights.astype(np.int16)).max()  # of int8, -128 has no magnitude
    narrow = behind.graph.isa.has_narrow_dot and bool(largest <= _NARROW)
    problem = replace(step.problem, dtype="u8", narrow=narrow)
    how = Requantization(
        given.source, given.scales, behind.target, given.quantized, behind.bias, behind.inner,
        behind.parameters, behind.late,
    )  # fmt: skip
    found = replace(
        step, problem=problem, weights=step.weights.astype(np.int8), bias=None, requantization=how,
        output=behind.value, residual=behind.residual, activation=behind.real_activation,
    )  # fmt: skip
    try:
        fields(problem, found.weights, how, found.activation is not None)
    except EngineError:
        return None
    return found, [*nodes, *behind.nodes]


@dataclass
class Behind:
    """Walks along the only readers of a value for as long as the epilogue can do what they do.

    `late` if the bias is added to sums that a pair of their own has rounded. Unless it may be `requantized`,
    nothing is brought onto fixed parameters.
    """

    graph: StepGraph
    value: str
    free: Free
    rows: bool
    bias: Array | None = None
    requantized: bool = True
    nodes: list[Node] = field(default_factory=list)
    late: bool = False
    inner: QuantizationParameters | None = None
    target: QuantizationParameters | None = None
    residual: str | None = None
    parameters: QuantizationParameters | None = None
    bounds: tuple[float, float] | None = None
    activation: Activation | None = None

    @property
    def real_activation(self) -> Activation | None:
        """The activation that is no clip of bytes."""
        if self.target is None and self.bounds is not None:
            low, high = map(literal, self.bounds)
            return Activation("clip", f"vmin(splat({high}), vmax(splat({low}), x_))")
        return self.activation

    def follow(self) -> None:
        """To the first node that the epilogue cannot take."""
        while self.target is None and (self._step() or self._curve()):
            pass

    def _step(self) -> bool:
        """A node that is no curve, if the only reader is one."""
        node = self._reader(self.value)
        return node is not None and (self._quantize(node) or self._clip(node) or self._add(node))

    def _reader(self, value: str) -> Node | None:
        readers = self.graph.program.consumers.get(value, ())
        if len(readers) != 1 or value in self.graph.program.outputs or readers[0] not in self.free:
            return None
        return readers[0]

    def _take(self, *nodes: Node) -> bool:
        self.nodes += nodes
        self.value = nodes[-1].output
        return True

    def _quantize(self, node: Node) -> bool:
        """A grid: the last one, or if a residual or a curve comes after it, the sums' own."""
        grid = self.graph.parameters.get(node)
        if grid is None or not encodes(node) or not self.requantized:
            return False
        if self.bounds is not None:
            grid = grid.clipped(*self.bounds)
        again = self._reader(node.output)  # the other half of the pair
        first = self.inner is None and self.residual is None and self.activation is None
        if first and again is not None and self.graph.parameters.get(again) == self.graph.parameters[node]:
            after = self._reader(again.output)
            if after is not None and self._goes_on(after, again.output):
                self.inner, self.bounds = grid, None
                return self._take(node, again)
        if self.rows and self.graph.dtypes[node.output] == "i8":
            return False  # signed bytes of tensors stay signed
        self.target = grid
        alone = self.residual is None and self.activation is None and not self.late
        if self.inner is not None and alone:
            self._join_roundings(self.inner, grid)
        return self._take(node)

    def _join_roundings(self, inner: QuantizationParameters, target: QuantizationParameters) -> None:
        """Two roundings by the same parameters are one."""
        if inner[:2] == target[:2]:
            low, high = (min(max(bound, target.low), target.high) for bound in (inner.low, inner.high))
            self.inner, self.target = None, target._replace(low=low, high=high)

    def _goes_on(self, node: Node, value: str) -> bool:
        """Whether a node that reads a value is one of the other steps."""
        biased = self.bias is None and self._constant(node, value) is not None
        function = self.graph.functions.get(node)
        unary = function is not None and len(function.holes) == 1
        return biased or unary or self._addend(node, value) is not None

    def _clip(self, node: Node) -> bool:
        """A rectifier: it narrows the grid."""
        found = self._bounds(node)
        if found is None or self.activation is not None or node.inputs[0] != self.value:
            return False
        low, high = found
        old = self.bounds or (-np.inf, np.inf)
        self.bounds = (min(max(old[0], low), high), min(max(old[1], low), high))
        return self._take(node)

    def _bounds(self, node: Node) -> tuple[float, float] | None:
        """(low, high) where a node is min(max(x, low), high) of its first input, or one of these."""
        function = self.graph.functions.get(node)
        match function and function.numbers:
            case Call("minimum", (Call("maximum", (Read("0"), Num(low))), Num(high))):
                return float(low), float(high)
            case Call("maximum", (Read("0"), Num(low))):
                return float(low), np.inf
            case Call("minimum", (Read("0"), Num(high))):
                return -np.inf, float(high)
        return None

    def _curve(self) -> bool:
        """Any other function of one value."""
        if self.activation is not None or self.bounds is not None:
            return False
        found = function_behind(self.graph, self.value, self.free)
        if found is None:
            return False
        self.activation = found[0]
        return self._take(*found[1])

    def _addend(self, node: Node, value: str) -> str | None:
        """The other operand of an addition of two computed tensors of one shape."""
        other = addend(node, value)
        if other is None or self.graph.shapes[other] != self.graph.shapes[value]:
            return None
        return other if other not in self.graph.constants else None

    def _constant(self, node: Node, value: str) -> Array | None:
        """What an addition of one number a column to rows adds; None if it is none."""
        other = addend(node, value) if self.rows else None
        found = numbers_of_channels(self.graph, other, value, self.rows) if other else None
        return None if found is None else np.asarray(found, np.float32)

    def _add(self, node: Node) -> bool:
        constant = self._constant(node, self.value)
        curved = self.bounds is not None or self.activation is not None
        if constant is not None and not curved and (self.inner is None or self.bias is None):
            self.late = self.inner is not None
            self.bias = constant if self.bias is None else self.bias + constant
            return self._take(node)
        other = self._addend(node, self.value)
        if other is None or self.residual or curved:
            return False
        self.residual, self.parameters = self._kept(other)
        return self._take(node)

    def _kept(self, value: str) -> tuple[str, QuantizationParameters]:
        """Where the other operand of an addition is read from: its bytes, or itself."""
        producer = self.graph.program.producers.get(value)
        found = self.graph.parameters.get(producer) if producer is not None else None
        if producer is None or found is None or not decodes(producer):
            return value, QuantizationParameters(1.0, 0)
        if self.rows and self.graph.dtypes[producer.inputs[0]] == "i8":  # these stay signed
            return value, QuantizationParameters(1.0, 0)
        return producer.inputs[0], found
