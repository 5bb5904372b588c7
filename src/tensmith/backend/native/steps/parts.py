"""Slices and zero padding of images as copies."""

from __future__ import annotations

from collections.abc import Sequence

from tensmith.backend.native.images import images_of
from tensmith.backend.native.steps.step import Light
from tensmith.backend.native.steps.views import ints, slice_of
from tensmith.errors import EngineError
from tensmith.ir import Node, Program
from tensmith.kernel.routines.copy import Copy


def cuts(node: Node) -> bool:
    """Whether a node is a slice."""
    return node.op == "slice"


def pads(node: Node) -> bool:
    """Whether a node is a padding."""
    return node.op == "pad"


def padded_slice(program: Program, pad: Node | None, cut: Node | None) -> Light:
    """pad(slice(x)), either of them optional; EngineError where it is more than a copy within each image."""
    last = pad or cut
    assert last is not None
    source = (cut or last).inputs[0]
    shape = program.type(source).static or ()
    if not 2 <= len(shape) <= 4:
        raise EngineError(
            f"'{last.output}' cuts or pads a tensor of rank {len(shape)}, which has no native kernel"
        )
    starts, steps = slice_of(program, cut, shape) if cut else ([0] * len(shape), [1] * len(shape))
    if min(steps) < 0:
        raise EngineError(f"'{last.output}' runs backwards, for which there is no native kernel")
    inner = program.type(cut.output).static if cut else shape
    at = _begins(program, pad, len(shape)) if pad else [0] * len(shape)
    if at[0] or starts[0] or steps[0] != 1 or steps[1] != 1 or inner is None or inner[0] != shape[0]:
        raise EngineError(f"'{last.output}' cuts or pads the batch or skips channels: no native kernel")
    extent = _place(inner, 1)
    partial = images_of(program, last.output)[1:] != extent
    routine = Copy(_place(at, 0), _place(starts, 0), _place(steps, 1)[1:], extent, fill=partial)
    return Light(routine, (source,), last.output)


def _place(values: Sequence[int], missing: int) -> tuple[int, int, int]:
    """Of channels, rows and columns; a tensor of rank 3 has columns alone, as in `images_of`."""
    channel, *rest = values[1:]
    row, column = (missing, missing, *rest)[-2:]
    return channel, row, column


def _begins(program: Program, node: Node, rank: int) -> list[int]:
    """How many zeros a padding puts before each axis."""
    value = program.constants.get(node.inputs[2]) if len(node.inputs) > 2 and node.inputs[2] else None
    zero = (
        value is None if len(node.inputs) < 3 or not node.inputs[2] else value is not None and not value.any()
    )
    if node.attrs["mode"] != "constant" or not zero:
        raise EngineError(f"'{node.output}' pads with something else than zeros, which has no native kernel")
    pads = ints(program, node, 1) or []
    axes = ints(program, node, 3) or list(range(rank))
    begins = [0] * rank
    for axis, begin, end in zip(axes, pads, pads[len(axes) :]):
        if begin < 0 or end < 0:
            raise EngineError(f"'{node.output}' has negative pads, for which there is no native kernel")
        begins[axis] = begin
    return begins
