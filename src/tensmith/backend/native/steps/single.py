"""Nodes that are steps of their own: pools, joins, softmax, products, reductions, views made dense."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace

from tensmith.backend.native.images import PositionWindow, rows_of
from tensmith.backend.native.steps.attention import narrowed
from tensmith.backend.native.steps.by_formula import by_formula
from tensmith.backend.native.steps.graph import StepGraph, not_held
from tensmith.backend.native.steps.operands import Reads, traced
from tensmith.backend.native.steps.picking import routines, sizes_around
from tensmith.backend.native.steps.step import Dense, Join, Light, Rename, Step
from tensmith.backend.native.steps.views import is_view
from tensmith.errors import EngineError
from tensmith.formula.expr import Read
from tensmith.formula.types import MachineType
from tensmith.ir import Node
from tensmith.ir.handlers import Handlers
from tensmith.ir.ops.pooling import GlobalPool, Pool, Window
from tensmith.ir.ops.reduction import Reduction
from tensmith.ir.ops.resize import repeats_elements
from tensmith.ir.ops.sizes import as_ints
from tensmith.kernel.routine import Routine
from tensmith.kernel.routines.attention import AttentionRoutine
from tensmith.kernel.routines.columns import ColumnSoftmax
from tensmith.kernel.routines.pool import GlobalPoolRoutine, Kind, PoolRoutine
from tensmith.kernel.routines.reduce import RowSums
from tensmith.kernel.routines.repeat import Repeat
from tensmith.kernel.routines.rows import RowSoftmax
from tensmith.kernel.routines.strided import Strided, StridedStatement
from tensmith.kernel.view import StridedView

_of_images = Handlers[Callable[[StepGraph, Node], "Routine | None"]]()
_POOLS: dict[str, Kind] = {"max": "max", "mean": "average"}


def over_images(graph: StepGraph, node: Node) -> Step | None:
    """A node of images that stands alone; None if there is no kernel for it."""
    seen = [graph.images.get(name) for name in (node.inputs[0], node.output)]
    if None in seen or len(node.outputs) > 1:
        return None
    if node.traits.renames:
        return Rename(node.inputs[0], node.output)
    if node.traits.joins:
        return _join(graph, node)
    make = _of_images.find(node)
    routine = make(graph, node) if make else None
    return Light(routine, node.inputs[:1], node.output) if routine else None


def _join(graph: StepGraph, node: Node) -> Join | None:
    """Images joined along channels, or along rows or columns unless one lies dense under another shape."""
    axis = node.attrs["axis"] % len(graph.shapes[node.output])
    makers = [graph.program.producers.get(name) for name in node.inputs]
    if not axis or any(name in graph.constants or name not in graph.images for name in node.inputs):
        return None
    if axis == 1:
        return Join(node.inputs, node.output)
    if any(maker is None or maker.traits.renames for maker in makers):
        return None
    places, (top, left) = [], (0, 0)
    for name in node.inputs:
        height, width = graph.images[name].extent
        places.append(PositionWindow(top, height, left, width))
        along_rows = axis == 2 and len(graph.shapes[name]) == 4
        top, left = (top + height, 0) if along_rows else (0, left + width)
    return Join(node.inputs, node.output, tuple(places))


@_of_images(GlobalPool)
def _whole(graph: StepGraph, node: Node) -> Routine | None:
    op = node.kind(GlobalPool) or node.kind(Reduction)
    kind = _POOLS.get(op.takes) if op and graph.dtypes[node.inputs[0]] == "f32" else None
    return GlobalPoolRoutine(kind, graph.isa.lanes) if kind else None


def pooled_codes(graph: StepGraph, node: Node, maker: Node) -> Step | None:
    """A pool of whole images that reads the codes that `maker` decodes for it alone; None if it is none."""
    make, grid = _of_images.find(node), graph.parameters.get(maker)
    routine = make(graph, node) if make and maker.inputs[0] in graph.images else None
    if grid is None or not isinstance(routine, GlobalPoolRoutine):
        return None
    return Light(replace(routine, grid=grid), maker.inputs[:1], node.output)


@_of_images(Reduction)
def _over_space(graph: StepGraph, node: Node) -> Routine | None:
    axes = graph.constants.get(node.operand(1))
    over = None if axes is None else sorted(int(axis) % 4 for axis in axes.reshape(-1))
    return _whole(graph, node) if len(graph.shapes[node.inputs[0]]) == 4 and over == [2, 3] else None


@_of_images(Pool)
def _pool(graph: StepGraph, node: Node) -> Routine | None:
    kind = _POOLS.get(node.surely(Pool).takes)
    if kind is None or len(node.attrs["kernel_shape"]) != 2:
        return None
    window = Window.of(node.attrs, graph.images[node.inputs[0]].extent)
    begins, padded = as_ints(window.begins), as_ints(window.padded)
    strides, dilations = as_ints(window.strides), as_ints(window.dilations)
    return PoolRoutine(
        kind,
        (window.kernel[0], window.kernel[1]),
        (strides[0], strides[1]),
        (begins[0], begins[1]),
        graph.isa.lanes,
        (dilations[0], dilations[1]),
        (padded[0], padded[1]) if node.attrs.get("count_include_pad") else None,
    )


@_of_images("resize")
def _enlarged(graph: StepGraph, node: Node) -> Routine | None:
    before, after = (graph.shapes[name] for name in (node.inputs[0], node.output))
    if len(before) != 4 or before[:2] != after[:2] or not node.fixed_by(graph.constants):
        return None
    if not repeats_elements(node, before, after, graph.constants):
        return None
    return Repeat((after[2] // before[2], after[3] // before[3]))


def over_tensors(graph: StepGraph, node: Node, output: str) -> Step:
    """The step that makes one output of a node of tensors; EngineError if there is no native kernel."""
    if is_view(node):
        return written(graph, output)
    reads = Reads(graph)
    make = routines.find(node)
    routine = make(graph, reads, node, output) if make else None
    if routine is None:
        reads = Reads(graph)
        routine = by_formula(graph, reads, node, output)
    if routine is None:
        raise EngineError(f"{node.label} has no native kernel yet; another engine runs it")
    return Dense(routine, tuple(reads.sources), graph.names[output], reads.constants)


def written(graph: StepGraph, value: str) -> Step:
    """A view or a constant as a dense tensor of its own, for those who cannot read it where it lies.

    EngineError if native memory holds no such tensor.
    """
    if rows_of(graph.program.type(value)) is None:
        raise not_held(value, graph.program.type(value))
    root, view = traced(graph, value)
    name = graph.names[value]
    whole = view.is_dense and view.size == math.prod(graph.shapes[root])
    if whole and root not in graph.constants:
        return Rename(graph.names[root], name)
    reads = Reads(graph)
    dtype = graph.dtypes[value]
    same = "{0}" if dtype == "f32" else Read("0", (), MachineType(dtype))
    part = StridedStatement(same, (reads.operand(value),), StridedView.dense(view.shape))
    return Dense(Strided((part,), graph.isa.lanes, dtype), tuple(reads.sources), name, reads.constants)


@routines("softmax")
def _softmax(graph: StepGraph, reads: Reads, node: Node, output: str) -> Routine | None:
    rank, (outer, size, inner) = len(graph.shapes[output]), sizes_around(graph, node)
    reads.dense(node.inputs[0])
    if node.attrs["axis"] % rank == rank - 1:
        return RowSoftmax(outer, size, graph.isa.lanes)
    return ColumnSoftmax(outer, size, inner, graph.isa.lanes)


@routines("matmul")
def _product(graph: StepGraph, reads: Reads, node: Node, output: str) -> Routine | None:
    shape = graph.shapes[output]
    if min(len(graph.shapes[name]) for name in node.inputs) < 2:
        return None
    a, b = (reads.matrix(name, shape[:-2]) for name in node.inputs)
    if {a.dtype, b.dtype} != {"f32"}:
        return None
    return narrowed(graph, AttentionRoutine(a, b, None, None, StridedView.dense(shape), 1.0, graph.isa))


@routines(Reduction)
def _sums(graph: StepGraph, reads: Reads, node: Node, output: str) -> Routine | None:
    takes = node.surely(Reduction).takes
    if takes not in ("sum", "mean"):
        return None
    operand = reads.operand(node.inputs[0])
    rank = len(operand.view.shape)
    axes = list(range(rank))
    if node.operand(1):
        given = graph.constants.get(node.inputs[1])
        if given is None:
            return None
        axes = sorted({int(axis) % rank for axis in given.reshape(-1)})
    if not axes or operand.dtype != "f32" or (len(axes) == rank and node.attrs["noop_with_empty_axes"]):
        return None
    view = operand.view.transposed([axis for axis in range(rank) if axis not in axes] + axes)
    fits = RowSums.fits(view, len(axes))
    return RowSums(replace(operand, view=view), len(axes), takes == "mean") if fits else None
