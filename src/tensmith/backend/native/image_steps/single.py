"""Nodes over images that are steps of their own: pools, joins, softmax, other shapes of the same."""

from __future__ import annotations

from tensmith.backend.native.images import images_of
from tensmith.backend.native.steps import Join, Light, Rename, Step
from tensmith.backend.native.views import RESHAPING
from tensmith.errors import EngineError
from tensmith.ir import Node, Program
from tensmith.ir.ops.pooling import Window
from tensmith.ir.ops.sizes import as_ints
from tensmith.kernel.routines.pool import GlobalPool, Pool
from tensmith.kernel.routines.softmax import Softmax


def alone(program: Program, node: Node, lanes: int) -> Step:
    """A node that stands alone."""
    source = node.inputs[0] if node.inputs else ""
    if node.op in RESHAPING:
        return Rename(source, node.output)
    if node.op == "concat" and node.attrs["axis"] % len(program.type(node.output).dims) == 1:
        return Join(node.inputs, node.output)
    if node.op in ("max_pool", "average_pool"):
        return Light(_pool(program, node, lanes), (source,), node.output)
    rank = len(program.type(source).dims) if source else 0
    if node.op in ("global_average_pool", "global_max_pool"):
        pool = GlobalPool("max" if node.op == "global_max_pool" else "average", lanes)
        return Light(pool, (source,), node.output)
    if node.op in ("reduce_mean", "reduce_max") and rank == 4 and _axes(program, node, rank) == (2, 3):
        return Light(
            GlobalPool("max" if node.op == "reduce_max" else "average", lanes), (source,), node.output
        )
    if node.op == "softmax" and node.attrs["axis"] % rank == 1:
        return Light(Softmax(lanes), (source,), node.output)
    raise EngineError(f"{node.label} has no native kernel yet; another engine runs it")


def _pool(program: Program, node: Node, lanes: int) -> Pool:
    images = images_of(program, node.inputs[0])
    window = Window.of(node.attrs, images.extent)
    if len(window.kernel) != 2 or len(node.outputs) > 1:
        raise EngineError(f"{node.label} has no native kernel yet; another engine runs it")
    begins, padded = as_ints(window.begins), as_ints(window.padded)
    strides, dilations = as_ints(window.strides), as_ints(window.dilations)
    return Pool(
        "max" if node.op == "max_pool" else "average",
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
