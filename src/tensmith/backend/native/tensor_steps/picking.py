"""Steps for ops that choose elements by value or by computed subscripts, and for resizing and padding."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping

import numpy as np

from tensmith.backend.native.steps import Array
from tensmith.backend.native.tensor_steps.operands import Reads, Tensors
from tensmith.formula.arith import Floats
from tensmith.ir import Node
from tensmith.ir.op import Run
from tensmith.ir.ops.resize import axis_maps, coordinates, nearest, resized_axes, weights
from tensmith.ir.ops.sizes import as_ints
from tensmith.ir.ops.slicing import full_pads
from tensmith.kernel.routine import Routine
from tensmith.kernel.routines.extremes import Extremes
from tensmith.kernel.routines.pick import PickElements, PickSlices
from tensmith.kernel.routines.resample import Pass, Resample, tables
from tensmith.kernel.routines.scatter import Scatter

_WHOLE = ("i64", "i32")


def extremes(tensors: Tensors, reads: Reads, node: Node, output: str) -> Extremes | None:
    """arg_max, arg_min, and both outputs of top_k."""
    shape = tensors.shape(node.inputs[0])
    axis = node.attrs["axis"] % len(shape)
    sizes = (math.prod(shape[:axis]), shape[axis], math.prod(shape[axis + 1 :]))
    source = reads.dense(node.inputs[0])
    if node.op != "top_k":
        last = bool(node.attrs["select_last_index"])
        return Extremes(source, *sizes, 1, node.op == "arg_max", True, last)
    count = tensors.number(node.inputs[1])
    if count is None or not 0 < count <= shape[axis]:
        return None
    largest = bool(node.attrs["largest"])
    return Extremes(source, *sizes, int(count), largest, output in node.outputs[1:], sorted_nan=not largest)


def pick(tensors: Tensors, reads: Reads, node: Node, output: str) -> PickElements | PickSlices | None:
    """gather_elements and gather_nd."""
    table, indices = map(reads.dense, node.inputs)
    if indices.dtype not in _WHOLE:
        return None
    if node.op == "gather_nd":
        return PickSlices(table, indices, node.attrs["batch_dims"])
    return PickElements(table, indices, node.attrs["axis"] % len(table.view.shape))


def scatter(tensors: Tensors, reads: Reads, node: Node, output: str) -> Scatter | None:
    """scatter_elements and scatter_nd."""
    table, indices, updates = map(reads.dense, node.inputs)
    if indices.dtype not in _WHOLE:
        return None
    axis = node.attrs["axis"] % len(table.view.shape) if node.op == "scatter_elements" else None
    return Scatter(table, indices, updates, axis, node.attrs["reduction"])


def resample(tensors: Tensors, reads: Reads, node: Node, output: str) -> Resample | None:
    """resize of floats by constant scales or sizes; the tables of each axis become constants."""
    shape, attrs = tensors.shape(node.inputs[0]), node.attrs
    given = [tensors.constant(name) if name else None for name in node.inputs[1:]]
    if tensors.dtype(output) != "f32" or any(n and g is None for n, g in zip(node.inputs[1:], given)):
        return None
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


def pad(tensors: Tensors, reads: Reads, node: Node, output: str) -> Resample | None:
    """pad of floats by constant sizes, in every mode."""
    shape = tensors.shape(node.inputs[0])
    given = [tensors.constant(name) if name else None for name in (*node.inputs[1:], "", "")[:3]]
    fill = tensors.number(node.inputs[2]) if given[1] is not None else 0.0
    missing = any(name and table is None for name, table in zip(node.inputs[1:], given))
    if tensors.dtype(output) != "f32" or missing or fill is None:
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
) -> Resample:
    """One pass an axis; its tables become constants."""
    parts, passes, words = [], [], 0
    for axis, matrix in matrices or [(0, np.arange(shape[0]))]:
        parts.append(tables(matrix))
        taps = int(np.count_nonzero(matrix)) if matrix.ndim > 1 else None
        passes.append(Pass(axis, shape[axis], len(matrix), taps, words))
        words += len(parts[-1])
    reads.table(f"{node.output} taps", np.concatenate(parts))
    return Resample(reads.dense(node.inputs[0]), shape, tuple(passes), fill)


PICKING: Mapping[str, Callable[[Tensors, Reads, Node, str], Routine | None]] = {
    "arg_max": extremes,
    "arg_min": extremes,
    "top_k": extremes,
    "gather_elements": pick,
    "gather_nd": pick,
    "scatter_elements": scatter,
    "scatter_nd": scatter,
    "resize": resample,
    "pad": pad,
}
