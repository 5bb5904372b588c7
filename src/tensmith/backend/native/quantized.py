"""Convolutions and products between quantize-dequantize pairs as 8-bit kernels.

    quantize(activation(conv(dequantize(x), dequantize(w), dequantize(b)) [+ residual]))

in the forms that tensmith, ONNX Runtime and NNCF write: x in bytes on one grid, w in int8 without zero point
on one grid or one a filter, b as int32 on the products' grid or in floats. Sums may pass a pair of their own
before the residual is added. Anything else is left to the float kernels.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field, replace
from typing import NamedTuple

import numpy as np

from tensmith.backend.native.elementwise import activation_of
from tensmith.backend.native.grids import grid_of
from tensmith.backend.native.steps import Array, Heavy
from tensmith.errors import EngineError
from tensmith.ir import Node, Program
from tensmith.kernel.epilogue import Activation
from tensmith.kernel.quantized import Grid, Rescaling, fields

_CLIPS = frozenset({"relu", "clip"})


class Operands(NamedTuple):
    """A product of bytes: `node` reads the codes of x and w; the rest says what they stand for."""

    node: Node
    source: Grid
    scales: Array
    codes: Array | None
    bias: Array | None


def operands(program: Program, node: Node) -> Operands | None:
    """The integers behind a conv, gemm or matmul; None if it does not multiply bytes by int8."""
    x, w = (program.producers.get(name) for name in node.inputs[:2])
    if x is None or w is None or node.attrs.get("alpha", 1.0) != 1 or node.attrs.get("beta", 1.0) != 1:
        return None
    source = grid_of(program, x)
    if source is None or x.op != "dequantize_linear" or w.op != "dequantize_linear":
        return None
    axis = 0 if node.op == "conv" or node.attrs.get("transB", 0) else 1
    scales = _weight_scales(program, w, axis)
    if scales is None:
        return None
    codes, bias = None, None
    if len(node.inputs) > 2 and node.inputs[2]:
        found = _bias(program, node.inputs[2], source.scale * scales.astype(np.float64))
        if found is None:
            return None
        codes, bias = found
    return Operands(replace(node, inputs=(x.inputs[0], w.inputs[0])), source, scales, codes, bias)


def _weight_scales(program: Program, node: Node, axis: int) -> Array | None:
    """One scale a filter, or one for all, of dequantized int8 constants without zero points."""
    codes, scale = (program.constants.get(name) for name in node.inputs[:2])
    zero = program.constants.get(node.inputs[2]) if len(node.inputs) > 2 and node.inputs[2] else None
    if codes is None or scale is None or codes.dtype != np.int8 or node.attrs["block_size"]:
        return None
    along = scale.size == 1 or node.attrs["axis"] % codes.ndim == axis
    return scale.reshape(-1) if along and (zero is None or not zero.any()) else None


def _bias(program: Program, name: str, unit: Array) -> tuple[Array | None, Array | None] | None:
    """(codes, None) of a bias on the grid of the products, (None, floats) of another; None if computed."""
    producer = program.producers.get(name)
    if name in program.constants:
        return None, program.constants[name].reshape(-1)
    if producer is None or producer.op != "dequantize_linear":
        return None
    codes, scale = (program.constants.get(part) for part in producer.inputs[:2])
    zero = program.constants.get(producer.inputs[2]) if len(producer.inputs) > 2 else None
    if codes is None or scale is None or (zero is not None and zero.any()) or producer.attrs["block_size"]:
        return None
    if codes.dtype == np.int32 and np.allclose(scale.reshape(-1), unit, rtol=1e-6, atol=0):
        return codes.reshape(-1), None
    return None, (codes.astype(np.float64) * scale).reshape(-1)


def integer_step(
    program: Program, step: Heavy, given: Operands, last: Node, taken: Collection[Node]
) -> tuple[Heavy, list[Node]] | None:
    """`step`, a convolution of codes, with its rescaling and everything behind it that one pass computes.

    Also the nodes it takes, in order. None if its sums might not fit 32 bits.
    """
    behind = _Behind(program, step.output, taken)
    behind.follow()
    problem = replace(step.problem, dtype="u8")
    how = Rescaling(
        given.source, given.scales, behind.target, given.codes, given.bias, behind.inner, behind.grid
    )
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
class _Behind:
    """Walks along the only readers of a value for as long as the epilogue can do what they do."""

    program: Program
    value: str
    taken: Collection[Node]
    nodes: list[Node] = field(default_factory=list)
    inner: Grid | None = None
    target: Grid | None = None
    residual: str | None = None
    grid: Grid | None = None
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
        while self.target is None:
            node = self._reader(self.value)
            if node is None or not (self._quantize(node) or self._activate(node) or self._add(node)):
                return

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
        if node.op != "quantize_linear" or grid is None:
            return False
        if self.bounds is not None:
            grid = grid.clipped(*self.bounds)
        again = self._reader(node.output)  # the other half of the pair
        first = self.inner is None and self.residual is None and self.activation is None
        if first and again is not None and grid_of(self.program, again) == grid_of(self.program, node):
            after = self._reader(again.output)
            if after is not None and (self._addend(after, again.output) or self._unary(after)):
                self.inner, self.bounds = grid, None
                return self._take(node, again)
        self.target = grid
        if self.inner is not None and self.residual is None and self.activation is None:
            self._join_grids(self.inner, grid)
        return self._take(node)

    def _join_grids(self, inner: Grid, target: Grid) -> None:
        """Two roundings onto one grid are one."""
        if inner[:2] == target[:2]:
            low, high = max(inner.low, target.low), min(inner.high, target.high)
            self.inner, self.target = None, target._replace(low=min(low, high), high=high)

    def _unary(self, node: Node) -> bool:
        """Whether a node is one of the other steps."""
        return activation_of(self.program, node) is not None or grid_of(self.program, node) is not None

    def _activate(self, node: Node) -> bool:
        activation = activation_of(self.program, node)
        if activation is None or self.activation is not None or node.inputs[0] != self.value:
            return False
        if activation.name in _CLIPS:
            low, high = (0.0, np.inf) if activation.name == "relu" else activation.parameters
            old = self.bounds or (-np.inf, np.inf)
            self.bounds = (min(max(old[0], low), high), min(max(old[1], low), high))
        elif self.bounds is None:
            self.activation = activation
        else:
            return False
        return self._take(node)

    def _addend(self, node: Node, value: str) -> str | None:
        """The other operand of an addition of two computed tensors of one shape."""
        if node.op != "add" or node.inputs[0] == node.inputs[1]:
            return None
        other = next(name for name in node.inputs if name != value)
        same = self.program.type(other).static == self.program.type(value).static
        return other if same and other not in self.program.static_values else None

    def _add(self, node: Node) -> bool:
        other = self._addend(node, self.value)
        if other is None or self.residual or self.bounds is not None or self.activation is not None:
            return False
        producer = self.program.producers.get(other)
        grid = grid_of(self.program, producer) if producer is not None else None
        if producer is not None and grid is not None and producer.op == "dequantize_linear":
            self.residual, self.grid = producer.inputs[0], grid
        else:
            self.residual, self.grid = other, Grid(1.0, 0)
        return self._take(node)
