"""Products of rows by constant matrices as heavy steps, and what their epilogues compute."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np

from tensmith.backend.native.steps.coded_weights import LayerWeights, coded_weights
from tensmith.backend.native.steps.operands import Free, TensorOperands
from tensmith.backend.native.steps.step import Heavy
from tensmith.backend.native.steps.sums import addend
from tensmith.backend.native.steps.tensor_elementwise import curve
from tensmith.ir import Node
from tensmith.kernel.problem import product


def layer(tensors: TensorOperands, node: Node) -> Heavy | None:
    """rows @ matrix (+ bias); None if the operands are no such."""
    attrs = {"alpha": 1.0, "beta": 1.0, "transA": 0, "transB": 0} | dict(node.attrs)
    source, shape = tensors.shape(node.inputs[0]), tensors.shape(node.inputs[1])
    if len(shape) != 2 or tensors.dtype(node.inputs[1]) != "f32" or attrs["transA"]:
        return None
    if node.inputs[0] in tensors.program.static_values or not math.prod(source) or not math.prod(shape):
        return None
    columns, inner = shape if attrs["transB"] else shape[::-1]
    found = coded_weights(tensors.program, node) or _floats(tensors, node, attrs)
    problem = product(math.prod(source[:-1]), inner, columns, found.dtype, found.block)
    bias = None
    if len(node.inputs) > 2 and node.inputs[2]:
        given = tensors.constant(node.inputs[2])
        if given is None or (given.size != 1 and given.shape != (columns,) != given.shape[1:]):
            return None
        bias = np.broadcast_to(given.reshape(-1) * np.float32(attrs["beta"]), (columns,))
    return Heavy(problem, tensors.name(node.inputs[0]), found.weights, node.output, bias)


def _floats(tensors: TensorOperands, node: Node, attrs: dict[str, Any]) -> LayerWeights:
    """A constant matrix as it is."""
    matrix = tensors.constant(node.inputs[1])
    assert matrix is not None
    turned = (matrix if attrs["transB"] else matrix.T) * np.float32(attrs["alpha"])
    return LayerWeights(turned[:, :, None, None])


def with_epilogue(tensors: TensorOperands, step: Heavy, free: Free) -> tuple[Heavy, list[Node]] | None:
    """The step with one thing more in its epilogue, and the nodes that this computes."""
    readers = tensors.program.consumers.get(step.output, ())
    if step.output in tensors.program.outputs:
        return None
    other = addend(readers[0], step.output) if len(readers) == 1 and free(readers[0]) else None
    found = _added(tensors, step, readers[0], other) if other else None
    if found is not None:
        return found, [readers[0]]
    following = curve(tensors, step.output, free)
    if following is None:
        return None
    return replace(step, activation=following[0], output=following[1][-1].output), following[1]


def _added(tensors: TensorOperands, step: Heavy, node: Node, other: str) -> Heavy | None:
    shape = tensors.shape(node.output)
    if shape != tensors.shape(step.output):
        return None
    constant = tensors.constant(other)
    if constant is not None:
        if step.residual is not None or constant.shape[-1:] != shape[-1:] or constant.size != shape[-1]:
            return None
        bias = constant.reshape(-1) + (0 if step.bias is None else step.bias)
        return replace(step, bias=bias, output=node.output)
    if step.residual is not None or tensors.shape(other) != shape:
        return None
    return replace(step, residual=tensors.name(other), output=node.output)
