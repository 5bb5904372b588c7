"""Routines for ops that choose elements by value or subscript, run along an axis, resize and pad."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TypeAlias

import numpy as np

from tensmith.backend.native.steps.graph import StepGraph
from tensmith.backend.native.steps.operands import Reads
from tensmith.formula.arith import Array, Floats
from tensmith.ir import Node
from tensmith.ir.handlers import Handlers
from tensmith.ir.op import Run
from tensmith.ir.ops.cumulative import Cumulative
from tensmith.ir.ops.reduction import ArgExtreme
from tensmith.ir.ops.resize import axis_maps, coordinates, nearest, resized_axes, weights
from tensmith.ir.ops.sizes import as_ints
from tensmith.ir.ops.slicing import full_pads
from tensmith.kernel.routine import Routine
from tensmith.kernel.routines.extremes import Extremes
from tensmith.kernel.routines.pick import PickElements, PickSlices
from tensmith.kernel.routines.resample import Resample, ResampleAxis, tables
from tensmith.kernel.routines.running import Running
from tensmith.kernel.routines.scatter import ScatterRoutine
from tensmith.kernel.routines.take import Take

_WHOLE = ("i64", "i32")

# (graph, what the routine reads, node, its output) -> the routine that makes it; None if there is none.
Maker: TypeAlias = "Callable[[StepGraph, Reads, Node, str], Routine | None]"
routines = Handlers[Maker]()


def sizes_around(graph: StepGraph, node: Node) -> tuple[int, int, int]:
    """Elements before, along and behind the axis of a node."""
    return sizes_along(graph.shapes[node.inputs[0]], node.attrs["axis"])


def sizes_along(shape: tuple[int, ...], axis: int) -> tuple[int, int, int]:
    """Elements of a tensor before, along and behind an axis."""
    axis %= len(shape)
    return math.prod(shape[:axis]), shape[axis], math.prod(shape[axis + 1 :])


@routines("arg_max", "arg_min")
def arg_extreme(graph: StepGraph, reads: Reads, node: Node, output: str) -> Extremes | None:
    """Positions along an axis."""
    op = node.kind(ArgExtreme)
    last = bool(node.attrs["select_last_index"])
    sizes = sizes_around(graph, node)
    return Extremes(reads.dense(node.inputs[0]), *sizes, 1, op.largest, True, last) if op else None


@routines("cum_sum", "cum_prod")
def running(graph: StepGraph, reads: Reads, node: Node, output: str) -> Running | None:
    """Along a constant axis."""
    op, axis = node.kind(Cumulative), graph.constants.number(node.inputs[1])
    if op is None or axis is None or graph.dtypes[output] not in ("f32", *_WHOLE):
        return None
    sizes = sizes_along(graph.shapes[output], int(axis))
    exclusive, backwards = (bool(node.attrs[name]) for name in ("exclusive", "reverse"))
    return Running(reads.dense(node.inputs[0]), *sizes, op.kind == "prod", exclusive, backwards)


@routines("top_k")
def top_k(graph: StepGraph, reads: Reads, node: Node, output: str) -> Extremes | None:
    """Either output."""
    source, sizes = reads.dense(node.inputs[0]), sizes_around(graph, node)
    count = graph.constants.number(node.inputs[1])
    if count is None or not 0 < count <= sizes[1]:
        return None
    largest = bool(node.attrs["largest"])
    return Extremes(source, *sizes, int(count), largest, output in node.outputs[1:], sorted_nan=not largest)


@routines("gather")
def take(graph: StepGraph, reads: Reads, node: Node, output: str) -> Take | None:
    """Along an axis, slices."""
    table, indices = map(reads.dense, node.inputs)
    return Take(table, indices, *sizes_around(graph, node)) if indices.dtype in _WHOLE else None


@routines("gather_elements")
def pick_elements(graph: StepGraph, reads: Reads, node: Node, output: str) -> PickElements | None:
    """Along an axis."""
    table, indices = map(reads.dense, node.inputs)
    if indices.dtype not in _WHOLE:
        return None
    return PickElements(table, indices, node.attrs["axis"] % len(table.view.shape))


@routines("gather_nd")
def pick_slices(graph: StepGraph, reads: Reads, node: Node, output: str) -> PickSlices | None:
    """Of the last axes."""
    table, indices = map(reads.dense, node.inputs)
    return PickSlices(table, indices, node.attrs["batch_dims"]) if indices.dtype in _WHOLE else None


@routines("scatter_elements", "scatter_nd")
def scatter(graph: StepGraph, reads: Reads, node: Node, output: str) -> ScatterRoutine | None:
    """Along an axis, or of slices."""
    table, indices, updates = map(reads.dense, node.inputs)
    if indices.dtype not in _WHOLE:
        return None
    axis = node.attrs["axis"] % len(table.view.shape) if "axis" in node.attrs else None
    return ScatterRoutine(table, indices, updates, axis, node.attrs["reduction"])


@routines("resize")
def resample(graph: StepGraph, reads: Reads, node: Node, output: str) -> Resample | None:
    """resize of floats by constant scales or sizes; the tables of each axis become constants."""
    shape, attrs = graph.shapes[node.inputs[0]], node.attrs
    if graph.dtypes[output] != "f32" or not node.fixed_by(graph.constants):
        return None
    given = [graph.constants.get(name) for name in node.inputs[1:]]
    hollow = np.broadcast_to(np.float32(0), shape)
    maps = axis_maps(Run(attrs, (hollow, *given), (), ()), Floats())
    matrices: list[tuple[int, Array]] = []
    for axis, part in zip(resized_axes(attrs, len(shape)), maps):
        size, kept = shape[axis], part.out == shape[axis] and part.scale == 1
        if kept and (part.start, part.end) == (0, 1):
            continue
        at = coordinates(attrs["coordinate_transformation_mode"], part, size)
        outside = attrs["coordinate_transformation_mode"] == "tf_crop_and_resize"
        outside = ((at < 0) | (at > size - 1)) & outside
        if attrs["mode"] == "nearest":
            matrix = np.where(outside, -1, nearest(attrs["nearest_mode"], at, size))
        else:
            matrix = np.where(outside[:, None], 0, weights(attrs, at, size, part.scale))
        matrices.append((axis, matrix))
    return _passes(reads, node, shape, matrices, attrs["extrapolation_value"])


@routines("pad")
def pad(graph: StepGraph, reads: Reads, node: Node, output: str) -> Resample | None:
    """pad of floats by constant sizes, in every mode."""
    shape = graph.shapes[node.inputs[0]]
    given = [graph.constants.get(name) for name in node.operands(4)[1:]]
    fill = graph.constants.number(node.inputs[2]) if given[1] is not None else 0.0
    if graph.dtypes[output] != "f32" or not node.fixed_by(graph.constants) or fill is None:
        return None
    before, after = map(as_ints, full_pads(len(shape), given[0], given[2]))
    if min(*before, *after) < 0:
        return None
    how = {"mode": node.attrs["mode"]} | ({"constant_values": -1} if node.attrs["mode"] == "constant" else {})
    places = [
        (axis, np.pad(np.arange(size), sides, **how))
        for axis, (size, sides) in enumerate(zip(shape, zip(before, after)))
        if any(sides)
    ]
    return _passes(reads, node, shape, places, fill)


def _passes(
    reads: Reads, node: Node, shape: tuple[int, ...], matrices: list[tuple[int, Array]], fill: float
) -> Resample | None:
    """One pass an axis; its tables become constants. None where the result is not as large as inferred."""
    made = dict(enumerate(shape)) | {axis: len(matrix) for axis, matrix in matrices}
    if tuple(made.values()) != reads.graph.shapes[node.output]:
        return None
    parts, passes, words = [], [], 0
    for axis, matrix in matrices or [(0, np.arange(shape[0]))]:
        parts.append(tables(matrix))
        taps = int(np.count_nonzero(matrix)) if matrix.ndim > 1 else None
        passes.append(ResampleAxis(axis, shape[axis], len(matrix), taps, words))
        words += len(parts[-1])
    reads.table(np.concatenate(parts))
    return Resample(reads.dense(node.inputs[0]), shape, tuple(passes), fill)
