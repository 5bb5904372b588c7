"""Normalizations, found among the small ops that exporters write them as."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from tensmith.backend.native.steps import Array
from tensmith.backend.native.tensor_steps.operands import Tensors
from tensmith.ir import Node
from tensmith.ir.handlers import Handlers
from tensmith.ir.ops.normalization import RowNormalization


class Norm(NamedTuple):
    """Rows of `source`, normalized; the nodes it stands for end with the last one."""

    source: str
    epsilon: float
    centred: bool
    scale: Array | None
    shift: Array | None
    nodes: tuple[Node, ...]


# d / s as (d, the nodes that make s), where s is a square root.
_quotients = Handlers[Callable[[Tensors, Node], "tuple[str, tuple[Node, ...]] | None"]]()


def norm_op(tensors: Tensors, node: Node) -> Norm | None:
    """A layer_normalization or rms_normalization along the last axis."""
    op = node.kind(RowNormalization)
    if op is None or any(node.outputs[1:]):
        return None
    rank = len(tensors.shape(node.inputs[0]))
    if node.attrs["axis"] % rank != rank - 1:
        return None
    tables = [tensors.constant(name) if name else None for name in (*node.inputs[1:], "")[:2]]
    if any(name and table is None for name, table in zip(node.inputs[1:], tables)):
        return None
    tables = [None if t is None or np.all(t == neutral) else t for t, neutral in zip(tables, (1, 0))]
    columns = tensors.shape(node.inputs[0])[-1:]
    if any(table is not None and table.shape != columns for table in tables):
        return None
    return Norm(node.inputs[0], node.attrs["epsilon"], op.centred, tables[0], tables[1], (node,))


def norm_group(tensors: Tensors, node: Node) -> Norm | None:
    """d / sqrt(mean(d * d) + epsilon), with d = x or x - mean(x), and the scale and shift behind it."""
    found = _over_root(tensors, node)
    if found is None:
        return None
    distance, last = found
    total = tensors.made_by(last[0].inputs[0], "add")
    if total is None:
        return None
    epsilon = other_number(tensors, total)
    mean = tensors.made_by(epsilon[0], "reduce_mean") if epsilon else None
    power = _square(tensors, mean.inputs[0]) if mean and _last_axis(tensors, mean) else None
    if epsilon is None or mean is None or power is None or power.inputs[0] != distance:
        return None
    nodes: tuple[Node, ...] = (power, mean, total, *last, node)
    source, centred = distance, False
    less = tensors.made_by(distance, "sub")
    middle = tensors.made_by(less.inputs[1], "reduce_mean") if less else None
    if less and middle and middle.inputs[0] == less.inputs[0] and _last_axis(tensors, middle):
        source, centred, nodes = less.inputs[0], True, (middle, less, *nodes)
    if not closed(tensors, nodes):
        return None
    return _with_tables(tensors, Norm(source, epsilon[1], centred, None, None, nodes))


def _over_root(tensors: Tensors, node: Node) -> tuple[str, tuple[Node, ...]] | None:
    """(d, the nodes of the divisor from its square root on) of d / sqrt(s), d * (1 / sqrt(s))."""
    find = _quotients.find(node)
    return find(tensors, node) if find else None


@_quotients("div")
def _divided(tensors: Tensors, node: Node) -> tuple[str, tuple[Node, ...]] | None:
    root = tensors.made_by(node.inputs[1], "sqrt")
    return (node.inputs[0], (root,)) if root else None


@_quotients("mul")
def _times_inverse(tensors: Tensors, node: Node) -> tuple[str, tuple[Node, ...]] | None:
    for value, other in (node.inputs, node.inputs[::-1]):
        inverse = tensors.made_by(other, "div", "reciprocal")
        if inverse is not None and (len(inverse.inputs) == 1 or tensors.number(inverse.inputs[0]) == 1):
            root = tensors.made_by(inverse.inputs[-1], "sqrt")
            if root is not None:
                return value, (root, inverse)
    return None


def _with_tables(tensors: Tensors, norm: Norm) -> Norm:
    """With a scale and then a shift, each one number a column, if they follow."""
    columns = tensors.shape(norm.source)[-1:]
    for op in ("mul", "add"):
        last = norm.nodes[-1]
        reader = tensors.read_by(last.output, op)
        if reader is None:
            break
        other = [name for name in reader.inputs if name != last.output]
        table = tensors.constant(other[0]) if len(other) == 1 else None
        if table is None or table.size != columns[0] or table.shape[-1:] != columns:
            break
        if reader not in tensors.nodes:
            break
        nodes = (*norm.nodes, reader)
        norm = (
            norm._replace(scale=table, nodes=nodes)
            if op == "mul"
            else norm._replace(shift=table, nodes=nodes)
        )
    return norm


def other_number(tensors: Tensors, node: Node) -> tuple[str, float] | None:
    """(the computed input, the number) of a node of two inputs, one of them a single number."""
    for value, other in (node.inputs, node.inputs[::-1]):
        number = tensors.number(other)
        if number is not None and tensors.shape(value) == tensors.shape(node.output):
            return value, number
    return None


def _last_axis(tensors: Tensors, node: Node) -> bool:
    """Whether a reduction is over the last axis, which it keeps."""
    axes = tensors.constant(node.inputs[1]) if len(node.inputs) > 1 and node.inputs[1] else None
    rank = len(tensors.shape(node.inputs[0]))
    return axes is not None and bool(node.attrs["keepdims"]) and [int(a) % rank for a in axes] == [rank - 1]


def _square(tensors: Tensors, value: str) -> Node | None:
    """The node that makes a value, if it squares another."""
    power, product = tensors.made_by(value, "pow"), tensors.made_by(value, "mul")
    if power is not None and tensors.number(power.inputs[1]) == 2:
        return power
    return product if product is not None and product.inputs[0] == product.inputs[1] else None


def closed(tensors: Tensors, nodes: tuple[Node, ...]) -> bool:
    """Whether nobody else reads what is computed on the way, and all are tensor nodes."""
    inner = [tensors.program.consumers.get(node.output, ()) for node in nodes[:-1]]
    outputs = set(tensors.program.outputs)
    read = all(reader in nodes for readers in inner for reader in readers)
    return read and not any(node.output in outputs for node in nodes[:-1]) and tensors.nodes.issuperset(nodes)
