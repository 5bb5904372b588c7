"""Nodes to steps: heavy ones take bias, residual and activation with them; elementwise nodes join.

Passes over all nodes look for one kind of step each, those first that take most with them. A step takes the
place of the last node it stands for, so that everything it reads exists by then.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import TypeAlias

from tensmith.backend.native.steps.attention import attention
from tensmith.backend.native.steps.dynamic_layers import dynamic_layer, encoded
from tensmith.backend.native.steps.elementwise import concatenated, elementwise, is_elementwise
from tensmith.backend.native.steps.graph import StepGraph
from tensmith.backend.native.steps.layers import layer, with_epilogue
from tensmith.backend.native.steps.norms import normalization
from tensmith.backend.native.steps.operands import Free
from tensmith.backend.native.steps.parts import cuts, padded_slice, pads, part_of_input
from tensmith.backend.native.steps.recurrence import recurrence
from tensmith.backend.native.steps.requantization import integer_layer
from tensmith.backend.native.steps.single import over_images, over_tensors, pooled_codes, written
from tensmith.backend.native.steps.step import Encode, Heavy, Rename, Step, reads
from tensmith.errors import EngineError
from tensmith.ir import Node
from tensmith.ir.ops.quantization import decodes, encodes


def group(graph: StepGraph) -> list[Step]:
    """The steps of a placed graph; EngineError naming a node without a native kernel."""
    found = _Grouping(graph)
    for look, backwards in _PASSES:
        for node in reversed(graph.program.nodes) if backwards else graph.program.nodes:
            if node in found.free(node):
                look(found, node)
    steps: dict[Node | None, list[Step]] = dict(found.steps.items())
    for value, name in sorted(graph.names.items()):
        if name != value:
            maker = graph.program.producers.get(value)
            ends = (name, value) if maker in graph.tensors else (value, name)
            steps.setdefault(maker, []).append(Rename(*ends))
    outputs = graph.program.outputs
    ordered = [step for node in (None, *graph.program.nodes) for step in steps.get(node, [])]
    ordered += [written(graph, name) for name in outputs if name in graph.constants]
    return _alive(ordered, outputs)


def _alive(steps: list[Step], outputs: tuple[str, ...]) -> list[Step]:
    """The steps whose output somebody reads."""
    read = set(outputs)
    kept = []
    for step in reversed(steps):
        if step.output in read:
            kept.append(step)
            read.update(reads(step))
    return kept[::-1]


@dataclass
class _Grouping:
    """Nodes of images and tensors that are `left`, steps by the last of their nodes, and what they read."""

    graph: StepGraph
    left: dict[bool, set[Node]] = field(default_factory=lambda: {False: set(), True: set()})
    read: set[str] = field(default_factory=set)
    steps: dict[Node, list[Step]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._order = {node: index for index, node in enumerate(self.graph.program.nodes)}
        for node in self._order:
            if node.output not in self.graph.constants:
                self.left[node in self.graph.tensors].add(node)

    def free(self, node: Node) -> set[Node]:
        """What a step may take with this node: of tensors if this one is."""
        return self.left[node in self.graph.tensors]

    def place(self, nodes: list[Node], *steps: Step) -> None:
        """Puts steps for all of `nodes` where the last of them stands."""
        if nodes[0] in self.graph.tensors:
            steps = tuple(self._named(step) if isinstance(step, Heavy) else step for step in steps)
        self.free(nodes[0]).difference_update(nodes)
        last = max(nodes, key=self._order.__getitem__)
        self.steps.setdefault(last, []).extend(steps)
        self.read.update(name for step in steps for name in reads(step))

    def _named(self, step: Heavy) -> Heavy:
        """A step whose values are called by their names as tensors."""
        names = self.graph.names
        residual = names[step.residual] if step.residual else None
        return replace(step, source=names[step.source], output=names[step.output], residual=residual)

    def dynamic_layer(self, node: Node) -> None:
        """A product of rows whose parameters are found at run time, if it is one, and what finds them."""
        made = dynamic_layer(self.graph, node, self.free(node))
        if made is None:
            return
        steps, nodes, encoder = made
        self.place(nodes, *steps)
        program = self.graph.program
        readers = [program.consumers.get(name, ()) for name in encoder.outputs]
        wanted = {*encoder.outputs[1:]} & {*program.outputs}
        if not wanted and not any(reader in self.free(reader) for part in readers for reader in part):
            self.place([encoder], *encoded(self.graph, encoder))

    def layer(self, node: Node) -> None:
        """A convolution or product, if it is one, and the nodes behind it that its epilogue computes."""
        step, nodes = layer(self.graph, node, node.inputs), [node]
        if step is None:
            return
        self.free(node).discard(node)
        while step.activation is None:
            following = with_epilogue(self.graph, step, self.free(node), node in self.graph.tensors)
            if following is None:
                break
            step, more = following
            nodes += more
            self.free(node).difference_update(more)
        self.place(nodes, step)

    def encoded_input(self, node: Node) -> None:
        """A node that quantizes planes for kernels alone, if it is one: as a rule an input of the program, or
        part of one."""
        program, parameters = self.graph.program, self.graph.parameters.get(node)
        if parameters is None or not encodes(node) or node in self.graph.tensors:
            return
        part = program.producers.get(node.inputs[0])
        cut = part is not None and cuts(part) and part_of_input(self.graph, part) is not None
        if not (cut or self._in_planes(node.inputs[0])) or node.output in program.outputs:
            return
        steps = (step for steps in self.steps.values() for step in steps)
        readers = {step.source for step in steps if isinstance(step, Heavy) and step.requantization}
        pairs = program.consumers.get(node.output, ())
        taken = self.left[False].isdisjoint(
            reader for pair in pairs for reader in program.consumers.get(pair.output, ())
        )
        if node.output in readers and taken:
            self.place([node], Encode(node.inputs[0], node.output, parameters))

    def _in_planes(self, value: str) -> bool:
        """Whether a value lies row-major: an input, a tensor, or one of them under another shape."""
        program = self.graph.program
        maker = program.producers.get(value)
        if maker is None:
            return value in program.inputs
        return maker in self.graph.tensors or (maker.traits.renames and self._in_planes(maker.inputs[0]))

    def pooled_codes(self, node: Node) -> None:
        """A pool of whole images that reads codes, if it is one."""
        maker = self.graph.program.producers.get(node.inputs[0]) if node.inputs else None
        if maker is None or not decodes(maker) or node in self.graph.tensors:
            return
        lone = maker in self.free(node) and self.graph.program.uses(maker.output) == 1
        step = pooled_codes(self.graph, node, maker) if lone else None
        if step is not None:
            self.place([maker, node], step)

    def elementwise(self, root: Node) -> None:
        """The tree of elementwise nodes that ends in `root`, or a concatenation of such, if it is one."""
        joined = root in self.graph.tensors and root.traits.joins
        if joined or is_elementwise(self.graph, root):
            make = concatenated if joined else elementwise
            step, nodes = make(self.graph, root, self.free(root), self.read)
            self.place(nodes, step)

    def part(self, node: Node) -> None:
        """A slice of images, a padded image, or a padded slice, if it is one."""
        if node in self.graph.tensors or not (pads(node) or cuts(node)):
            return
        pad, cut = (node if is_one(node) else None for is_one in (pads, cuts))
        source = self.graph.program.producers.get(node.inputs[0]) if pad else None
        if source is not None and cuts(source) and self.graph.program.uses(source.output) == 1:
            both = padded_slice(self.graph, pad, source) if source in self.free(node) else None
            if both is not None:
                return self.place([source, node], both)
        step = (part_of_input(self.graph, cut) if cut else None) or padded_slice(self.graph, pad, cut)
        if step is not None:
            self.place([node], step)

    def recurrence(self, node: Node) -> None:
        """The fold of a recurrent layer, if it is one, and what hands out its outputs."""
        made = recurrence(self.graph, node)
        if made is not None:
            self.place([node], *made)

    def alone(self, node: Node) -> None:
        """A node that stands alone; EngineError if it has no native kernel."""
        if node in self.graph.tensors:
            steps = [over_tensors(self.graph, node, output) for output in filter(None, node.outputs)]
            return self.place([node], *steps)
        step = over_images(self.graph, node)
        if step is None:
            raise EngineError(f"{node.label} has no native kernel yet; another engine runs it")
        self.place([node], step)


_Look: TypeAlias = Callable[[_Grouping, Node], None]


def _one(make: Callable[[StepGraph, Node, Free], tuple[Step, list[Node]] | None]) -> _Look:
    """The one step that `make` finds for a node and others."""

    def look(found: _Grouping, node: Node) -> None:
        made = make(found.graph, node, found.free(node))
        if made is not None:
            found.place(made[1], made[0])

    return look


# What is looked for, pass by pass, and whether from the last node to the first.
_PASSES: tuple[tuple[_Look, bool], ...] = (
    (_one(integer_layer), False),
    (_Grouping.dynamic_layer, False),
    (_Grouping.layer, False),
    (_Grouping.encoded_input, False),
    (_one(attention), False),
    (_one(normalization), False),
    (_Grouping.pooled_codes, False),
    (_Grouping.elementwise, True),
    (_Grouping.part, True),
    (_Grouping.recurrence, False),
    (_Grouping.alone, False),
)
