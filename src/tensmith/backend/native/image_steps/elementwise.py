"""Elementwise nodes as C expressions over vectors."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from tensmith.backend.native.activations import activation_of
from tensmith.backend.native.images import Images, images_of
from tensmith.backend.native.quantized.grids import grid_of
from tensmith.backend.native.steps import Array, Light
from tensmith.errors import EngineError
from tensmith.ir import Node, Program
from tensmith.kernel.epilogue import literal
from tensmith.kernel.quantized import Grid
from tensmith.kernel.routines.pointwise import Kind, Pointwise

# Binary and unary ops as C over vector expressions.
PLAIN: Mapping[str, str] = {
    "add": "({0} + {1})",
    "sub": "({0} - {1})",
    "mul": "({0} * {1})",
    "div": "({0} / {1})",
    "max": "vmaximum({0}, {1})",
    "min": "vminimum({0}, {1})",
    "neg": "(-{0})",
    "abs": "vabs({0})",
    "exp": "vexp({0})",
    "reciprocal": "(1.0f / {0})",
    "erf": "verf({0})",
    "identity": "{0}",
}


def is_elementwise(program: Program, node: Node) -> bool:
    """Whether `node` can be part of an elementwise group."""
    if node.op == "batch_normalization":
        return all(name in program.constants for name in node.inputs[1:])
    if node.op in ("quantize_linear", "dequantize_linear"):
        return grid_of(program, node) is not None
    plain = node.op in PLAIN and len(node.inputs) <= 2
    return node.opaque is None and (plain or activation_of(program, node) is not None)


# The nodes that one expression holds at most, each as often as its text stands there: what a node reads twice
# would else make a chain's text exponential, and compilers recurse as deep as a text nests.
MOST_PRINTED = 64


@dataclass
class Expression:
    """An elementwise tree under construction: C text, leaves, and the nodes it has taken in.

    `printed` counts these as often as their texts stand in the whole one, `times` is how often the text now
    made will stand there.
    """

    program: Program
    images: Images
    lanes: int
    may_inline: Callable[[Node], bool]
    kinds: list[Kind] = field(default_factory=list)
    sources: list[str] = field(default_factory=list)
    tables: list[Array] = field(default_factory=list)
    taken: list[Node] = field(default_factory=list)
    printed: int = 0
    times: int = 1
    _known: dict[str, str] = field(default_factory=dict)

    def node(self, node: Node) -> str:
        """The C expression of a node's output."""
        self.taken.append(node)
        self.printed += self.times
        if node.op == "batch_normalization":
            return self._batch_norm(node)
        if node.op == "dequantize_linear":
            return self._dequantized(node)
        if node.op == "quantize_linear":
            return self._quantized(node)
        activation = activation_of(self.program, node)
        if activation is not None:
            return f"({activation.apply(self.value(node.inputs[0]))})"
        return self._plain(node)

    def _plain(self, node: Node) -> str:
        """An op on one value or two, which may be the same: its text then stands there twice."""
        texts = {}
        for name in node.inputs:
            if name not in texts:
                count = node.inputs.count(name)
                self.times *= count
                texts[name] = self.value(name)
                self.times //= count
        return PLAIN[node.op].format(*(texts[name] for name in node.inputs))

    def value(self, name: str) -> str:
        """The C expression of a value: a subtree, a leaf, or a number."""
        constant = self.program.constants.get(name)
        if constant is not None:
            return self._constant(name, constant)
        producer = self.program.producers.get(name)
        alone = producer is not None and self.program.uses(name) == 1 and self.may_inline(producer)
        alone = alone and self.printed + self.times <= MOST_PRINTED
        if alone and producer is not None and images_of(self.program, name) == self.images:
            return self.node(producer)
        return self._leaf(name)

    def _leaf(self, name: str) -> str:
        if name not in self._known:
            images = images_of(self.program, name)
            if images == self.images:
                kind: Kind = "image"
            elif images == Images(self.images.batch, self.images.channels, 1, 1):
                kind = "channel"
            else:
                raise EngineError(f"'{name}' is broadcast in a way the native engine has no kernel for")
            self._known[name] = self._new(kind)
            self.sources.append(name)
        return self._known[name]

    def _new(self, kind: Kind) -> str:
        self.kinds.append(kind)
        return f"{{{len(self.kinds) - 1}}}"

    def _constant(self, name: str, constant: Array) -> str:
        if constant.size == 1:
            return f"splat({literal(float(constant.reshape(-1)[0]))})"
        shape = self.program.type(name).static or ()
        rank = len(self.program.type(self.taken[0].output).dims)
        aligned = (1,) * (rank - len(shape)) + shape
        if aligned[1] != constant.size or self.images.channels != constant.size:
            raise EngineError(f"the constant '{name}' of shape {shape} has no native kernel here")
        return self._table(constant.reshape(-1))

    def _table(self, numbers: Array) -> str:
        full = np.zeros(-(-len(numbers) // self.lanes) * self.lanes, np.float32)
        full[: len(numbers)] = numbers
        self.tables.append(full)
        return self._new("constant")

    def _batch_norm(self, node: Node) -> str:
        scale, shift, mean, variance = (
            self.program.constants[n].astype(np.float64) for n in node.inputs[1:5]
        )
        factor = scale / np.sqrt(variance + node.attrs["epsilon"])
        x = self.value(node.inputs[0])
        return f"({x} * {self._table(factor)} + {self._table(shift - mean * factor)})"

    def _dequantized(self, node: Node) -> str:
        """Bytes as numbers: those of a quantization in the same group already lack their zero point."""
        grid = grid_of(self.program, node)
        assert grid is not None
        inside = len(self.taken)
        codes = self.value(node.inputs[0])
        if len(self.taken) == inside:
            codes = f"({codes} - splat({literal(grid.zero_point)}))"
        return f"({codes} * splat({literal(grid.scale)}))"

    def _quantized(self, node: Node) -> str:
        """Whole numbers within the grid, the zero point off."""
        grid = grid_of(self.program, node)
        assert grid is not None
        bounds = [f"splat({literal(bound - grid.zero_point)})" for bound in (grid.low, grid.high)]
        return f"vmin({bounds[1]}, vmax({bounds[0]}, rint_f({self._in_units(node, grid)})))"

    def _in_units(self, node: Node, grid: Grid) -> str:
        return f"({self.value(node.inputs[0])} / splat({literal(grid.scale)}))"

    def step(self, root: Node) -> Light:
        """The elementwise group that ends in `root`."""
        grid = grid_of(self.program, root) if root.op == "quantize_linear" else None
        if grid is None:
            text = self.node(root)
        else:
            self.taken.append(root)
            text = self._in_units(root, grid)
        routine = Pointwise(text, tuple(self.kinds), self.lanes, grid)
        constants: Any = np.concatenate(self.tables) if self.tables else None
        return Light(routine, tuple(self.sources), root.output, constants)
