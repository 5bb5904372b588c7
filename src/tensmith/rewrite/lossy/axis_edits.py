"""What a node changes when channels go: attributes and constant inputs that speak of them.

A depthwise convolution's group count, a slice's bounds, a reshape's target.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeAlias

import numpy as np

from tensmith.formula.arith import Array
from tensmith.formula.poly import product
from tensmith.ir import Node, Program
from tensmith.ir.handlers import Handlers
from tensmith.ir.op import trimmed
from tensmith.ir.ops.recurrence import Recurrent
from tensmith.ir.ops.slicing import full_pads
from tensmith.rewrite.lossy.axis_flow import copies, ints, is_zeros, new_target, slices
from tensmith.rewrite.lossy.axis_labels import Place


@dataclass
class Cut:
    """What is left of each axis; new constants gather in `constants`."""

    program: Program
    kept: Callable[[Place], Array | None]
    constants: dict[str, Array] = field(default_factory=dict)
    _names: dict[str, Iterator[str]] = field(default_factory=dict)

    def integers(self, node: Node, values: Sequence[int]) -> str:
        """The name of a new int64 constant."""
        names = self._names.setdefault(node.output, self.program.fresh(node.output))
        name = next(names)
        self.constants[name] = np.array(values, dtype=np.int64)
        return name


Edit: TypeAlias = Callable[[Cut, Node], Node]
# How nodes of some ops are rebuilt.
edits = Handlers[Edit]()


def edited(cut: Cut, node: Node) -> Node:
    """The node for the axes that are left."""
    edit = edits.find(node)
    return node if edit is None else edit(cut, node)


@edits("conv")
def convolution_edit(cut: Cut, node: Node) -> Node:
    """Depthwise: as many groups as channels are left."""
    depth = cut.program.type(node.inputs[1]).dims[1]
    kept = cut.kept((node.inputs[0], 1))
    if kept is None or depth != 1 or node.attrs["group"] == 1:
        return node
    return replace(node, attrs={**node.attrs, "group": int(kept.sum())})


@edits(Recurrent)
def recurrent_edit(cut: Cut, node: Node) -> Node:
    """As many states as are left."""
    layer, kept = node.surely(Recurrent), cut.kept((node.inputs[2], 2))
    if kept is None or kept.all():
        return node
    stated = {"hidden_size": int(kept.sum())} if node.attrs["hidden_size"] else {}
    inputs = [
        "" if place in layer.first and is_zeros(cut.program, name) else name
        for place, name in enumerate(node.inputs)
    ]
    return replace(node, inputs=trimmed(inputs), attrs={**node.attrs, **stated})


@edits("reshape")
def reshape_edit(cut: Cut, node: Node) -> Node:
    """The target with the sizes that are left."""
    dims = cut.program.type(node.output).dims
    kept = [cut.kept((node.output, axis)) for axis in range(len(dims))]
    shape = tuple(size if own is None else int(own.sum()) for size, own in zip(dims, kept))
    if shape == dims or product(shape) == 0:
        return node
    target = new_target(cut.program, node, shape)
    if not target:
        return node
    inputs = (node.inputs[0], cut.integers(node, target))
    return replace(node, inputs=inputs, attrs={**node.attrs, "allowzero": 0})


@edits("split")
def split_edit(cut: Cut, node: Node) -> Node:
    """The sizes of the parts that are left."""
    axis = node.attrs["axis"] % len(cut.program.type(node.inputs[0]).dims)
    whole = cut.kept((node.inputs[0], axis))
    if whole is None or whole.all():
        return node
    sizes = [cut.program.type(name).dims[axis] for name in node.outputs]
    ends = np.cumsum([int(size) for size in sizes])[:-1]
    left = [int(part.sum()) for part in np.split(whole, ends)]
    attrs = {**node.attrs, "num_outputs": None}
    return replace(node, inputs=(node.inputs[0], cut.integers(node, left)), attrs=attrs)


@edits("slice")
def slice_edit(cut: Cut, node: Node) -> Node:
    """Bounds count the channels that are left; axes sliced whole or untouched keep theirs."""
    cuts = slices(cut.program, node) or {}
    masks = {axis: cut.kept((node.inputs[0], axis)) for axis in cuts}
    if all(mask is None or mask.all() or cuts[axis][1] == len(mask) for axis, mask in masks.items()):
        return node
    starts, ends, axes = (ints(cut.program, node, index) for index in range(1, 4))
    assert starts is not None and ends is not None
    rank = len(cut.program.type(node.inputs[0]).dims)
    for position, axis in enumerate(axes or range(len(starts))):
        mask = masks.get(axis % rank)
        if mask is not None:
            first, count, _ = cuts[axis % rank]
            starts[position] = int(mask[:first].sum())
            ends[position] = starts[position] + int(mask[first : first + count].sum())
    names = (cut.integers(node, starts), cut.integers(node, ends))
    return replace(node, inputs=(node.inputs[0], *names, *node.inputs[3:]))


@edits("expand")
def expand_edit(cut: Cut, node: Node) -> Node:
    """The target that keeps what is left."""
    axes = range(len(cut.program.type(node.output).dims))
    target, kept = copies(cut.program, node), [cut.kept((node.output, axis)) for axis in axes]
    if target is None or all(mask is None or mask.all() for mask in kept):
        return node
    return replace(node, inputs=(node.inputs[0], cut.integers(node, target)))


@edits("pad")
def pad_edit(cut: Cut, node: Node) -> Node:
    """As many padded channels as are left."""
    rank = len(cut.program.type(node.output).dims)
    pads, axes = ints(cut.program, node, 1), ints(cut.program, node, 3)
    kept = [cut.kept((node.output, axis)) for axis in range(rank)]
    if pads is None or all(mask is None or mask.all() for mask in kept):
        return node
    both = full_pads(rank, np.array(pads), None if axes is None else np.array(axes))
    begins, ends = ([int(size) for size in side] for side in both)  # type: ignore[arg-type]
    for axis, mask in enumerate(kept):
        if mask is not None:
            last = len(mask) - ends[axis]
            begins[axis], ends[axis] = int(mask[: begins[axis]].sum()), int(mask[last:].sum())
    name = cut.integers(node, [*begins, *ends])
    return replace(node, inputs=(node.inputs[0], name, *node.inputs[2:3]))
