"""Nodes that only say which elements stand where, as views of what they read."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from tensmith.backend.native.steps.step import Array
from tensmith.errors import EngineError
from tensmith.ir import Node, Program
from tensmith.ir.handlers import Handlers
from tensmith.kernel.view import StridedView

# (program, node, its output, what it reads as a view) -> the output as a view of the same memory, or None
# where no strides say that. What only renames is another shape of the same.
_views = Handlers[Callable[[Program, Node, str, StridedView], "StridedView | None"]]()


def is_view(node: Node) -> bool:
    """Whether a node only says which elements stand where."""
    return node.traits.renames or _views.has(node)


def viewed(program: Program, node: Node, output: str, source: StridedView) -> StridedView | None:
    """`output` of such a node as a view of what `source` is one of; None where no strides say that."""
    view = _views.find(node)
    return view(program, node, output, source) if view else source.reshaped(shape_of(program, output))


@_views("expand")
def _expand(program: Program, node: Node, output: str, source: StridedView) -> StridedView | None:
    return source.expanded(shape_of(program, output))


@_views("transpose")
def _transpose(program: Program, node: Node, output: str, source: StridedView) -> StridedView | None:
    return source.transposed(node.attrs["perm"] or range(len(source.shape))[::-1])


@_views("split")
def _split(program: Program, node: Node, output: str, source: StridedView) -> StridedView | None:
    shape = shape_of(program, output)
    axis = node.attrs["axis"] % len(shape)
    before = node.outputs[: node.outputs.index(output)]
    start = sum(shape_of(program, name)[axis] for name in before)
    starts = [start if a == axis else 0 for a in range(len(shape))]
    return source.sliced(starts, [1] * len(shape), shape)


@_views("slice")
def _slice(program: Program, node: Node, output: str, source: StridedView) -> StridedView | None:
    starts, steps = slice_of(program, node, source.shape)
    return source.sliced(starts, steps, shape_of(program, output))


def slice_of(program: Program, node: Node, shape: tuple[int, ...]) -> tuple[list[int], list[int]]:
    """(starts, steps) of a slice along every axis; EngineError where they are computed."""
    bounds = [ints(program, node, index) for index in (1, 2, 3, 4)]
    begins, ends = bounds[0] or [], bounds[1] or []
    axes = bounds[2] if bounds[2] is not None else list(range(len(begins)))
    given = bounds[3] or [1] * len(begins)
    starts, steps = [0] * len(shape), [1] * len(shape)
    for axis, begin, end, step in zip(axes, begins, ends, given):
        starts[axis], _, steps[axis] = slice(begin, end, step).indices(shape[axis])
    return starts, steps


def ints(program: Program, node: Node, index: int) -> list[int] | None:
    """The whole numbers of a constant input; None if it is left out, EngineError if it is computed."""
    if len(node.inputs) <= index or not node.inputs[index]:
        return None
    constant: Array | None = program.constants.get(node.inputs[index])
    if constant is None:
        raise EngineError(f"'{node.output}' has computed bounds, for which there is no native kernel")
    return [int(item) for item in np.asarray(constant).reshape(-1)]


def shape_of(program: Program, value: str) -> tuple[int, ...]:
    """The fixed shape of a value; EngineError if a size is a symbol."""
    shape = program.type(value).static
    if shape is None:
        raise EngineError(
            f"'{value}' has the symbolic shape {program.type(value)}; the native engine needs fixed sizes"
        )
    return shape
