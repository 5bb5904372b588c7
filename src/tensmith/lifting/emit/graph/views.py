"""Boxes of arrays read out of, and written into, whole arrays by nodes of a graph.

A box that is dense in memory is a slice under another shape; a box of nested memory is a slice an axis;
anything else picks its elements by their positions.
"""

from __future__ import annotations

from collections.abc import Sequence

from tensmith.formula.poly import Dim, Poly, product
from tensmith.lifting.emit.graph.build import Graph
from tensmith.lifting.emit.graph.kernels import one_more
from tensmith.lifting.lifted import ArrayView

_ZERO = Poly.of(0)


def read(graph: Graph, array: str, view: ArrayView) -> str:
    """The elements of a view, in its shape."""
    if len(view.offset) == 1:
        order = view.run
        if order is None:
            return graph.op("gather", [array, _flat_positions(graph, view)], {"axis": 0})
        count = Poly.of(product(view.shape))
        part = graph.slice(array, 0, view.offset[0], view.offset[0] + count)
        shaped = graph.reshape(part, [view.shape[axis] for axis in order]) if len(order) != 1 else part
        if order == tuple(range(len(order))):
            return shaped
        return graph.op("transpose", [shaped], {"perm": tuple(order.index(a) for a in range(len(order)))})
    if not view.corner:
        return graph.op("gather_nd", [array, _positions(graph, view)])
    for axis, (offset, extent) in enumerate(zip(view.offset, view.shape)):
        array = graph.slice(array, axis, offset, offset + extent)
    return array


def read_what_is_there(graph: Graph, array: str, view: ArrayView, dtype: str) -> str:
    """The elements of a view in its shape, anything in the place of those that lie outside of the array."""
    axes = len(view.offset)
    padded = one_more(graph, array, dtype, [1] * axes)  # so that no axis is empty
    shape = graph.op("shape", [array])
    if axes == 1:
        last = graph.op("squeeze", [shape, graph.const([0])])
        return graph.op("gather", [padded, _clipped(graph, _flat_positions(graph, view), last)], {"axis": 0})
    return graph.op("gather_nd", [padded, _clipped(graph, _positions(graph, view), shape)])


def _clipped(graph: Graph, positions: str, last: str) -> str:
    """Positions from 0 to `last`."""
    return graph.op("min", [graph.op("max", [positions, graph.const(0)]), last])


def write(graph: Graph, array: str, view: ArrayView, value: str) -> str:
    """The whole array with a view replaced."""
    if view.run == tuple(range(len(view.shape))):
        count = Poly.of(product(view.shape))
        flat = graph.reshape(value, [count]) if len(view.shape) != 1 else value
        return _between(graph, array, flat, 0, view.offset[0], count)
    if len(view.offset) > 1 and view.corner:
        return _into_box(graph, array, view, value)
    if len(view.offset) == 1:
        position = graph.reshape(_flat_positions(graph, view), [*view.shape, 1])
        return graph.op("scatter_nd", [array, position, value])
    return graph.op("scatter_nd", [array, _positions(graph, view), value])


def _between(graph: Graph, array: str, value: str, axis: int, start: Poly, count: Poly) -> str:
    """The array's head, the value, and the array's tail along an axis."""
    head = [] if start == 0 else [graph.slice(array, axis, _ZERO, start)]
    tail = graph.slice(array, axis, start + count, None)
    return graph.op("concat", [*head, value, tail], {"axis": axis})


def _into_box(graph: Graph, array: str, view: ArrayView, value: str) -> str:
    """Axis by axis from the last: the value grows to the array's full extent."""
    for axis in reversed(range(len(view.shape))):
        around = array
        for before in range(axis):
            offset = view.offset[before]
            around = graph.slice(around, before, offset, offset + view.shape[before])
        value = _between(graph, around, value, axis, view.offset[axis], view.shape[axis])
    return value


def _flat_positions(graph: Graph, view: ArrayView) -> str:
    """The position of every element of a view of flat memory, in the view's shape."""
    return _along(graph, view.offset[0], view.steps[0], view.shape)


def _along(graph: Graph, offset: Poly, steps: Sequence[Poly], shape: Sequence[Dim]) -> str:
    """offset + sum(step * index), over all indices of a shape."""
    total = graph.size(offset)
    for axis, step in enumerate(steps):
        if step == 0:
            continue
        index = graph.range(shape[axis])
        scaled = index if step == 1 else graph.op("mul", [index, graph.size(step)])
        behind = len(shape) - axis - 1
        if behind:
            scaled = graph.op("unsqueeze", [scaled, graph.const(list(range(1, behind + 1)))])
        total = graph.op("add", [total, scaled])
    return graph.op("expand", [total, graph.vector(shape)]) if shape else total


def _positions(graph: Graph, view: ArrayView) -> str:
    """The subscripts of every element of a view of nested memory, one a last axis."""
    parts = []
    for offset, steps in zip(view.offset, view.steps):
        along = _along(graph, offset, steps, view.shape)
        parts.append(graph.op("unsqueeze", [along, graph.const([len(view.shape)])]))
    return graph.op("concat", parts, {"axis": len(view.shape)})
