"""What tensor steps read: values traced back through views to dense memory, and constants."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from tensmith.backend.native.steps.meanings import meaning
from tensmith.backend.native.steps.step import Array
from tensmith.backend.native.steps.views import is_view, shape_of, viewed
from tensmith.formula.expr import Expr
from tensmith.ir import Node, Program, interpret
from tensmith.kernel.routines.strided import StridedOperand
from tensmith.kernel.view import StridedView
from tensmith.rewrite.term import Match, Use, match

_ALIGNMENT = 64

# Whether no step computes a node yet.
Free = Callable[[Node], bool]


@dataclass(eq=False)
class TensorOperands:
    """The tensor nodes of a program: their values lie dense, or are views of values that do.

    A value is kept under its own name where none but tensor nodes make and read it, else beside the image.
    `made` are views that a step makes dense as it computes what they show: nothing else of that exists.
    `tables` are floats that a step makes for others and no node of the program names, with how many they are.
    """

    program: Program
    nodes: frozenset[Node]
    made: set[str] = field(default_factory=set)
    tables: dict[str, int] = field(default_factory=dict)
    _known: dict[str, Array] = field(default_factory=dict)
    _meanings: dict[Node, Expr | None] = field(default_factory=dict)

    @cached_property
    def _shared(self) -> frozenset[str]:
        """Values that image nodes make and tensor nodes read, or the other way round."""
        found = set()
        for value in (*self.program.inputs, *(name for node in self.program.nodes for name in node.outputs)):
            readers = {node in self.nodes for node in self.program.consumers.get(value, ())}
            producer = self.program.producers.get(value)
            if len(readers | ({producer in self.nodes} if producer else set())) > 1:
                found.add(value)
        return frozenset(found)

    def holds(self, value: str) -> bool:
        """Whether a value's own name stands for a tensor."""
        producer = self.program.producers.get(value)
        if value in self._shared:
            return False
        if producer is None:
            return all(node in self.nodes for node in self.program.consumers.get(value, ()))
        return producer in self.nodes

    def name(self, value: str) -> str:
        """What a value is called where it lies as a dense tensor."""
        return f"{value} as a tensor" if value in self._shared else value

    def held(self, names: set[str]) -> dict[str, str]:
        """Those of the names that stand for tensors, with the value each holds."""
        beside = {self.name(value): value for value in self._shared}
        return {name: beside.get(name, name) for name in names if name in beside or self.holds(name)}

    @property
    def bridges(self) -> list[tuple[str, Node | None]]:
        """Values that lie both ways, with the node that makes them."""
        return [(value, self.program.producers.get(value)) for value in sorted(self._shared)]

    def constant(self, value: str) -> Array | None:
        """The numbers of a value that needs no input; None if it is computed."""
        if value not in self.program.static_values:
            return None
        if value in self.program.constants:
            return self.program.constants[value]
        if value not in self._known:
            needed, names = [], {value}
            for node in reversed(self.program.nodes):
                if names.intersection(node.outputs):
                    needed.append(node)
                    names.update(node.inputs)
            alone = Program("constant", {}, (value,), tuple(needed[::-1]), self.program.constants)
            found = interpret(alone, {})[value]
            self._known[value] = np.asarray(found, self.program.type(value).numpy)
        return self._known[value]

    def number(self, value: str) -> float | None:
        """A constant of one element."""
        constant = self.constant(value)
        return float(constant.reshape(-1)[0]) if constant is not None and constant.size == 1 else None

    def meaning(self, node: Node) -> Expr | None:
        """What an elementwise node computes of its inputs; None if there is no C for it."""
        if node not in self._meanings:
            self._meanings[node] = meaning(self.program, node, self.constant)
        return self._meanings[node]

    def shape(self, value: str) -> tuple[int, ...]:
        """Fixed sizes."""
        return shape_of(self.program, value)

    def dtype(self, value: str) -> str:
        """Element type."""
        return self.program.type(value).dtype

    def trace(self, value: str) -> tuple[str, StridedView]:
        """(the value whose dense memory holds it, how it is seen there)."""
        producer = self.program.producers.get(value)
        shown = producer is not None and producer in self.nodes and is_view(producer)
        if producer is not None and shown and value not in self.made:
            source = producer.inputs[0]
            root, view = (source, StridedView.dense(self.shape(source)))
            if self.constant(source) is None:
                root, view = self.trace(source)
            found = viewed(self.program, producer, value, view)
            if found is not None:
                return root, found
            return source, StridedView.dense(self.shape(value))
        return value, StridedView.dense(self.shape(value))

    def match(self, term: Use, value: str) -> Match | None:
        """How tensor nodes make a value as a pattern says, if they do."""
        found = match(term, self.program, value)
        return found if isinstance(found, Match) and self.nodes.issuperset(found.nodes) else None

    def reader(self, value: str) -> Node | None:
        """The one node that reads a value, if nothing else does."""
        node = next(iter(self.program.consumers.get(value, ())), None)
        return node if self.program.uses(value) == 1 else None

    def read_as(self, term: Use, value: str) -> Match | None:
        """How the one node that reads a value, and tensor nodes before it, make another as a pattern says."""
        node = self.reader(value)
        return self.match(term, node.output) if node is not None else None


@dataclass
class Reads:
    """The sources and constants of one step, as they are asked for."""

    tensors: TensorOperands
    sources: list[str] = field(default_factory=list)
    _tables: list[Array] = field(default_factory=list)
    _places: dict[tuple[str, str], int] = field(default_factory=dict)

    def operand(self, value: str, shape: tuple[int, ...] | None = None) -> StridedOperand:
        """A value as an operand, broadcast to `shape`."""
        constant = self.tensors.constant(value)
        dtype = self.tensors.dtype(value)
        if constant is not None:
            view, source = self.table(value, constant), None
        else:
            root, view = self.tensors.trace(value)
            name = self.tensors.name(root)
            if name not in self.sources:
                self.sources.append(name)
            source = self.sources.index(name)
        return StridedOperand(source, view if shape is None else view.expanded(shape), dtype)

    def dense(self, value: str) -> StridedOperand:
        """A value row-major and without gaps."""
        if self.tensors.constant(value) is not None:
            return self.operand(value)
        name = self.tensors.name(value)
        if name not in self.sources:
            self.sources.append(name)
        view = StridedView.dense(self.tensors.shape(value))
        return StridedOperand(self.sources.index(name), view, self.tensors.dtype(value))

    def table(self, key: str, array: Array) -> StridedView:
        """Numbers among the step's constants."""
        place = (key, str(array.dtype))
        if place not in self._places:
            self._places[place] = sum(table.nbytes for table in self._tables)
            raw = np.ascontiguousarray(array).view(np.uint8).reshape(-1)
            self._tables.append(np.concatenate([raw, np.zeros(-len(raw) % _ALIGNMENT, np.uint8)]))
        view = StridedView.dense(array.shape)
        return StridedView(view.shape, view.strides, self._places[place] // array.itemsize)

    @property
    def constants(self) -> Array | None:
        """All tables, one after the other, as bytes."""
        return np.concatenate(self._tables) if self._tables else None
