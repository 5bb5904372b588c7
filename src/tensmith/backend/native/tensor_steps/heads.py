"""Attention, found among the small ops that exporters write it as."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from tensmith.backend.native.tensor_steps.norms import closed, other_number
from tensmith.backend.native.tensor_steps.operands import Free, Tensors
from tensmith.ir import Node


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


def heads(tensors: Tensors, softmax: Node, free: Free) -> Heads | None:
    """Attention around a softmax along the last axis."""
    if softmax.op != "softmax":
        return None
    shape = tensors.shape(softmax.output)
    before = _or_zeros(tensors, softmax)
    blind = len(before) > 1
    turn = tensors.read_by(before[0].output, "transpose")
    turned = turn is not None and _swaps_matrix(turn, len(shape))
    if turn is not None and turned:
        before = [turn, *before]
    last = tensors.read_by(before[0].output, "matmul")
    if last is None or last.inputs[int(turned)] != before[0].output:
        return None
    v = last.inputs[int(not turned)]
    if softmax.attrs["axis"] % len(shape) != len(shape) - 1 or len(tensors.shape(v)) < 2:
        return None
    nodes: list[Node] = [last, *before]
    mask, scale, value = None, 1.0, softmax.inputs[0]
    while True:
        node = tensors.made_by(value, "matmul", "mul", "div", "add")
        if node is None or not free(node) or tensors.shape(value) != shape:
            return None
        nodes.append(node)
        if tensors.made_by(value, "matmul"):
            break
        factor = _factor(tensors, node)
        if factor is not None:
            value, scale = factor[0], scale * factor[1]
        elif tensors.made_by(value, "add") and mask is None and scale == 1:
            side = 0 if tensors.made_by(node.inputs[0], "matmul", "mul", "div") else 1
            value, mask = node.inputs[side], node.inputs[1 - side]
        else:
            return None
    q, k = node.inputs
    for index, name in enumerate((q, k)):
        scaled = tensors.made_by(name, "mul", "div")
        factor = _factor(tensors, scaled) if scaled and free(scaled) else None
        if scaled is not None and factor is not None and tensors.program.uses(name) == 1:
            q, k = (factor[0], k) if index == 0 else (q, factor[0])
            scale *= factor[1]
            nodes.append(scaled)
    if not closed(tensors, tuple(nodes[::-1])) or min(len(tensors.shape(name)) for name in (q, k)) < 2:
        return None
    return Heads(q, k, v, mask, float(np.float32(scale)), blind, turned, tuple(nodes[::-1]))


def _or_zeros(tensors: Tensors, softmax: Node) -> list[Node]:
    """[softmax], or, the last one first, the nodes of where(isnan(softmax), 0, softmax)."""
    value = softmax.output
    readers = tensors.program.consumers.get(value, ())
    tests = [node for node in readers if node.op == "isnan"]
    choice = tensors.read_by(tests[0].output, "where") if tests else None
    if choice is None or len(readers) != 2 or choice not in readers or choice.inputs[2] != value:
        return [softmax]
    return [choice, tests[0], softmax] if tensors.number(choice.inputs[1]) == 0 else [softmax]


def _swaps_matrix(transpose: Node, rank: int) -> bool:
    """Whether a transpose exchanges the last two axes alone."""
    axes = list(transpose.attrs["perm"] or range(rank)[::-1])
    return axes == [*range(rank - 2), rank - 1, rank - 2]


def _factor(tensors: Tensors, node: Node) -> tuple[str, float] | None:
    """(value, number) of a product with, or a quotient by, one number."""
    if node.op == "mul":
        return other_number(tensors, node)
    number = tensors.number(node.inputs[1]) if node.op == "div" else None
    return (node.inputs[0], 1 / number) if number else None
