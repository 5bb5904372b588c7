"""Products of quantized rows by int8 matrices: what `quantized` finds, for tensors."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from tensmith.backend.native.steps.integers import operands
from tensmith.backend.native.steps.operands import Free, TensorOperands
from tensmith.backend.native.steps.requantization import Behind, rescaled
from tensmith.backend.native.steps.step import Array, Heavy
from tensmith.backend.native.steps.sums import addend
from tensmith.backend.native.steps.tensor_elementwise import curve
from tensmith.ir import Node
from tensmith.kernel.epilogue import Activation
from tensmith.kernel.problem import product


def byte_layer(tensors: TensorOperands, node: Node, free: Free) -> tuple[Heavy, list[Node]] | None:
    """rows @ matrix (+ bias) of bytes as a step, and the nodes it stands for; None if it is no such."""
    given = operands(tensors.program, node)
    if given is None or node.attrs.get("transA", 0):
        return None
    source, matrix = given.node.inputs[:2]
    codes, shape = tensors.constant(matrix), tensors.shape(source)
    rows = math.prod(shape[:-1])
    if codes is None or codes.ndim != 2 or not rows or not codes.size or tensors.dtype(source) != "u8":
        return None
    weights = codes if node.attrs.get("transB", 0) else codes.T
    problem = product(rows, weights.shape[1], weights.shape[0])
    step = Heavy(problem, tensors.name(source), weights[:, :, None, None], node.output)
    taken = [one for one in tensors.program.nodes if not free(one)]
    behind = RowsBehind(tensors.program, node.output, taken, given.bias, tensors=tensors, free=free)
    found = rescaled(step, given, node, behind)
    if found is None:
        return None
    return named(tensors, found[0]), found[1]


def named(tensors: TensorOperands, step: Heavy) -> Heavy:
    """The step with what it adds and what it makes called by their names as tensors."""
    residual = tensors.name(step.residual) if step.residual else None
    return replace(step, output=tensors.name(step.output), residual=residual)


@dataclass(kw_only=True)
class RowsBehind(Behind):
    """What stands behind a product of rows: a bias has one number a column, functions are spelled out."""

    tensors: TensorOperands
    free: Free

    def _constant(self, node: Node, value: str) -> Array | None:
        other = addend(node, value)
        constant = self.tensors.constant(other) if other else None
        columns = self.tensors.shape(value)[-1]
        if constant is None or constant.shape[-1:] != (columns,) or constant.size != columns:
            return None
        return np.asarray(constant.reshape(-1), np.float32)

    def _function(self) -> tuple[Activation, list[Node]] | None:
        return curve(self.tensors, self.value, self.free)

    def _kept(self, value: str) -> Any:
        name, grid = super()._kept(value)
        return (name, grid) if self.tensors.dtype(name) in ("u8", "f32") else (value, grid)
