"""Nodes that only say which elements stand where, as views of what they read."""

from __future__ import annotations

import math
from collections.abc import Callable

from tensmith.backend.native.steps.graph import StepGraph
from tensmith.errors import EngineError
from tensmith.ir import Node
from tensmith.ir.handlers import Handlers
from tensmith.ir.ops.slicing import python_slice
from tensmith.kernel.view import StridedView

# (graph, node, its output, what it reads as a view) -> the output as a view of the same memory, or None
# where no strides say that. What only renames is another shape of the same.
_views = Handlers[Callable[[StepGraph, Node, str, StridedView], "StridedView | None"]]()


def is_view(node: Node) -> bool:
    """Whether a node only says which elements stand where."""
    return node.traits.renames or _views.has(node)


def viewed(graph: StepGraph, node: Node, output: str, source: StridedView) -> StridedView | None:
    """`output` of such a node as a view of what `source` is one of; None where no strides say that."""
    view, shape = _views.find(node), graph.shapes[output]
    if view:
        return view(graph, node, output, source)
    if math.prod(shape) != source.size:
        raise EngineError(f"{node.label} makes {list(shape)} of {source.size} elements")
    return source.reshaped(shape)


@_views("expand")
def _expand(graph: StepGraph, node: Node, output: str, source: StridedView) -> StridedView | None:
    return source.expanded(graph.shapes[output])


@_views("transpose")
def _transpose(graph: StepGraph, node: Node, output: str, source: StridedView) -> StridedView | None:
    return source.transposed(node.attrs["perm"] or range(len(source.shape))[::-1])


@_views("split")
def _split(graph: StepGraph, node: Node, output: str, source: StridedView) -> StridedView | None:
    shape = graph.shapes[output]
    axis = node.attrs["axis"] % len(shape)
    before = node.outputs[: node.outputs.index(output)]
    if "" in before:
        raise EngineError(f"{node.label} leaves a part out, for which there is no native kernel")
    start = sum(graph.shapes[name][axis] for name in before)
    starts = [start if a == axis else 0 for a in range(len(shape))]
    return source.sliced(starts, [1] * len(shape), shape)


@_views("slice")
def _slice(graph: StepGraph, node: Node, output: str, source: StridedView) -> StridedView | None:
    found = slice_of(graph, node)
    if found is None:
        raise EngineError(f"'{node.output}' has computed bounds, for which there is no native kernel")
    return source.sliced(*found, graph.shapes[output])


def slice_of(graph: StepGraph, node: Node) -> tuple[list[int], list[int]] | None:
    """(starts, steps) of a slice along every axis; None where they are computed."""
    shape = graph.shapes[node.inputs[0]]
    if not node.fixed_by(graph.constants):
        return None
    begins, ends, axes, given = (ints(graph, node, index) for index in (1, 2, 3, 4))
    starts, steps = [0] * len(shape), [1] * len(shape)
    begins, ends = begins or [], ends or []
    axes = list(range(len(begins))) if axes is None else axes
    for axis, begin, end, step in zip(axes, begins, ends, given or [1] * len(begins)):
        starts[axis], _, steps[axis] = python_slice(shape[axis], begin, end, step).indices(shape[axis])
    return starts, steps


def ints(graph: StepGraph, node: Node, index: int) -> list[int] | None:
    """The whole numbers of a constant input; None if it is left out or computed."""
    constant = graph.constants.get(node.operand(index))
    return None if constant is None else [int(item) for item in constant.reshape(-1)]
