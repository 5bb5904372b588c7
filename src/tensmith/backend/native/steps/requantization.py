"""What an 8-bit kernel does with its sums: everything behind a product of bytes that one pass computes.

    quantize(activation(conv(dequantize(x), dequantize(w), dequantize(b)) [+ residual]))

in the forms that tensmith, ONNX Runtime and NNCF write: x in bytes on one grid, w in int8 without zero point
on one grid or one a filter, b as int32 on the products' grid or in floats. Sums may pass a pair of their own
before a bias or a residual is added. Anything else is left to the float kernels.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field, replace

import numpy as np

from tensmith.backend.native.quantization import grid_of
from tensmith.backend.native.steps.activations import activation_of
from tensmith.backend.native.steps.integers import Operands
from tensmith.backend.native.steps.step import Array, Heavy
from tensmith.backend.native.steps.sums import addend
from tensmith.errors import EngineError
from tensmith.ir import Node, Program
from tensmith.ir.ops.quantization import decodes, encodes
from tensmith.kernel.epilogue import Activation
from tensmith.kernel.quantized import QuantizationParameters, Rescaling, fields

_CLIPS = frozenset({"relu", "clip"})


def integer_step(
    program: Program, step: Heavy, given: Operands, last: Node, taken: Collection[Node]
) -> tuple[Heavy, list[Node]] | None:
    """`step`, a convolution of codes, with its rescaling and everything behind it that one pass computes.

    Also the nodes it takes, in order. None if its sums might not fit 32 bits.
    """
    return rescaled(step, given, last, Behind(program, step.output, taken, given.bias))


def rescaled(step: Heavy, given: Operands, last: Node, behind: Behind) -> tuple[Heavy, list[Node]] | None:
    """`integer_step` for those who know how to look behind a step."""
    behind.follow()
    problem = replace(step.problem, dtype="u8")
    how = Rescaling(
        given.source, given.scales, behind.target, given.codes, behind.bias, behind.inner, behind.grid,
        behind.late,
    )  # fmt: skip
    found = replace(
        step, problem=problem, weights=step.weights.astype(np.int8), bias=None, rescaling=how,
        output=behind.value, residual=behind.residual, activation=behind.real_activation,
    )  # fmt: skip
    try:
        fields(problem, found.weights, how, found.activation is not None)
    except EngineError:
        return None
    return found, [last, *behind.nodes]


@dataclass
class Behind:
    """Walks along the only readers of a value for as long as the epilogue can do what they do.

    `late` if the bias is added to sums that a pair of their own has rounded.
    """

    program: Program
    value: str
    taken: Collection[Node]
    bias: Array | None = None
    nodes: list[Node] = field(default_factory=list)
    late: bool = False
    inner: QuantizationParameters | None = None
    target: QuantizationParameters | None = None
    residual: str | None = None
    grid: QuantizationParameters | None = None
    bounds: tuple[float, float] | None = None
    activation: Activation | None = None

    @property
    def real_activation(self) -> Activation | None:
        """The activation that is no clip of bytes."""
        if self.target is None and self.bounds is not None:
            return Activation("clip", self.bounds)
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
        readers = self.program.consumers.get(value, ())
        if len(readers) != 1 or value in self.program.outputs or readers[0] in self.taken:
            return None
        return readers[0]

    def _take(self, *nodes: Node) -> bool:
        self.nodes += nodes
        self.value = nodes[-1].output
        return True

    def _quantize(self, node: Node) -> bool:
        """A grid: the last one, or if a residual or a curve comes after it, the sums' own."""
        grid = grid_of(self.program, node)
        if grid is None or not encodes(node):
            return False
        if self.bounds is not None:
            grid = grid.clipped(*self.bounds)
        again = self._reader(node.output)  # the other half of the pair
        first = self.inner is None and self.residual is None and self.activation is None
        if first and again is not None and grid_of(self.program, again) == grid_of(self.program, node):
            after = self._reader(again.output)
            if after is not None and self._goes_on(after, again.output):
                self.inner, self.bounds = grid, None
                return self._take(node, again)
        self.target = grid
        alone = self.residual is None and self.activation is None and not self.late
        if self.inner is not None and alone:
            self._join_grids(self.inner, grid)
        return self._take(node)

    def _join_grids(self, inner: QuantizationParameters, target: QuantizationParameters) -> None:
        """Two roundings onto one grid are one."""
        if inner[:2] == target[:2]:
            low, high = max(inner.low, target.low), min(inner.high, target.high)
            self.inner, self.target = None, target._replace(low=min(low, high), high=high)

    def _goes_on(self, node: Node, value: str) -> bool:
        """Whether a node that reads a value is one of the other steps."""
        biased = self.bias is None and self._constant(node, value) is not None
        unary = activation_of(self.program, node) is not None or grid_of(self.program, node) is not None
        return biased or unary or self._addend(node, value) is not None

    def _clip(self, node: Node) -> bool:
        """A rectifier: it narrows the grid."""
        activation = activation_of(self.program, node)
        if activation is None or self.activation is not None or node.inputs[0] != self.value:
            return False
        if activation.name not in _CLIPS:
            return False
        low, high = (0.0, np.inf) if activation.name == "relu" else activation.parameters
        old = self.bounds or (-np.inf, np.inf)
        self.bounds = (min(max(old[0], low), high), min(max(old[1], low), high))
        return self._take(node)

    def _curve(self) -> bool:
        """Any other function of one value."""
        if self.activation is not None or self.bounds is not None:
            return False
        found = self._function()
        if found is None:
            return False
        self.activation = found[0]
        return self._take(*found[1])

    def _function(self) -> tuple[Activation, list[Node]] | None:
        """The function of the value that its readers compute, and they."""
        node = self._reader(self.value)
        activation = activation_of(self.program, node) if node is not None else None
        return (activation, [node]) if node is not None and activation is not None else None

    def _addend(self, node: Node, value: str) -> str | None:
        """The other operand of an addition of two computed tensors of one shape."""
        other = addend(node, value)
        if other is None or self.program.type(other).static != self.program.type(value).static:
            return None
        return other if other not in self.program.static_values else None

    def _constant(self, node: Node, value: str) -> Array | None:
        """What an addition of one number a filter adds; None if it is none."""
        return None

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
        self.residual, self.grid = self._kept(other)
        return self._take(node)

    def _kept(self, value: str) -> tuple[str, QuantizationParameters]:
        """Where the other operand of an addition is read from: its codes, or itself."""
        producer = self.program.producers.get(value)
        grid = grid_of(self.program, producer) if producer is not None else None
        if producer is not None and grid is not None and decodes(producer):
            return producer.inputs[0], grid
        return value, QuantizationParameters(1.0, 0)
