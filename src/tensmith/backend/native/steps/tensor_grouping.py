"""Tensor nodes to steps: products with their epilogues, attention, normalizations, elementwise trees."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np

from tensmith.backend.native.steps.attention import heads
from tensmith.backend.native.steps.byte_layers import byte_layer
from tensmith.backend.native.steps.dynamic_layers import dynamic_layer, encoded
from tensmith.backend.native.steps.norms import Norm, norm_group, norm_op
from tensmith.backend.native.steps.operands import Reads, TensorOperands
from tensmith.backend.native.steps.step import Dense, Step, reads
from tensmith.backend.native.steps.tensor_elementwise import ElementwiseTree, is_elementwise
from tensmith.backend.native.steps.tensor_layers import layer, with_epilogue
from tensmith.backend.native.steps.tensor_single import alone, matrix
from tensmith.ir import Node
from tensmith.ir.ops.product import Product
from tensmith.kernel.isa import Isa
from tensmith.kernel.routines.attention import AttentionRoutine
from tensmith.kernel.routines.rows import RowNorm
from tensmith.kernel.routines.strided import Strided, StridedStatement
from tensmith.kernel.view import StridedView
from tensmith.rewrite.term import Var, ops


def tensor_steps(tensors: TensorOperands, isa: Isa) -> dict[Node, list[Step]]:
    """Steps by the node whose place they take; EngineError naming a node without a native kernel."""
    found = _Grouping(tensors, isa)
    nodes = [node for node in tensors.program.nodes if node in tensors.nodes]
    for node in nodes:
        if found.free(node) and _is_product(node):
            found.byte_layer(node)
    for node in nodes:
        if found.free(node):
            found.dynamic_layer(node)
    for node in nodes:
        if found.free(node) and _is_product(node) and node.inputs[1] in tensors.program.static_values:
            found.layer(node)
    for node in nodes:
        if found.free(node):
            found.attention(node)
    for node in nodes:
        norm = norm_op(tensors, node) or norm_group(tensors, node)
        if norm is not None and all(map(found.free, norm.nodes)):
            found.norm(norm)
    for node in reversed(nodes):
        if found.free(node) and node.traits.joins:
            found.concat(node)
        elif found.free(node) and is_elementwise(tensors, node):
            found.elementwise(node)
    for node in nodes:
        if found.free(node):
            found.other(node)
    return found.steps


@dataclass
class _Grouping:
    """Which nodes are part of a step already, the steps, and what they read."""

    tensors: TensorOperands
    isa: Isa
    taken: set[Node] = field(default_factory=set)
    read: set[str] = field(default_factory=set)
    steps: dict[Node, list[Step]] = field(default_factory=dict)

    @cached_property
    def _order(self) -> dict[Node, int]:
        return {node: index for index, node in enumerate(self.tensors.program.nodes)}

    def free(self, node: Node) -> bool:
        """Whether a node is a tensor node that no step computes yet."""
        return node in self.tensors.nodes and node not in self.taken

    def place(self, nodes: list[Node], *steps: Step) -> None:
        """Puts steps for all of `nodes` where the last of them stands."""
        self.taken.update(nodes)
        last = max(nodes, key=self._order.__getitem__)
        self.steps.setdefault(last, []).extend(steps)
        self.read.update(name for step in steps for name in reads(step))

    def byte_layer(self, node: Node) -> None:
        """A product of bytes with an int8 matrix and what its epilogue computes, if it is one."""
        made = byte_layer(self.tensors, node, self.free)
        if made is not None:
            step, nodes = made
            self.place(nodes, step)

    def dynamic_layer(self, node: Node) -> None:
        """A product of rows whose grid is found at run time, if it is one, and what finds that grid."""
        made = dynamic_layer(self.tensors, node, self.free, self.isa)
        if made is None:
            return
        steps, nodes, encoder = made
        self.place(nodes, *steps)
        readers = [self.tensors.program.consumers.get(name, ()) for name in encoder.outputs]
        if self.taken.issuperset(reader for part in readers for reader in part):
            self.place([encoder], *encoded(self.tensors, encoder, self.isa))

    def layer(self, node: Node) -> None:
        """A product with a constant matrix, and the nodes behind it that its epilogue computes."""
        step = layer(self.tensors, node)
        if step is None:
            return
        nodes = [node]
        self.taken.add(node)
        while step.activation is None:
            following = with_epilogue(self.tensors, step, self.free)
            if following is None:
                break
            step, more = following
            nodes += more
            self.taken.update(more)
        self.place(nodes, replace(step, output=self.tensors.name(step.output)))

    def attention(self, node: Node) -> None:
        """Softmax between two products, if it is that."""
        tensors = self.tensors
        found = heads(tensors, node, self.free)
        if found is None or not all(map(self.free, found.nodes)):
            return
        nodes, output = list(found.nodes), found.nodes[-1].output
        shape = tensors.shape(output)
        mask_shape = tensors.shape(node.output)
        reads = Reads(tensors)
        q, k, v = (matrix(reads, name, shape[:-2]) for name in (found.q, found.k, found.v))
        mask = reads.operand(found.mask, mask_shape) if found.mask else None
        out, last = self._turned(output)
        if found.turned:
            v, out = replace(v, view=_upright(v.view)), _upright(out)
        routine = AttentionRoutine(q, k, v, mask, out, found.scale, self.isa, found.blind)
        if last is not None:
            nodes.append(last)
            tensors.made.add(last.output)
        name = tensors.name(nodes[-1].output)
        self.place(nodes, Dense(routine, tuple(reads.sources), name, reads.constants))

    def _turned(self, output: str) -> tuple[StridedView, Node | None]:
        """(how a result lies in its memory, the transpose behind it that this does), if there is one."""
        tensors = self.tensors
        shape = tensors.shape(output)
        found = tensors.read_as(ops.transpose(Var("x"), attrs="turn"), output)
        if found is None or not self.free(found.nodes[0]):
            return StridedView.dense(shape), None
        (node,) = found.nodes
        axes = node.attrs["perm"] or tuple(range(len(shape)))[::-1]
        back = [axes.index(axis) for axis in range(len(shape))]
        return StridedView.dense(tensors.shape(node.output)).transposed(back), node

    def norm(self, norm: Norm) -> None:
        """Rows normalized in one step."""
        tensors = self.tensors
        shape = tensors.shape(norm.source)
        tables = [t.reshape(-1).astype(np.float32) for t in (norm.scale, norm.shift) if t is not None]
        constants = np.concatenate(tables) if tables else None
        routine = RowNorm(
            math.prod(shape[:-1]), shape[-1], norm.epsilon, norm.centred, norm.scale is not None,
            norm.shift is not None, self.isa.lanes,
        )  # fmt: skip
        name = tensors.name(norm.nodes[-1].output)
        self.place(list(norm.nodes), Dense(routine, (tensors.name(norm.source),), name, constants))

    def elementwise(self, root: Node) -> None:
        """The tree of elementwise nodes that ends in `root`."""
        reads = Reads(self.tensors)
        shape = self.tensors.shape(root.output)
        self._strided(root, reads, [self._part(reads, root.output, StridedView.dense(shape), inline=True)])

    def concat(self, root: Node) -> None:
        """What is joined, each part computed where it belongs if nobody else reads it."""
        tensors = self.tensors
        shape = tensors.shape(root.output)
        axis = root.attrs["axis"] % len(shape)
        reads = Reads(tensors)
        parts = []
        first = 0
        for value in root.inputs:
            size = tensors.shape(value)
            starts = [first if a == axis else 0 for a in range(len(shape))]
            target = StridedView.dense(shape).sliced(starts, [1] * len(shape), size)
            own = root.inputs.count(value) == 1
            if own:
                value, target = self._before_views(value, target)
            parts.append(self._part(reads, value, target, own and tensors.program.uses(value) == 1))
            first += size[axis]
        self._strided(root, reads, parts)

    def _before_views(self, value: str, target: StridedView) -> tuple[str, StridedView]:
        """(what a value is only another shape of, the target in that shape)."""
        tensors = self.tensors
        node = tensors.program.producers.get(value)
        if node is None or not node.traits.renames or not self.free(node) or tensors.program.uses(value) != 1:
            return value, target
        found = target.reshaped(tensors.shape(node.inputs[0]))
        return (value, target) if found is None else self._before_views(node.inputs[0], found)

    def _part(
        self, reads: Reads, value: str, target: StridedView, inline: bool
    ) -> tuple[StridedStatement, list[Node]]:
        """The formula of a value, and the nodes in it; only the last may be read by others too."""
        tensors = self.tensors

        def may_inline(node: Node) -> bool:
            needed = node.output != value and tensors.name(node.output) in self.read
            return inline and self.free(node) and not needed and is_elementwise(tensors, node)

        tree = ElementwiseTree(tensors, reads, may_inline)
        expression = tree.build(value, tensors.shape(value))
        return StridedStatement(expression, tuple(tree.operands), target), tree.taken

    def _strided(self, root: Node, reads: Reads, parts: list[tuple[StridedStatement, list[Node]]]) -> None:
        nodes = list(dict.fromkeys([root, *(node for _, inside in parts for node in inside)]))
        tensors = self.tensors
        routine = Strided(tuple(part for part, _ in parts), self.isa.lanes, tensors.dtype(root.output))
        self.place(nodes, Dense(routine, tuple(reads.sources), tensors.name(root.output), reads.constants))

    def other(self, node: Node) -> None:
        """A node that stands alone; EngineError if it has no native kernel."""
        for output in filter(None, node.outputs):
            self.place([node], alone(self.tensors, node, output, self.isa))


def _is_product(node: Node) -> bool:
    """Whether a node multiplies rows by a matrix."""
    product = node.kind(Product)
    return product is not None and not product.windowed


def _upright(matrices: StridedView) -> StridedView:
    """Matrices with rows and columns exchanged."""
    rank = len(matrices.shape)
    return matrices.transposed([*range(rank - 2), rank - 1, rank - 2])
