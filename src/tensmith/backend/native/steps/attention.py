"""Attention, found among the small ops that exporters write it as."""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

import numpy as np

from tensmith.backend.native.steps.graph import StepGraph
from tensmith.backend.native.steps.operands import Free, Reads, traced
from tensmith.backend.native.steps.patterns import closed, matched, other_number, read_as
from tensmith.backend.native.steps.step import Dense, Step
from tensmith.ir import Node
from tensmith.kernel.routines.attention import AttentionRoutine
from tensmith.kernel.view import StridedView
from tensmith.rewrite.term import Var, ops

X, Y = Var("x"), Var("y")
_WORTH_PACKING = 8


class Heads(NamedTuple):
    """softmax(q @ k * scale + mask) @ v, or where `turned`, v @ the transpose of that softmax.

    Where `blind`, rows of the softmax that are no numbers, those of queries that see no key, count as zeros.
    """

    q: str
    k: str
    v: str
    mask: str | None
    scale: float
    blind: bool
    turned: bool
    nodes: tuple[Node, ...]


def attention(graph: StepGraph, node: Node, free: Free) -> tuple[Step, list[Node]] | None:
    """Softmax between two products and the nodes it stands for, if `node` is the softmax of that."""
    found = _heads(graph, node, free)
    if found is None or not free >= {*found.nodes}:
        return None
    nodes, output = list(found.nodes), found.nodes[-1].output
    shape = graph.shapes[output]
    out, last = _turned(graph, output, free)
    reads = Reads(graph)
    q, k, v = (reads.matrix(name, shape[:-2]) for name in (found.q, found.k, found.v))
    over = (*shape[:-2], *graph.shapes[node.output][-2:])
    mask = reads.operand(found.mask, over) if found.mask else None
    if found.turned:
        v, out = replace(v, view=_transposed(v.view)), _transposed(out)
    routine = AttentionRoutine(q, k, v, mask, out, found.scale, graph.isa, found.blind)
    shared = None if found.turned else _shared(graph, found, routine)
    reads, routine = shared or (reads, routine)
    routine = narrowed(graph, routine)
    if last is not None:
        nodes.append(last)
        graph.made.add(last.output)
    name = graph.names[nodes[-1].output]
    return Dense(routine, tuple(reads.sources), name, reads.constants), nodes


def narrowed(graph: StepGraph, routine: AttentionRoutine) -> AttentionRoutine:
    """In bfloat16 where that is allowed, and rows are enough to pay for the packing of what they multiply."""
    return replace(routine, bfloat=graph.bfloat and routine.q.view.shape[-2] >= _WORTH_PACKING)


def _shared(graph: StepGraph, found: Heads, apart: AttentionRoutine) -> tuple[Reads, AttentionRoutine] | None:
    """The same where several heads share keys and values, which are then read unrepeated; None elsewhere.

    Of a single query a head, those that share keys are rows of one product.
    """
    (k, k_view), (v, v_view) = (_unrepeated(graph, name) for name in (found.k, found.v))
    if k_view is None or v_view is None or k_view.shape[:-2] != v_view.shape[:-2]:
        return None
    *outer, heads, sharing = k_view.shape[:-2]
    one = apart.q.view.shape[-2] == 1

    def split(view: StridedView) -> StridedView | None:
        rows = (sharing,) if one else (sharing, view.shape[-2])
        return view.reshaped((*outer, heads, *rows, view.shape[-1]))

    reads = Reads(graph)
    operands = [reads.matrix(found.q, apart.out.shape[:-2])]
    if found.mask and apart.mask:
        operands.append(reads.operand(found.mask, apart.mask.view.shape))
    views, out = [split(operand.view) for operand in operands], split(apart.out)
    if out is None or None in views:
        return None
    q, *mask = [replace(operand, view=view) for operand, view in zip(operands, views) if view]
    keys, values = (
        reads.seen(root, _without(view, -3) if one else view, "f32")
        for root, view in ((k, k_view), (v, v_view))
    )
    return reads, replace(apart, q=q, k=keys, v=values, mask=mask[0] if mask else None, out=out)


def _unrepeated(graph: StepGraph, value: str) -> tuple[str, StridedView | None]:
    """Matrices [.., heads * times, n, m], every head so many times: (the value whose memory holds them, how
    they lie there as [.., heads, times, n, m]); no view where they are something else."""
    node = graph.program.producers.get(value)
    if node is None or node not in graph.tensors or node.opaque is not None or len(graph.shapes[value]) < 3:
        return value, None
    if "perm" in node.attrs:
        root, view = _unrepeated(graph, node.inputs[0])
        return root, _transposed(view) if view and _swaps(node, len(graph.shapes[value])) else None
    before = graph.shapes[node.inputs[0]]
    shape = graph.shapes[value]
    split = (*shape[:-3], *before[-4:-2], *shape[-2:])
    if not node.traits.renames or before != split or before[-4] * before[-3] != shape[-3]:
        return value, None
    root, view = traced(graph, node.inputs[0])
    return root, view if view.strides[-3] == 0 and view.shape[-3] > 1 else None


