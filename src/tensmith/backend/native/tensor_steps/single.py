"""Tensor nodes that are steps of their own: views made dense, products, softmax, gather, reductions."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace

from tensmith.backend.native.steps import Dense, Rename, Step
from tensmith.backend.native.tensor_steps import picking
from tensmith.backend.native.tensor_steps.by_formula import by_formula
from tensmith.backend.native.tensor_steps.operands import Reads, TensorOperands
from tensmith.backend.native.views import is_view
from tensmith.errors import EngineError
from tensmith.formula.expr import Read
from tensmith.formula.types import MachineType
from tensmith.ir import Node
from tensmith.ir.handlers import Handlers
from tensmith.ir.ops.reduction import Reduction
from tensmith.kernel.isa import Isa
from tensmith.kernel.routine import Routine
from tensmith.kernel.routines.attention import AttentionRoutine
from tensmith.kernel.routines.columns import ColumnSoftmax
from tensmith.kernel.routines.reduce import KINDS, ReduceRoutine
from tensmith.kernel.routines.rows import RowSoftmax
from tensmith.kernel.routines.strided import Strided, StridedOperand, StridedStatement
from tensmith.kernel.routines.take import Take
from tensmith.kernel.view import StridedView

_routines = Handlers[Callable[[TensorOperands, Reads, Node, Isa], "Routine | None"]]()


def alone(tensors: TensorOperands, node: Node, output: str, isa: Isa) -> Step:
    """The step that makes `output`; EngineError if there is no native kernel."""
    if is_view(node):
        return _seen(tensors, output, isa.lanes)
    reads = Reads(tensors)
    make, pick = _routines.find(node), picking.routines.find(node)
    routine = make(tensors, reads, node, isa) if make and len(node.outputs) == 1 else None
    if pick is not None:
        routine = pick(tensors, reads, node, output)
    if routine is None:
        reads = Reads(tensors)
        routine = by_formula(tensors, reads, node, output)
    if routine is None:
        raise EngineError(f"{node.label} has no native kernel yet; another engine runs it")
    return Dense(routine, tuple(reads.sources), tensors.name(output), reads.constants)


def matrix(reads: Reads, value: str, leading: tuple[int, ...]) -> StridedOperand:
    """An operand of a batched product, the leading axes broadcast."""
    return reads.operand(value, (*leading, *reads.tensors.shape(value)[-2:]))


def _seen(tensors: TensorOperands, value: str, lanes: int) -> Step:
    """A view as a dense tensor of its own, for those who cannot read it where it lies."""
    root, view = tensors.trace(value)
    name = tensors.name(value)
    whole = view.is_dense and view.size == math.prod(tensors.shape(root))
    if whole and tensors.constant(root) is None:
        return Rename(tensors.name(root), name)
    reads = Reads(tensors)
    dtype = tensors.dtype(value)
    same = "{0}" if dtype == "f32" else Read("0", (), MachineType(dtype))
    part = StridedStatement(same, (reads.operand(value),), StridedView.dense(view.shape))
    return Dense(Strided((part,), lanes, dtype), tuple(reads.sources), name, reads.constants)


@_routines("softmax")
def _softmax(tensors: TensorOperands, reads: Reads, node: Node, isa: Isa) -> Routine | None:
    shape = tensors.shape(node.output)
    axis = node.attrs["axis"] % len(shape)
    reads.dense(node.inputs[0])
    if axis != len(shape) - 1:
        sizes = math.prod(shape[:axis]), shape[axis], math.prod(shape[axis + 1 :])
        return ColumnSoftmax(*sizes, isa.lanes)
    return RowSoftmax(math.prod(shape[:-1]), shape[-1], isa.lanes)


@_routines("gather")
def _take(tensors: TensorOperands, reads: Reads, node: Node, isa: Isa) -> Routine | None:
    shape = tensors.shape(node.inputs[0])
    axis = node.attrs["axis"] % len(shape)
    table, indices = map(reads.dense, node.inputs)
    if indices.dtype not in ("i64", "i32"):
        return None
    return Take(table, indices, math.prod(shape[:axis]), shape[axis], math.prod(shape[axis + 1 :]))


@_routines("matmul")
def _product(tensors: TensorOperands, reads: Reads, node: Node, isa: Isa) -> Routine | None:
    shape = tensors.shape(node.output)
    if min(len(tensors.shape(name)) for name in node.inputs) < 2:
        return None
    a, b = (matrix(reads, name, shape[:-2]) for name in node.inputs)
    if {a.dtype, b.dtype} != {"f32"}:
        return None
    return AttentionRoutine(a, b, None, None, StridedView.dense(shape), 1.0, isa)


@_routines(Reduction)
def _reduce(tensors: TensorOperands, reads: Reads, node: Node, isa: Isa) -> Routine | None:
    op = node.kind(Reduction)
    kind = KINDS.get(op.takes) if op else None
    if kind is None:
        return None
    operand = reads.operand(node.inputs[0])
    rank = len(operand.view.shape)
    axes = list(range(rank))
    if len(node.inputs) > 1 and node.inputs[1]:
        given = tensors.constant(node.inputs[1])
        if given is None:
            return None
        axes = sorted({int(axis) % rank for axis in given})
    if not axes or operand.dtype != "f32" or (len(axes) == rank and node.attrs["noop_with_empty_axes"]):
        return None
    kept = [axis for axis in range(rank) if axis not in axes]
    view = operand.view.transposed(kept + axes)
    return ReduceRoutine(kind, replace(operand, view=view), len(axes))
