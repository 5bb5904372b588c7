"""Slices and zero padding of images as copies, some channels of them as a pick; rows and columns of a
program's input as parts that stay where they are."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tensmith.backend.native.images import PositionWindow
from tensmith.backend.native.steps.graph import StepGraph
from tensmith.backend.native.steps.step import Light, Look
from tensmith.backend.native.steps.views import ints, slice_of
from tensmith.ir import Node
from tensmith.kernel.routines.copy import Copy
from tensmith.kernel.routines.pick_channels import PickChannels


def cuts(node: Node) -> bool:
    """Whether a node is a slice."""
    return node.op == "slice"


def pads(node: Node) -> bool:
    """Whether a node is a padding."""
    return node.op == "pad"


def padded_slice(graph: StepGraph, pad: Node | None, cut: Node | None) -> Light | None:
    """pad(slice(x)), either of them optional; None where it is more than a copy within each image.

    Channels are left out of whole images alone.
    """
    last = pad or cut
    assert last is not None
    source = (cut or last).inputs[0]
    images, rank = graph.images.get(last.output), len(graph.shapes[source])
    found = slice_of(graph, cut) if cut else ([0] * rank, [1] * rank)
    at = _begins(graph, pad) if pad else [0] * rank
    if images is None or source not in graph.images or found is None or at is None:
        return None
    starts, steps = found
    inner = graph.shapes[cut.output if cut else source]
    batches = {images.batch, inner[0], graph.shapes[source][0]}
    if min(steps) < 0 or at[0] or len(batches) > 1 or steps[0] != 1:
        return None  # backwards, or of the batch
    if steps[1] != 1:
        whole = pad is None and graph.shapes[source][2:] == inner[2:]
        return Light(PickChannels(starts[1], steps[1]), (source,), last.output) if whole else None
    extent = _place(inner, 1)
    routine = Copy(_place(at, 0), _place(starts, 0), _place(steps, 1)[1:], extent, fill=images[1:] != extent)
    return Light(routine, (source,), last.output)


def part_of_input(graph: StepGraph, cut: Node) -> Look | None:
    """Some rows and columns of an input of the program; None if a slice is anything else."""
    source, images = cut.inputs[0], graph.images.get(cut.output)
    found = slice_of(graph, cut)
    if source not in graph.program.inputs or source not in graph.images or images is None or found is None:
        return None
    starts, steps = found
    if {*steps} != {1} or any(starts[:2]) or graph.images[source][:2] != images[:2] or len(starts) < 3:
        return None
    _, top, left = _place(starts, 0)
    return Look(source, cut.output, PositionWindow(top, images.height, left, images.width))


def _place(values: Sequence[int], missing: int) -> tuple[int, int, int]:
    """Of channels, rows and columns; a tensor of rank 3 has columns alone, as in `images_of`."""
    channel, *rest = values[1:]
    row, column = (missing, missing, *rest)[-2:]
    return channel, row, column


def _begins(graph: StepGraph, node: Node) -> list[int] | None:
    """How many zeros a padding puts before each axis; None if it does something else."""
    number = graph.constants.get(node.inputs[2]) if node.operand(2) else np.zeros(1)
    pads, axes = ints(graph, node, 1), ints(graph, node, 3)
    if node.attrs["mode"] != "constant" or number is None or number.any() or not pads or min(pads) < 0:
        return None
    if axes is None and node.operand(3):
        return None
    begins = [0] * len(graph.shapes[node.output])
    for axis, begin in zip(range(len(begins)) if axes is None else axes, pads):
        begins[axis] = begin
    return begins
