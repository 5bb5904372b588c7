"""Image nodes to steps: heavy ops take bias, residual and activation with them; elementwise nodes join.

A group takes the place of its last node, so that everything it reads exists by then.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field, replace

from tensmith.backend.native.images import images_of
from tensmith.backend.native.quantization import grid_of
from tensmith.backend.native.steps.activations import activation_of
from tensmith.backend.native.steps.image_elementwise import Expression, is_elementwise
from tensmith.backend.native.steps.image_layers import layer
from tensmith.backend.native.steps.image_single import alone
from tensmith.backend.native.steps.integers import operands
from tensmith.backend.native.steps.parts import cuts, padded_slice, pads
from tensmith.backend.native.steps.requantization import integer_step
from tensmith.backend.native.steps.step import Array, Encode, Heavy, Step, reads
from tensmith.backend.native.steps.sums import addend
from tensmith.ir import Node, Program
from tensmith.ir.ops.product import Product
from tensmith.ir.ops.quantization import encodes
from tensmith.kernel.epilogue import Activation
from tensmith.kernel.isa import Isa
from tensmith.kernel.quantized import QuantizationParameters
from tensmith.rewrite.term import Match, Var, match, ops

_X = Var("x")


def image_steps(program: Program, isa: Isa, tensors: Collection[Node]) -> dict[Node, list[Step]]:
    """Steps by the node whose place they take, of all nodes but `tensors`; EngineError as `group` says."""
    found = _Grouping(program, isa.lanes)
    found.taken.update(node for node in program.nodes if node.output in program.static_values)
    found.taken.update(tensors)
    for node in program.nodes:
        heavy = node not in found.taken and node.kind(Product) is not None
        if heavy and not found.integers(node):
            found.heavy(node)
    for node in program.nodes:
        if node not in found.taken and found.encodes(node):
            found.place(node, Encode(node.inputs[0], node.output, _grid(program, node)))
    for node in reversed(program.nodes):
        if node not in found.taken and is_elementwise(program, node):
            found.elementwise(node)
    for node in reversed(program.nodes):
        if node not in found.taken:
            found.part(node)
    for node in program.nodes:
        if node not in found.taken:
            found.place(node, alone(program, node, isa.lanes))
    return {node: [step] for node, step in found.steps.items()}


@dataclass
class _Grouping:
    """Which nodes are already part of a step, and the steps by their last node."""

    program: Program
    lanes: int
    taken: set[Node] = field(default_factory=set)
    steps: dict[Node, Step] = field(default_factory=dict)

    def place(self, node: Node, step: Step) -> None:
        """Puts a step where `node` stands."""
        self.taken.add(node)
        self.steps[node] = step

    def integers(self, node: Node) -> bool:
        """A convolution or product of bytes, if it is one."""
        given = operands(self.program, node)
        if given is None:
            return False
        step = layer(self.program, given.node)
        found = integer_step(self.program, step, given, node, self.taken)
        if found is None:
            return False
        self.taken.update(found[1])
        self.place(found[1][-1], found[0])
        return True

    def encodes(self, node: Node) -> bool:
        """Whether a node quantizes an input of the program for kernels alone."""
        if not encodes(node) or node.inputs[0] not in self.program.inputs:
            return False
        if grid_of(self.program, node) is None or node.output in self.program.outputs:
            return False
        readers = {step.source for step in self.steps.values() if isinstance(step, Heavy) and step.rescaling}
        pairs = self.program.consumers.get(node.output, ())
        taken = all(reader in self.taken for pair in pairs for reader in self.program.consumers[pair.output])
        return node.output in readers and taken

    def heavy(self, node: Node) -> None:
        """A convolution or product, and the nodes behind it that its epilogue computes."""
        step, last = layer(self.program, node), node
        self.taken.add(node)
        while step.activation is None:
            following = self._epilogue(step)
            if following is None:
                break
            step, nodes = following
            self.taken.update(nodes)
            last = nodes[-1]
        self.place(last, step)

    def _epilogue(self, step: Heavy) -> tuple[Heavy, list[Node]] | None:
        """The step with one thing more in its epilogue, and the nodes that this computes."""
        program = self.program
        consumers = program.consumers.get(step.output, ())
        if step.output in program.outputs or not consumers:
            return None
        if len(consumers) == 2 and _gates(program, step.output, consumers[1]):
            return replace(step, activation=Activation("swish"), output=consumers[1].output), [*consumers]
        if len(consumers) > 1 or consumers[0] in self.taken:
            return None
        node = consumers[0]
        activation = activation_of(program, node)
        if activation is not None and node.inputs[0] == step.output:
            return replace(step, activation=activation, output=node.output), [node]
        other = addend(node, step.output)
        if other is None:
            return None
        constant = program.constants.get(other)
        if constant is not None:
            if step.residual is not None or not _is_bias(program, node, constant):
                return None
            bias = constant.reshape(-1) + (0 if step.bias is None else step.bias)
            return replace(step, bias=bias, output=node.output), [node]
        same = program.type(other).static == program.type(step.output).static
        if step.residual is not None or not same:
            return None
        return replace(step, residual=other, output=node.output), [node]

    def part(self, node: Node) -> None:
        """A slice of images, a padded image, or a padded slice, if it is one."""
        program = self.program
        pad, cut = (node if is_one(node) else None for is_one in (pads, cuts))
        source = program.producers.get(node.inputs[0]) if pad else None
        if source is not None and cuts(source) and program.uses(source.output) == 1:
            self.taken.add(source)
            cut = source
        if pad or cut:
            self.place(node, padded_slice(program, pad, cut))

    def elementwise(self, root: Node) -> None:
        """The tree of elementwise nodes that ends in `root`."""

        read = {name for step in self.steps.values() for name in reads(step)}

        def may_inline(node: Node) -> bool:
            free = node not in self.taken and node.output not in read
            return free and is_elementwise(self.program, node)

        tree = Expression(self.program, images_of(self.program, root.output), self.lanes, may_inline)
        step = tree.step(root)
        self.taken.update(tree.taken)
        self.place(root, step)


def _gates(program: Program, value: str, product: Node) -> bool:
    """Whether a node makes value * sigmoid(value)."""
    found = match(_X * ops.sigmoid(_X), program, product.output)
    return isinstance(found, Match) and found.values[_X.name] == value


def _is_bias(program: Program, node: Node, constant: Array) -> bool:
    """Whether a constant that is added holds one number a channel."""
    shape = program.type(node.output).static or ()
    aligned = (1,) * (len(shape) - constant.ndim) + constant.shape
    return len(aligned) == len(shape) and aligned == tuple(
        size if axis == 1 else 1 for axis, size in enumerate(shape)
    )


def _grid(program: Program, node: Node) -> QuantizationParameters:
    grid = grid_of(program, node)
    assert grid is not None
    return grid
