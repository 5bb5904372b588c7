"""Elementwise nodes in one pass, over images or over tensors: trees of what only they read, as C.

Over images all is in vectors; over tensors, numbers of other types are computed one by one. Each
node rounds what it computes: no product is added to before.
"""

from __future__ import annotations

from collections.abc import Callable, Set
from dataclasses import dataclass, field

import numpy as np

from tensmith.backend.native.quantization import quantized_values
from tensmith.backend.native.steps.functions import ElementFunction, composed
from tensmith.backend.native.steps.graph import StepGraph
from tensmith.backend.native.steps.operands import Free, Reads
from tensmith.backend.native.steps.step import Dense, Light, Step
from tensmith.ctext.helpers import ROUNDED
from tensmith.formula.arith import Array
from tensmith.formula.expr import Call, Expr, Num, Read
from tensmith.formula.types import BOOL, F32, MachineType
from tensmith.ir import Node
from tensmith.ir.ops.quantization import OnGrid, decodes, encodes
from tensmith.kernel import grid_code
from tensmith.kernel.epilogue import literal
from tensmith.kernel.routines.pointwise import Pointwise
from tensmith.kernel.routines.strided import Strided, StridedOperand, StridedStatement
from tensmith.kernel.view import StridedView

# The nodes that one expression holds at most, each as often as its text stands there: what a node reads twice
# would else make a chain's text exponential, and compilers recurse as deep as a text nests.
MOST_PRINTED = 64


def is_elementwise(graph: StepGraph, node: Node) -> bool:
    """Whether there is C for one step of a node, over images or, of a tensor node, over tensors."""
    function = graph.functions.get(node)
    if function is None or node not in graph.tensors:
        return function is not None and function.whole
    return in_vectors(graph, node) or function.numbers is not None


def in_vectors(graph: StepGraph, node: Node) -> bool:
    """Whether there is C over vectors for a node of tensors, whose signed bytes stay signed."""
    function = graph.functions.get(node)
    signed = node.kind(OnGrid) is not None and graph.dtypes[quantized_values(node)] == "i8"
    return function is not None and function.vector is not None and not function.tables and not signed


@dataclass
class _Tree:
    """The nodes of a tree that ends in `value`, each before what it reads, up to MOST_PRINTED of them."""

    graph: StepGraph
    value: str
    free: Free
    read: Set[str]
    repeats: bool
    nodes: dict[str, Node] = field(default_factory=dict)

    def grow(self) -> None:
        """Takes in what only the tree reads, of its own shape.

        Where it `repeats` them, dequantizations are in every tree that reads them: bytes are worth reading as
        often as they are needed.
        """
        program, shape = self.graph.program, self.graph.shapes[self.value]
        printed, waiting = 0, [(self.value, 1)]
        while waiting:
            name, times = waiting.pop()
            node = program.producers.get(name)
            if node is None or printed + times > MOST_PRINTED:
                continue
            if self.graph.shapes[name] != shape or not self._fits(node):
                continue
            self.nodes[name] = node
            printed += times
            if name != self.value and self.repeated(node):
                continue  # others need what it reads
            function = self.graph.functions[node]
            for read in reversed(list(dict.fromkeys(filter(None, node.inputs)))):
                if self.repeated(program.producers.get(read)) or program.uses(read) == 1:
                    places = [place for place, other in enumerate(node.inputs) if other == read]
                    waiting.append((read, times * function.count(places)))

    def _fits(self, node: Node) -> bool:
        """Whether a node can be part of a tree, and no step, of images or tensors, reads what it makes but
        the tree."""
        names = {node.output, self.graph.names[node.output]}
        read = node.output != self.value and not names.isdisjoint(self.read)
        return node in self.free and not read and is_elementwise(self.graph, node)

    def repeated(self, node: Node | None) -> bool:
        """Whether others that read it have it in their trees, too."""
        several = node is not None and decodes(node) and self.graph.program.uses(node.output) > 1
        return self.repeats and several

    @property
    def taken(self) -> list[Node]:
        """The nodes that nobody else needs a step for."""
        return [node for node in self.nodes.values() if not self.repeated(node)]

    def vectors(self, leaf: Callable[[str], str], table: Callable[[Array], str] | None = None) -> str:
        """C over vectors of floats, given that of what the tree reads and of numbers of channels."""

        def text(name: str) -> str:
            node = self.nodes.get(name)
            if node is None:
                return leaf(name)
            before = self.nodes.get(node.inputs[0]) if decodes(node) else None
            if before is not None and encodes(before):
                pair = self.graph.parameters[before], self.graph.parameters[node]
                return inner(node, grid_code.rounded(text(before.inputs[0]), *pair))
            function = self.graph.functions[node]
            return inner(
                node, function.filled({hole: filling(function, node, hole) for hole in function.holes})
            )

        def inner(node: Node, text: str) -> str:
            last = node.output == self.value or not self.graph.functions[node].product
            return text if last else f"rounded({text})"

        def filling(function: ElementFunction, node: Node, hole: str) -> str:
            if hole.isdigit():
                return text(node.inputs[int(hole)])
            assert table is not None
            return table(function.tables[int(hole[1:])])

        return text(self.value)

    def numbers(self, leaf: Callable[[str], Expr]) -> Expr:
        """The expression of numbers of any type, given those of what the tree reads."""
        done: dict[str, Expr] = {"": Num(0, BOOL)}  # what is left out is not read

        def number(name: str) -> Expr:
            if name not in done:
                done[name] = made(name)
            return done[name]

        def made(name: str) -> Expr:
            node = self.nodes.get(name)
            step = self.graph.functions[node].numbers if node is not None else None
            if node is None or step is None:
                return leaf(name)
            found = composed(step, list(map(number, node.inputs)))
            last = name == self.value or not self.graph.functions[node].product
            return found if last else Call(ROUNDED, (found,), F32)

        return number(self.value)


