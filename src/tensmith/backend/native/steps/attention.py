"""Attention, found among the small ops that exporters write it as."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from tensmith.backend.native.steps.norms import closed, other_number
from tensmith.backend.native.steps.operands import Free, TensorOperands
from tensmith.ir import Node
from tensmith.rewrite.term import Match, Var, ops

X, Y = Var("x"), Var("y")


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


def heads(tensors: TensorOperands, softmax: Node, free: Free) -> Heads | None:
    """Attention around a softmax along the last axis."""
    if tensors.match(ops.softmax(X, attrs="softmax"), softmax.output) is None:
        return None
    shape = tensors.shape(softmax.output)
    before = _or_zeros(tensors, softmax)
    blind = len(before) > 1
    turn = tensors.read_as(ops.transpose(X, attrs="turn"), before[0].output)
    turned = turn is not None and _swaps_matrix(turn, len(shape))
    if turn is not None and turned:
        before = [*turn.nodes, *before]
    product = tensors.read_as(X @ Y, before[0].output)
    if product is None or product.values["xy"[int(turned)]] != before[0].output:
        return None
    (last,), v = product.nodes, product.values["xy"[int(not turned)]]
    if softmax.attrs["axis"] % len(shape) != len(shape) - 1 or len(tensors.shape(v)) < 2:
        return None
    nodes: list[Node] = [last, *before]
    mask, scale, value = None, 1.0, softmax.inputs[0]
    while True:
        node = tensors.program.producers.get(value)
        if node is None or not free(node) or tensors.shape(value) != shape:
            return None
        nodes.append(node)
        if tensors.match(X @ Y, value) is not None:
            break
        factor = _factor(tensors, value)
        if factor is not None:
            value, scale = factor[0], scale * factor[1]
        elif tensors.match(X + Y, value) is not None and mask is None and scale == 1:
            side = 0 if _is_score(tensors, node.inputs[0]) else 1
            value, mask = node.inputs[side], node.inputs[1 - side]
        else:
            return None
    q, k = node.inputs
    for index, name in enumerate((q, k)):
        scaled = tensors.program.producers.get(name)
        factor = _factor(tensors, name)
        if scaled is not None and factor is not None and free(scaled) and tensors.program.uses(name) == 1:
            q, k = (factor[0], k) if index == 0 else (q, factor[0])
            scale *= factor[1]
            nodes.append(scaled)
    if not closed(tensors, tuple(nodes[::-1])) or min(len(tensors.shape(name)) for name in (q, k)) < 2:
        return None
    return Heads(q, k, v, mask, float(np.float32(scale)), blind, turned, tuple(nodes[::-1]))


def _or_zeros(tensors: TensorOperands, softmax: Node) -> list[Node]:
    """[softmax], or, the last one first, the nodes of where(isnan(softmax), 0, softmax)."""
    readers = tensors.program.consumers.get(softmax.output, ())
    for reader in readers:
        found = tensors.match(ops.where(ops.isnan(X), Y, X), reader.output)
        zero = found is not None and tensors.number(found.values["y"]) == 0
        if found is not None and zero and found.values["x"] == softmax.output and len(readers) == 2:
            return [*found.nodes, softmax]
    return [softmax]


def _is_score(tensors: TensorOperands, value: str) -> bool:
    """Whether a value is a product of matrices, or a multiple of something."""
    return any(tensors.match(form, value) is not None for form in (X @ Y, X * Y, X / Y))


def _swaps_matrix(transpose: Match, rank: int) -> bool:
    """Whether a transpose exchanges the last two axes alone."""
    axes = list(transpose.attrs["turn"]["perm"] or range(rank)[::-1])
    return axes == [*range(rank - 2), rank - 1, rank - 2]


def _factor(tensors: TensorOperands, value: str) -> tuple[str, float] | None:
    """(another value, number) of a product of it with, or its quotient by, one number."""
    product, quotient = tensors.match(X * Y, value), tensors.match(X / Y, value)
    if product is not None:
        return other_number(tensors, product.nodes[0])
    number = tensors.number(quotient.values["y"]) if quotient is not None else None
    return (quotient.values["x"], 1 / number) if quotient is not None and number else None