def _without(view: StridedView, axis: int) -> StridedView:
    """At the first place of an axis."""
    shape, strides = list(view.shape), list(view.strides)
    del shape[axis], strides[axis]
    return StridedView(tuple(shape), tuple(strides), view.offset)


def _turned(graph: StepGraph, output: str, free: Free) -> tuple[StridedView, Node | None]:
    """(how a result lies in its memory, the transpose behind it that this does), if there is one."""
    shape = graph.shapes[output]
    found = read_as(graph, ops.transpose(X, attrs="turn"), output)
    if found is None or found.nodes[0] not in free:
        return StridedView.dense(shape), None
    (node,) = found.nodes
    axes = node.attrs["perm"] or tuple(range(len(shape)))[::-1]
    back = [axes.index(axis) for axis in range(len(shape))]
    return StridedView.dense(graph.shapes[node.output]).transposed(back), node


def _transposed(matrices: StridedView) -> StridedView:
    """Matrices with rows and columns exchanged."""
    rank = len(matrices.shape)
    return matrices.transposed([*range(rank - 2), rank - 1, rank - 2])


def _heads(graph: StepGraph, softmax: Node, free: Free) -> Heads | None:
    """Attention around a softmax along the last axis."""
    if matched(graph, ops.softmax(X, attrs="softmax"), softmax.output) is None:
        return None
    shape = graph.shapes[softmax.output]
    before = _or_zeros(graph, softmax)
    blind = len(before) > 1
    turn = read_as(graph, ops.transpose(X, attrs="turn"), before[0].output)
    turned = turn is not None and _swaps(turn.nodes[-1], len(shape))
    if turn is not None and turned:
        before = [*turn.nodes, *before]
    product = read_as(graph, X @ Y, before[0].output)
    if product is None or product.values["xy"[int(turned)]] != before[0].output:
        return None
    (last,), v = product.nodes, product.values["xy"[int(not turned)]]
    if softmax.attrs["axis"] % len(shape) != len(shape) - 1 or len(graph.shapes[v]) < 2:
        return None
    nodes: list[Node] = [last, *before]
    mask, scale, value = None, 1.0, softmax.inputs[0]
    while True:
        node = graph.program.producers.get(value)
        if node is None or node not in free or graph.shapes[value] != shape:
            return None
        nodes.append(node)
        if matched(graph, X @ Y, value) is not None:
            break
        factor = _factor(graph, value)
        if factor is not None:
            value, scale = factor[0], scale * factor[1]
        elif matched(graph, X + Y, value) is not None and mask is None and scale == 1:
            side = 0 if _is_score(graph, node.inputs[0]) else 1
            value, mask = node.inputs[side], node.inputs[1 - side]
        else:
            return None
    q, k = node.inputs
    for index, name in enumerate((q, k)):
        scaled = graph.program.producers.get(name)
        factor = _factor(graph, name)
        if scaled is not None and factor is not None and scaled in free and graph.program.uses(name) == 1:
            q, k = (factor[0], k) if index == 0 else (q, factor[0])
            scale *= factor[1]
            nodes.append(scaled)
    if not closed(graph, tuple(nodes[::-1])) or min(len(graph.shapes[name]) for name in (q, k)) < 2:
        return None
    return Heads(q, k, v, mask, float(np.float32(scale)), blind, turned, tuple(nodes[::-1]))


def _or_zeros(graph: StepGraph, softmax: Node) -> list[Node]:
    """[softmax], or, the last one first, the nodes of where(isnan(softmax), 0, softmax)."""
    readers = graph.program.consumers.get(softmax.output, ())
    for reader in readers:
        found = matched(graph, ops.where(ops.isnan(X), Y, X), reader.output)
        zero = found is not None and graph.constants.number(found.values["y"]) == 0
        if found is not None and zero and found.values["x"] == softmax.output and len(readers) == 2:
            return [*found.nodes, softmax]
    return [softmax]


def _is_score(graph: StepGraph, value: str) -> bool:
    """Whether a value is a product of matrices, or a multiple of something."""
    return any(matched(graph, form, value) is not None for form in (X @ Y, X * Y, X / Y))


def _swaps(transpose: Node, rank: int) -> bool:
    """Whether a transpose exchanges the last two axes alone."""
    axes = list(transpose.attrs["perm"] or range(rank)[::-1])
    return axes == [*range(rank - 2), rank - 1, rank - 2]


def _factor(graph: StepGraph, value: str) -> tuple[str, float] | None:
    """(another value, number) of a product of it with, or its quotient by, one number."""
    product, quotient = matched(graph, X * Y, value), matched(graph, X / Y, value)
    if product is not None:
        return other_number(graph, product.nodes[0])
    number = graph.constants.number(quotient.values["y"]) if quotient is not None else None
    return (quotient.values["x"], 1 / number) if quotient is not None and number else None
