"""Normalizations, found among the small ops that exporters write them as."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from tensmith.backend.native.steps.graph import StepGraph
from tensmith.backend.native.steps.operands import Free
from tensmith.backend.native.steps.patterns import closed, matched, read_as
from tensmith.backend.native.steps.step import Dense, Step
from tensmith.formula.arith import Array
from tensmith.ir import Node
from tensmith.ir.ops.normalization import RowNormalization
from tensmith.kernel.routines.rows import RowNorm
from tensmith.rewrite.match import Match
from tensmith.rewrite.term import Use, Var, ops


class Norm(NamedTuple):
    """Rows of `source`, normalized; the nodes it stands for end with the last one."""

    source: str
    epsilon: float
    centred: bool
    scale: Array | None
    shift: Array | None
    nodes: tuple[Node, ...]


D, S, T = (Var(name) for name in "dst")
AXES, EPSILON = Var("axes", static=True), Var("epsilon", static=True)


def _over_root(square: Use) -> tuple[Use, ...]:
    """Forms of d / sqrt(mean(square) + epsilon)."""
    root = ops.sqrt(ops.reduce_mean(square, AXES, attrs="mean") + EPSILON)
    return D / root, D * (1 / root), D * ops.reciprocal(root)


_FORMS = tuple(form for square in (D * D, D**2) for form in _over_root(square))
_SCALED, _SHIFTED = S * T, S + T
_CENTRED = S - ops.reduce_mean(S, AXES, attrs="mean")


def normalization(graph: StepGraph, node: Node, free: Free) -> tuple[Step, list[Node]] | None:
    """Rows normalized in one step and the nodes it stands for, if `node` is that, or the division in it."""
    norm = _norm_op(graph, node) or _norm_group(graph, node)
    if norm is None or not free >= {*norm.nodes}:
        return None
    shape = graph.shapes[norm.source]
    tables = [t.reshape(-1).astype(np.float32) for t in (norm.scale, norm.shift) if t is not None]
    constants = np.concatenate(tables) if tables else None
    routine = RowNorm(
        math.prod(shape[:-1]), shape[-1], graph.isa.lanes, norm.epsilon, norm.centred,
        norm.scale is not None, norm.shift is not None,
    )  # fmt: skip
    name = graph.names[norm.nodes[-1].output]
    return Dense(routine, (graph.names[norm.source],), name, constants), list(norm.nodes)


def _norm_op(graph: StepGraph, node: Node) -> Norm | None:
    """A layer_normalization or rms_normalization along the last axis."""
    op = node.kind(RowNormalization)
    if op is None or node not in graph.tensors or any(node.outputs[1:]):
        return None
    rank = len(graph.shapes[node.inputs[0]])
    if node.attrs["axis"] % rank != rank - 1:
        return None
    if not node.fixed_by(graph.constants):
        return None
    tables = [graph.constants.get(name) for name in node.operands(3)[1:]]
    tables = [None if t is None or np.all(t == neutral) else t for t, neutral in zip(tables, (1, 0))]
    columns = graph.shapes[node.inputs[0]][-1:]
    if any(table is not None and table.shape != columns for table in tables):
        return None
    return Norm(node.inputs[0], node.attrs["epsilon"], op.centred, tables[0], tables[1], (node,))


def _norm_group(graph: StepGraph, node: Node) -> Norm | None:
    """d / sqrt(mean(d * d) + epsilon), with d = x or x - mean(x), and the scale and shift behind it."""
    found = next((m for form in _FORMS if (m := matched(graph, form, node.output)) is not None), None)
    if found is None:
        return None
    distance, epsilon = found.values["d"], graph.constants.number(found.values["epsilon"])
    shape = graph.shapes[distance]
    narrow = graph.shapes[found.nodes[-3].output] == (*shape[:-1], 1)
    if epsilon is None or not narrow or graph.shapes[node.output] != shape or not _last_axis(graph, found):
        return None
    nodes, source = tuple(found.nodes[::-1]), distance
    less = matched(graph, _CENTRED, distance)
    if less is not None and _last_axis(graph, less):
        nodes, source = (*less.nodes[::-1], *nodes), less.values["s"]
    if not closed(graph, nodes):
        return None
    return _with_tables(graph, Norm(source, epsilon, source != distance, None, None, nodes))


def _with_tables(graph: StepGraph, norm: Norm) -> Norm:
    """With a scale and then a shift, each one number a column, if they follow."""
    columns = graph.shapes[norm.source][-1:]
    for form in (_SCALED, _SHIFTED):
        last = norm.nodes[-1].output
        found = read_as(graph, form, last)
        other = [name for name in found.nodes[0].inputs if name != last] if found is not None else []
        table = graph.constants.get(other[0]) if len(other) == 1 else None
        if found is None or table is None or table.size != columns[0] or table.shape[-1:] != columns:
            break
        norm = norm._replace(nodes=(*norm.nodes, *found.nodes))
        norm = norm._replace(scale=table) if form is _SCALED else norm._replace(shift=table)
    return norm


def _last_axis(graph: StepGraph, found: Match) -> bool:
    """Whether a matched mean is over the last axis, which it keeps."""
    axes = graph.constants.get(found.values["axes"])
    rank = len(graph.shapes[found.nodes[0].output])
    kept = bool(found.attrs["mean"]["keepdims"])
    return axes is not None and kept and [int(axis) % rank for axis in axes.reshape(-1)] == [rank - 1]
