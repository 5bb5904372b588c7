"""Nodes over images that are steps of their own: pools, joins, softmax, other shapes of the same."""

from __future__ import annotations

from collections.abc import Callable

from tensmith.backend.native.images import images_of
from tensmith.backend.native.steps.step import Join, Light, Rename, Step
from tensmith.errors import EngineError
from tensmith.ir import Node, Program
from tensmith.ir.handlers import Handlers
from tensmith.ir.ops.pooling import GlobalPool as GlobalPoolOp
from tensmith.ir.ops.pooling import Pool as PoolOp
from tensmith.ir.ops.pooling import Window
from tensmith.ir.ops.reduction import Reduction
from tensmith.ir.ops.sizes import as_ints
from tensmith.kernel.routine import Routine
from tensmith.kernel.routines.pool import GlobalPoolRoutine, Kind, PoolRoutine
from tensmith.kernel.routines.softmax import SoftmaxRoutine

_routines = Handlers[Callable[[Program, Node, int], "Routine | None"]]()


def alone(program: Program, node: Node, lanes: int) -> Step:
    """A node that stands alone."""
    if node.traits.renames:
        return Rename(node.inputs[0], node.output)
    if node.traits.joins and node.attrs["axis"] % len(program.type(node.output).dims) == 1:
        return Join(node.inputs, node.output)
    make = _routines.find(node)
    routine = make(program, node, lanes) if make else None
    if routine is None:
        raise EngineError(f"{node.label} has no native kernel yet; another engine runs it")
    return Light(routine, node.inputs[:1], node.output)


def _pooled(node: Node) -> Kind | None:
    """What kernels call that which a pool or reduction takes of its elements."""
    op = node.kind(PoolOp) or node.kind(GlobalPoolOp) or node.kind(Reduction)
    kinds: dict[str, Kind] = {"max": "max", "mean": "average"}
    return kinds.get(op.takes) if op else None


@_routines(GlobalPoolOp)
def _whole(program: Program, node: Node, lanes: int) -> Routine | None:
    kind = _pooled(node)
    return GlobalPoolRoutine(kind, lanes) if kind else None


@_routines(Reduction)
def _reduced(program: Program, node: Node, lanes: int) -> Routine | None:
    """Of images, over all positions."""
    rank = len(program.type(node.inputs[0]).dims)
    return _whole(program, node, lanes) if rank == 4 and _axes(program, node, rank) == (2, 3) else None


@_routines("softmax")
def _softmax(program: Program, node: Node, lanes: int) -> Routine | None:
    """Over channels."""
    rank = len(program.type(node.inputs[0]).dims)
    return SoftmaxRoutine(lanes) if node.attrs["axis"] % rank == 1 else None


@_routines(PoolOp)
def _pool(program: Program, node: Node, lanes: int) -> Routine | None:
    images = images_of(program, node.inputs[0])
    window = Window.of(node.attrs, images.extent)
    kind = _pooled(node)
    if kind is None or len(window.kernel) != 2 or len(node.outputs) > 1:
        return None
    begins, padded = as_ints(window.begins), as_ints(window.padded)
    strides, dilations = as_ints(window.strides), as_ints(window.dilations)
    return PoolRoutine(
        kind,
        (window.kernel[0], window.kernel[1]),
        (strides[0], strides[1]),
        (begins[0], begins[1]),
        lanes,
        (dilations[0], dilations[1]),
        (padded[0], padded[1]) if node.attrs.get("count_include_pad") else None,
    )


def _axes(program: Program, node: Node, rank: int) -> tuple[int, ...]:
    axes = program.constants.get(node.inputs[1]) if len(node.inputs) > 1 else None
    return tuple(sorted(int(axis) % rank for axis in axes.reshape(-1))) if axes is not None else ()
