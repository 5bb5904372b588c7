"""How channels pass through each op: a rule an op family.

A rule sets the labels of the outputs from those of the inputs (see axis_labels).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tensmith.ir import Node, Program
from tensmith.ir.ops.elementwise import Elementwise
from tensmith.ir.ops.pooling import GlobalPool, Pool
from tensmith.ir.ops.recurrence import Recurrent
from tensmith.ir.ops.reduction import Reduction
from tensmith.ir.ops.shape import Renaming, whole_groups
from tensmith.ir.ops.slicing import full_pads, resolve_slice
from tensmith.ir.types import Shape
from tensmith.rewrite.exact.reshape import literal_expansion, literal_shape
from tensmith.rewrite.lossy.axis_labels import AxisLabels, End, Labels, Place, flows
from tensmith.rewrite.lossy.weights import layer_of, recurrent_weights


def ints(program: Program, node: Node, index: int) -> list[int] | None:
    """A known integer input as a list; None if it is missing or not known."""
    found = program.call(node).ints(index)
    return None if found is None else list(found)


def _unknown(program: Program, node: Node, *indices: int) -> bool:
    """Whether some of these inputs are there but not known."""
    return any(node.operand(index) and ints(program, node, index) is None for index in indices)


def _through(labels: AxisLabels, value: str) -> list[Labels]:
    """The labels of all axes of a value."""
    return [labels.of((value, axis)) for axis in range(labels.rank(value))]


# Layers


@flows("conv")
def convolution(labels: AxisLabels, node: Node) -> None:
    """Channels end at axis 1 of the weights and start at axis 0; depthwise ones pass."""
    x, w = node.inputs[:2]
    bias = [(name, 0) for name in node.inputs[2:3]]
    groups, rank = node.attrs["group"], labels.rank(w)
    filters, depth = labels.size((w, 0)), labels.size((w, 1))
    if filters is None or depth is None or w not in labels.program.constants:
        return labels.stop(node)
    into = labels.of((x, 1))
    if groups > 1 and depth == 1:
        out = labels.same([(w, 0), *bias], None if into is None else np.repeat(into, filters // groups))
    else:
        if into is not None:  # every group loses the same channels
            for group in range(1, groups):
                labels.join(into[:depth], into[group * depth : (group + 1) * depth])
            labels.consumers.append(End(node.output, into))
        labels.same([(w, 1)], None if into is None else into[:depth])
        start = labels.fresh(filters // groups)
        out = labels.same([(w, 0), *bias], None if start is None else np.tile(start, groups))
        if out is not None:
            labels.producers.append(End(node.output, out))
    labels.freeze(x, [0, *range(2, rank)])
    labels.set(node.output, [labels.of((x, 0)), out, *[None] * (rank - 2)])


@flows("gemm")
def gemm(labels: AxisLabels, node: Node) -> None:
    """y = A' B' + C: rows of A' pass, the contracted axes are one, columns of B' start if B is constant."""
    a, b = node.inputs[:2]
    flip_a, flip_b = bool(node.attrs["transA"]), bool(node.attrs["transB"])
    columns = _product(
        labels, node, (a, 0 if flip_a else 1), (b, 1 if flip_b else 0), (b, 0 if flip_b else 1)
    )
    rows = labels.of((a, 1 if flip_a else 0))
    for c in filter(None, node.inputs[2:3]):
        offset = 2 - labels.rank(c)
        for axis in range(labels.rank(c)):
            if (own := columns if axis + offset else rows) is None:
                labels.freeze(c, [axis])
            else:
                labels.same([(c, axis)], own)
    labels.set(node.output, [rows, columns])


@flows("matmul")
def matmul(labels: AxisLabels, node: Node) -> None:
    """The contracted axes are one; batch axes align; columns start where the right side is constant."""
    a, b = node.inputs
    if labels.rank(a) < 2 or labels.rank(b) < 2:
        return labels.stop(node)
    ra, rb = labels.rank(a), labels.rank(b)
    columns = _product(labels, node, (a, ra - 1), (b, rb - 2), (b, rb - 1))
    batch = _broadcast(labels, [(a, ra - 2), (b, rb - 2)], max(ra, rb) - 2)
    labels.set(node.output, [*batch, labels.of((a, ra - 2)), columns])


def _product(labels: AxisLabels, node: Node, left: Place, right: Place, columns: Place) -> Labels:
    """Joins the contracted axes and gives the labels of the columns."""
    into = labels.same([left, right])
    if columns[0] not in labels.program.constants:  # it needs all that it sums, and no layer tells it so
        labels.freeze(left[0], [left[1]])
        return labels.of(columns)
    if layer_of(labels.program, node) is None:  # a stack of matrices: nobody tells its rows
        labels.freeze(columns[0])
        return None
    if into is not None:
        labels.consumers.append(End(node.output, into))
    start = labels.same([columns], labels.fresh(labels.size(columns)))
    if start is not None:
        labels.producers.append(End(node.output, start))
    return start


@flows(Recurrent)
def recurrent(labels: AxisLabels, node: Node) -> None:
    """A state goes with its rows in every gate, in all directions, and with what is summed over it; that it
    begins with zeros need not be said."""
    layer = node.surely(Recurrent)
    x, w, r, b, _, *rest = node.operands(8)
    hidden = labels.size((r, 2))
    if hidden is None or not {w, r} <= labels.program.constants.keys():
        return labels.stop(node)
    starts = [(rest[place - 5], 2) for place in layer.first if not is_zeros(labels.program, rest[place - 5])]
    for name, _ in starts:
        labels.freeze(name, [0, 1])
    states = labels.same([(r, 2), *starts], labels.fresh(hidden))
    rows = [((w, 1), layer.gates), ((r, 1), layer.gates), ((b, 1), 2 * layer.gates)]
    rows += [] if layer.peepholes is None else [((rest[layer.peepholes - 5], 1), 3)]
    for place, times in rows:
        labels.same([place], None if states is None else np.tile(states, times))
    if states is not None:
        for own in recurrent_weights(labels.program, node):
            labels.producers.append(End(own.site, np.tile(states, own.shape[0] // hidden)))
    elements = labels.same([(w, 2), (x, 2)])
    labels.freeze(x, [0, 1])
    for own in recurrent_weights(labels.program, node):
        read = elements if own.multiplies else states
        if read is not None:
            labels.consumers.append(End(own.site, np.tile(read, own.groups)))
    y, *last = node.outputs
    labels.set(y, [None, None, None, states])
    for name in last:
        labels.set(name, [None, None, states])


def is_zeros(program: Program, value: str) -> bool:
    """Whether a value is known to be zeros, wherever they were moved from."""
    while (made := program.producers.get(value)) is not None and made.traits.moves:
        value = made.inputs[0]
    return value in program.constants and not program.constants[value].any()


# Position by position


def _broadcast(labels: AxisLabels, values: Sequence[tuple[str, int]], rank: int) -> list[Labels]:
    """Labels of the first axes of values [(name, how many)], aligned from the right to `rank` axes."""
    found: list[Labels] = []
    for axis in range(rank):
        places = [(name, axis - rank + count) for name, count in values if axis - rank + count >= 0]
        found.append(labels.same(places))
    return found


@flows(Elementwise)
def aligned(labels: AxisLabels, node: Node) -> None:
    """Elementwise ops: axes align from the right, as they broadcast."""
    values = [(name, labels.rank(name)) for name in node.inputs if name]
    out = _broadcast(labels, values, labels.rank(node.output))
    for name in node.outputs:
        labels.set(name, out)


@flows("cast", "cast_like", "dropout")
def first_input(labels: AxisLabels, node: Node) -> None:
    """The shape of the first input; the others give a type or a switch."""
    for name in node.outputs:
        labels.set(name, _through(labels, node.inputs[0]))


@flows(Pool, GlobalPool)
def channelwise(labels: AxisLabels, node: Node) -> None:
    """Pools: batch and channel pass, space is left."""
    x = node.inputs[0]
    labels.freeze(x, range(2, labels.rank(x)))
    for name in node.outputs[1:]:
        if name:  # positions of maxima count through all channels
            return labels.stop(node)
    labels.set(node.output, [*_through(labels, x)[:2], *[None] * (labels.rank(x) - 2)])


@flows("batch_normalization", "instance_normalization")
def channel_norm(labels: AxisLabels, node: Node) -> None:
    """Every parameter has one entry a channel; an instance norm averages over all of an image."""
    x = node.inputs[0]
    channel = labels.same([(x, 1), *((name, 0) for name in node.inputs[1:])])
    if not node.inputs[3:]:  # no statistics are given
        labels.freeze(x, range(2, labels.rank(x)))
    rest = _through(labels, x)
    labels.set(node.output, [rest[0], channel, *rest[2:]])


@flows("layer_normalization", "rms_normalization")
def layer_norm(labels: AxisLabels, node: Node) -> None:
    """Scale and bias align with x; the statistics are then over the channels that are left."""
    if any(node.outputs[1:]):
        return labels.stop(node)
    aligned(labels, node)


@flows("softmax", "log_softmax")
def softmax(labels: AxisLabels, node: Node) -> None:
    """Needs every entry along its axis."""
    x = node.inputs[0]
    labels.freeze(x, [node.attrs["axis"] % labels.rank(x)])
    labels.set(node.output, _through(labels, x))


@flows(Reduction)
def reduction(labels: AxisLabels, node: Node) -> None:
    """Needs every entry along the axes it reduces; the others pass."""
    x, rank = node.inputs[0], labels.rank(node.inputs[0])
    given = ints(labels.program, node, 1)
    if _unknown(labels.program, node, 1):
        return labels.stop(node)
    nothing = () if node.attrs["noop_with_empty_axes"] else range(rank)
    axes = {axis % rank for axis in given} if given else set(nothing)
    labels.freeze(x, sorted(axes))
    keep = bool(node.attrs["keepdims"])
    passing = [
        None if axis in axes else own
        for axis, own in enumerate(_through(labels, x))
        if keep or axis not in axes
    ]
    labels.set(node.output, passing)


@flows("shape")
def shape(labels: AxisLabels, node: Node) -> None:
    """Sizes are read as they are."""
    start, end = node.attrs["start"], node.attrs["end"]
    x = node.inputs[0]
    labels.freeze(x, range(labels.rank(x))[start:end])
    labels.set(node.output, [None])


# Axes moved, split and put together


@flows("transpose")
def transpose(labels: AxisLabels, node: Node) -> None:
    """Labels move with their axes."""
    own = _through(labels, node.inputs[0])
    perm = node.attrs["perm"] or tuple(reversed(range(len(own))))
    labels.set(node.output, [own[axis] for axis in perm])


@flows(Renaming)
def renaming(labels: AxisLabels, node: Node) -> None:
    """Reshapes: an axis passes alone, merged with others (their positions then belong to its channels), or
    split into heads (all positions of one are a channel)."""
    x, y = node.inputs[0], node.output
    source, target = labels.program.type(x).dims, labels.program.type(y).dims
    found: list[Labels] = [None] * len(target)
    for from_axes, to_axes in whole_groups(source, target):
        run = range(len(source))[from_axes]
        tracked = [axis for axis in run if labels.of((x, axis)) is not None]
        wide = [axis for axis in range(len(target))[to_axes] if target[axis] != 1]
        shape = [labels.size((x, axis)) for axis in run]
        sizes = [labels.size((y, axis)) for axis in wide]
        if len(tracked) != 1 or None in (*shape, *sizes):
            labels.freeze(x, tracked)
            continue
        own = labels.of((x, tracked[0]))
        assert own is not None
        view = own.reshape([-1 if axis == tracked[0] else 1 for axis in run])
        every = np.broadcast_to(view, shape).reshape(-1)  # type: ignore[arg-type]
        place, channels = labels.split(y, every.reshape(sizes))  # type: ignore[arg-type]
        found[wide[place]] = channels
    if any(label is not None for label in found) and new_target(labels.program, node, target) is None:
        return labels.stop(node)
    labels.set(y, found)


def new_target(program: Program, node: Node, shape: Shape) -> list[int] | None:
    """A reshape's target for an output of this shape, in numbers. Empty where the node names its axes, which
    serves; None where no target can say it."""
    kind = node.kind(Renaming)
    if kind is None or not kind.sized:  # what drops all axes of size 1 does not
        return [] if node.inputs[1:] or "axis" in node.attrs else None
    wanted = literal_shape(program.type(node.inputs[0]).dims, shape)
    return None if wanted is None else wanted.tolist()


@flows("concat")
def concat(labels: AxisLabels, node: Node) -> None:
    """One after the other along the axis, aligned along the others."""
    rank = labels.rank(node.output)
    axis = node.attrs["axis"] % rank
    found = [labels.same([(name, d) for name in node.inputs]) if d != axis else None for d in range(rank)]
    parts = [labels.of((name, axis)) for name in node.inputs]
    sizes = [labels.size((name, axis)) for name in node.inputs]
    if any(part is not None for part in parts) and None not in sizes:
        whole = [
            labels.new(size or 0, frozen=True) if part is None else part for part, size in zip(parts, sizes)
        ]
        found[axis] = np.concatenate(whole)
    else:
        for name in node.inputs:
            labels.freeze(name, [axis])
    labels.set(node.output, found)


@flows("gather")
def gather(labels: AxisLabels, node: Node) -> None:
    """Needs every entry along its axis; the others pass."""
    x, indices = node.inputs
    axis = node.attrs["axis"] % labels.rank(x)
    labels.freeze(x, [axis])
    labels.freeze(indices)
    own = _through(labels, x)
    labels.set(node.output, [*own[:axis], *[None] * labels.rank(indices), *own[axis + 1 :]])


@flows("split")
def split(labels: AxisLabels, node: Node) -> None:
    """Parts of the labels along the axis."""
    x = node.inputs[0]
    axis = node.attrs["axis"] % labels.rank(x)
    own = _through(labels, x)
    along = own[axis]
    if along is not None and not all(node.outputs):
        return labels.stop(node)
    start = 0
    for name in filter(None, node.outputs):
        part = None
        if along is not None:
            size = labels.size((name, axis)) or 0
            part, start = along[start : start + size], start + size
        labels.set(name, [*own[:axis], part, *own[axis + 1 :]])


@flows("slice")
def slicing(labels: AxisLabels, node: Node) -> None:
    """Part of the labels of a sliced axis, if the step is 1; whole axes pass."""
    x = node.inputs[0]
    own = _through(labels, x)
    cuts = slices(labels.program, node)
    if cuts is None:
        return labels.stop(node)
    for axis, (first, count, step) in cuts.items():
        label = own[axis]
        if label is not None:
            if step != 1 or count == 0:
                return labels.stop(node)
            own[axis] = label[first : first + count]
    labels.set(node.output, own)


def slices(program: Program, node: Node) -> dict[int, tuple[int, int, int]] | None:
    """Axis -> (first, count, step) for the named axes of known size; None if bounds are not known."""
    dims = program.type(node.inputs[0]).dims
    starts, ends, axes, steps = (ints(program, node, index) for index in range(1, 5))
    if starts is None or ends is None or _unknown(program, node, 3, 4):
        return None
    axes = list(range(len(starts))) if axes is None else axes
    steps = [1] * len(starts) if steps is None else steps
    found = {}
    for axis, start, end, step in zip(axes, starts, ends, steps):
        size = dims[axis % len(dims)]
        if isinstance(size, int):
            first, count = resolve_slice(size, start, end, step)
            found[axis % len(dims)] = (int(first), int(count), step)  # type: ignore[arg-type]
    return found


@flows("expand")
def expand(labels: AxisLabels, node: Node) -> None:
    """Axes that keep their size pass; others are copies, in numbers."""
    if copies(labels.program, node) is None:
        return labels.stop(node)
    own = _through(labels, node.inputs[0])
    labels.set(node.output, [*[None] * (labels.rank(node.output) - len(own)), *own])


def copies(program: Program, node: Node) -> list[int] | None:
    """The target that says 1 for each axis that keeps its size; None where another one is symbolic."""
    found = literal_expansion(program.type(node.inputs[0]).dims, program.type(node.output).dims)
    return None if found is None else found.tolist()


@flows("pad")
def pad(labels: AxisLabels, node: Node) -> None:
    """Padded channels are channels too (they may be joined with real ones by a residual add)."""
    x, program = node.inputs[0], labels.program
    pads, axes = ints(program, node, 1), ints(program, node, 3)
    if pads is None or _unknown(program, node, 3):
        return labels.stop(node)
    begins, ends = full_pads(labels.rank(x), np.array(pads), None if axes is None else np.array(axes))
    own = _through(labels, x)
    for axis, (begin, end) in enumerate(zip(begins, ends)):
        label = own[axis]
        if label is None or (begin == 0 and end == 0):
            continue
        if node.attrs["mode"] != "constant" or begin < 0 or end < 0:  # type: ignore[operator]
            return labels.stop(node)
        own[axis] = np.concatenate([labels.new(int(begin)), label, labels.new(int(end))])  # type: ignore[arg-type]
    labels.set(node.output, own)