def elementwise(graph: StepGraph, root: Node, free: Free, read: Set[str]) -> tuple[Step, list[Node]]:
    """The step of the tree that ends in `root`, and its nodes."""
    if root not in graph.tensors:
        return _of_images(graph, root, free, read)
    reads, target = Reads(graph), StridedView.dense(graph.shapes[root.output])
    return _strided(graph, root, reads, [_of_tensors(graph, reads, root.output, target, free, read)])


def concatenated(graph: StepGraph, root: Node, free: Free, read: Set[str]) -> tuple[Step, list[Node]]:
    """What is joined, each part computed where it belongs if nobody else reads it."""
    shape = graph.shapes[root.output]
    axis = root.attrs["axis"] % len(shape)
    reads = Reads(graph)
    parts = []
    first = 0
    for value in root.inputs:
        size = graph.shapes[value]
        starts = [first if a == axis else 0 for a in range(len(shape))]
        target = StridedView.dense(shape).sliced(starts, [1] * len(shape), size)
        own = root.inputs.count(value) == 1
        if own:
            value, target = _before_views(graph, value, target, free)
        inline = own and graph.program.uses(value) == 1
        parts.append(_of_tensors(graph, reads, value, target, free if inline else frozenset(), read))
        first += size[axis]
    return _strided(graph, root, reads, parts)


def _before_views(graph: StepGraph, value: str, target: StridedView, free: Free) -> tuple[str, StridedView]:
    """(what a value is only another shape of, the target in that shape)."""
    node = graph.program.producers.get(value)
    if node is None or not node.traits.renames or node not in free or graph.program.uses(value) != 1:
        return value, target
    found = target.reshaped(graph.shapes[node.inputs[0]])
    return (value, target) if found is None else _before_views(graph, node.inputs[0], found, free)


def _strided(
    graph: StepGraph, root: Node, reads: Reads, parts: list[tuple[StridedStatement, list[Node]]]
) -> tuple[Step, list[Node]]:
    """The step that computes all parts of what `root` makes, and the nodes in it."""
    nodes = list(dict.fromkeys([root, *(node for _, inside in parts for node in inside)]))
    routine = Strided(tuple(part for part, _ in parts), graph.isa.lanes, graph.dtypes[root.output])
    return Dense(routine, tuple(reads.sources), graph.names[root.output], reads.constants), nodes


def _of_images(graph: StepGraph, root: Node, free: Free, read: Set[str]) -> tuple[Step, list[Node]]:
    """The same over images."""
    lanes = graph.isa.lanes
    tree = _Tree(graph, root.output, free, read, repeats=False)
    tree.grow()
    leaves: list[int | None] = []
    sources: list[str] = []
    tables: list[Array] = []
    known: dict[str, str] = {}

    def new(source: int | None) -> str:
        leaves.append(source)
        return f"{{{len(leaves) - 1}}}"

    def table(numbers: Array) -> str:
        full = np.zeros(-(-len(numbers) // lanes) * lanes, np.float32)
        full[: len(numbers)] = numbers
        tables.append(full)
        return new(None)

    def leaf(name: str) -> str:
        constant = graph.constants.get(name)
        if constant is not None:
            return table(constant.reshape(-1))
        if name not in known:
            known[name] = new(len(sources))
            sources.append(name)
        return known[name]

    text = tree.vectors(leaf, table)
    constants = np.concatenate(tables) if tables else None
    return Light(Pointwise(text, tuple(leaves), lanes), tuple(sources), root.output, constants), tree.taken


def _of_tensors(
    graph: StepGraph, reads: Reads, value: str, target: StridedView, free: Free, read: Set[str]
) -> tuple[StridedStatement, list[Node]]:
    """What computes `value` where `target` says, and the nodes in it."""
    shape = graph.shapes[value]
    tree = _Tree(graph, value, free, read, repeats=True)
    tree.grow()
    operands: list[StridedOperand] = []
    known: dict[str, int] = {}

    def place(name: str) -> int:
        if name not in known:
            known[name] = len(operands)
            operands.append(reads.operand(name, shape))
        return known[name]

    def vectors(name: str) -> str:
        number = graph.constants.number(name) if graph.dtypes[name] == "f32" else None
        return f"{{{place(name)}}}" if number is None else f"splat({literal(number)})"

    def numbers(name: str) -> Expr:
        dtype, constant = MachineType(graph.dtypes[name]), graph.constants.number(name)
        if constant is not None:
            return Num(constant, dtype)
        return Read(str(place(name)), (), dtype)

    vector = all(in_vectors(graph, node) for node in tree.nodes.values())
    vector = vector and (graph.dtypes[value] == "f32" or bool(tree.nodes))
    expression = tree.vectors(vectors) if vector else tree.numbers(numbers)
    return StridedStatement(expression, tuple(operands), target), tree.taken
