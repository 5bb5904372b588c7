"""What steps of tensors read: values traced back through views to dense memory, and constants."""

from __future__ import annotations

from collections.abc import Set
from dataclasses import dataclass, field, replace

import numpy as np

from tensmith.backend.native.steps.graph import StepGraph
from tensmith.backend.native.steps.views import is_view, viewed
from tensmith.formula.arith import Array
from tensmith.ir import Node
from tensmith.kernel.buffer import ALIGNMENT
from tensmith.kernel.routines.strided import StridedOperand
from tensmith.kernel.view import StridedView

# The nodes that no step computes yet.
Free = Set[Node]


def traced(graph: StepGraph, value: str) -> tuple[str, StridedView]:
    """(the value whose dense memory holds another, how it is seen there)."""
    producer = graph.program.producers.get(value)
    if producer is None or producer not in graph.tensors or not is_view(producer) or value in graph.made:
        return value, StridedView.dense(graph.shapes[value])
    source = producer.inputs[0]
    root, view = source, StridedView.dense(graph.shapes[source])
    if source not in graph.constants:
        root, view = traced(graph, source)
    found = viewed(graph, producer, value, view)
    return (source, StridedView.dense(graph.shapes[value])) if found is None else (root, found)


@dataclass
class Reads:
    """The sources and constants of one step, as they are asked for."""

    graph: StepGraph
    sources: list[str] = field(default_factory=list)
    _tables: list[Array] = field(default_factory=list)
    _constants: dict[str, StridedView] = field(default_factory=dict)

    def operand(self, value: str, shape: tuple[int, ...] | None = None) -> StridedOperand:
        """A value as an operand, broadcast to `shape`."""
        constant = self.graph.constants.get(value)
        dtype = self.graph.dtypes[value]
        if constant is not None:
            if value not in self._constants:
                self._constants[value] = self.table(constant)
            found = StridedOperand(None, self._constants[value], dtype)
        else:
            found = self.seen(*traced(self.graph, value), dtype)
        return found if shape is None else replace(found, view=found.view.expanded(shape))

    def seen(self, root: str, view: StridedView, dtype: str) -> StridedOperand:
        """A view of a value's dense memory as an operand."""
        name = self.graph.names[root]
        if name not in self.sources:
            self.sources.append(name)
        return StridedOperand(self.sources.index(name), view, dtype)

    def matrix(self, value: str, leading: tuple[int, ...]) -> StridedOperand:
        """An operand of a batched product, the leading axes broadcast."""
        return self.operand(value, (*leading, *self.graph.shapes[value][-2:]))

    def dense(self, value: str) -> StridedOperand:
        """A value row-major and without gaps."""
        if self.graph.constants.get(value) is not None:
            return self.operand(value)
        return self.seen(value, StridedView.dense(self.graph.shapes[value]), self.graph.dtypes[value])

    def table(self, array: Array) -> StridedView:
        """Numbers put among the step's constants."""
        place = sum(table.nbytes for table in self._tables)
        raw = np.ascontiguousarray(array).view(np.uint8).reshape(-1)
        self._tables.append(np.concatenate([raw, np.zeros(-len(raw) % ALIGNMENT, np.uint8)]))
        return replace(StridedView.dense(array.shape), offset=place // array.itemsize)

    @property
    def constants(self) -> Array | None:
        """All tables, one after the other, as bytes."""
        return np.concatenate(self._tables) if self._tables else None
