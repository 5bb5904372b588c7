"""Elementwise nodes as C expressions over vectors."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from tensmith.backend.native.images import Images, images_of
from tensmith.backend.native.quantization import grid_of
from tensmith.backend.native.steps.activations import activation_of
from tensmith.backend.native.steps.meanings import meaning
from tensmith.backend.native.steps.step import Array, Light
from tensmith.errors import EngineError
from tensmith.formula.expr import Expr
from tensmith.ir import Node, Program
from tensmith.ir.handlers import Handlers
from tensmith.ir.ops.quantization import OnGrid, encodes
from tensmith.kernel.epilogue import literal
from tensmith.kernel.quantized import QuantizationParameters
from tensmith.kernel.routines.pointwise import Kind, Pointwise
from tensmith.kernel.vectors import vector_text


def is_elementwise(program: Program, node: Node) -> bool:
    """Whether `node` can be part of an elementwise group."""
    if len(node.outputs) > 1:
        return False
    fits = _fits.find(node)
    if fits is not None:
        return fits(program, node)
    return activation_of(program, node) is not None or _meaning(program, node) is not None


def _meaning(program: Program, node: Node) -> Expr | None:
    """What a node computes of elements of images; None if it has no C over whole vectors."""
    found = meaning(program, node, program.constants.get)
    try:
        if found is not None:
            vector_text(found, lambda place: "", lane_by_lane=False)
    except EngineError:
        return None
    return found


# Nodes that work on each element without being the same function of each: whether there is C for one.
_fits = Handlers[Callable[[Program, Node], bool]]()


@_fits("batch_normalization")
def _constant_statistics(program: Program, node: Node) -> bool:
    return all(name in program.constants for name in node.inputs[1:])


@_fits(OnGrid)
def _one_grid(program: Program, node: Node) -> bool:
    return grid_of(program, node) is not None


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
        text = _texts.find(node)
        if text is not None:
            return text(self, node)
        activation = activation_of(self.program, node)
        if activation is not None:
            return f"({activation.apply(self.value(node.inputs[0]))})"
        return self._plain(node)

    def _plain(self, node: Node) -> str:
        """A function of elements; the text of a value stands in it as often as it is named."""
        found = _meaning(self.program, node)
        assert found is not None
        read = vector_text(found, lambda place: f"\0{place}\0", lane_by_lane=False).split("\0")[1::2]
        texts: dict[str, str] = {}
        for name, count in Counter(node.inputs[int(place)] for place in read).items():
            self.times *= count
            texts[name] = self.value(name)
            self.times //= count
        return vector_text(found, lambda place: texts[node.inputs[int(place)]], lane_by_lane=False)

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

    def batch_norm(self, node: Node) -> str:
        scale, shift, mean, variance = (
            self.program.constants[n].astype(np.float64) for n in node.inputs[1:5]
        )
        factor = scale / np.sqrt(variance + node.attrs["epsilon"])
        x = self.value(node.inputs[0])
        return f"({x} * {self._table(factor)} + {self._table(shift - mean * factor)})"

    def on_grid(self, node: Node) -> str:
        """Numbers as codes, or codes as numbers."""
        return self._quantized(node) if encodes(node) else self._dequantized(node)

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

    def _in_units(self, node: Node, grid: QuantizationParameters) -> str:
        return f"({self.value(node.inputs[0])} / splat({literal(grid.scale)}))"

    def step(self, root: Node) -> Light:
        """The elementwise group that ends in `root`."""
        grid = grid_of(self.program, root) if encodes(root) else None
        if grid is None:
            text = self.node(root)
        else:
            self.taken.append(root)
            text = self._in_units(root, grid)
        routine = Pointwise(text, tuple(self.kinds), self.lanes, grid)
        constants: Any = np.concatenate(self.tables) if self.tables else None
        return Light(routine, tuple(self.sources), root.output, constants)


_texts = Handlers[Callable[[Expression, Node], str]]()
_texts("batch_normalization")(Expression.batch_norm)
_texts(OnGrid)(Expression.on_grid)
