"""Convolutions, and products with constant matrices, as heavy steps, and what their epilogues compute.

Of images, channels are the second axis; of rows, that is of tensors, the last.
"""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from tensmith.backend.native.steps.coded_weights import LayerWeights, coded_weights
from tensmith.backend.native.steps.curves import function_behind
from tensmith.backend.native.steps.graph import StepGraph
from tensmith.backend.native.steps.operands import Free
from tensmith.backend.native.steps.patterns import addend
from tensmith.backend.native.steps.step import Heavy
from tensmith.formula.arith import Array
from tensmith.ir import Node
from tensmith.ir.ops.convolution import window_attrs
from tensmith.ir.ops.product import Product
from tensmith.ir.ops.sizes import as_ints
from tensmith.kernel.problem import ConvolutionProblem, product
from tensmith.kernel.sparse_stream import density, quads, strips


def layer(graph: StepGraph, node: Node, inputs: tuple[str, ...]) -> Heavy | None:
    """A conv, gemm or matmul, reading `inputs`, as a heavy step; None if it is none by constant weights."""
    kind = node.kind(Product)
    static = all(name in graph.constants for name in inputs[1:] if name)
    if kind is None or not static or inputs[0] in graph.constants:
        return None
    if kind.windowed and inputs[0] not in graph.images:  # of volumes
        return None
    return _convolution(graph, node, inputs) if kind.windowed else _product(graph, node, inputs)


def _convolution(graph: StepGraph, node: Node, inputs: tuple[str, ...]) -> Heavy:
    """A convolution of images; sequences are images of one row."""
    weights = np.asarray(graph.constants[inputs[1]], np.float32)
    images = graph.images[inputs[0]]
    axes = weights.ndim - 2
    given = window_attrs(node.attrs, images.extent[-axes:], weights.shape[2:])
    strides, dilations, pads = map(as_ints, given)
    if axes == 1:
        weights = weights[:, :, None]
        strides, dilations, pads = (1, *strides), (1, *dilations), (0, pads[0], 0, pads[1])
    problem = ConvolutionProblem(
        images.channels, images.height, images.width, weights.shape[0], window=weights.shape[2:],
        strides=(strides[0], strides[1]), pads=(pads[0], pads[1], pads[2], pads[3]),
        dilations=(dilations[0], dilations[1]), groups=node.attrs["group"], density=density(weights),
        quads=quads(weights), strips=strips(weights),
    )  # fmt: skip
    bias = np.asarray(graph.constants[inputs[2]], np.float32) if any(inputs[2:]) else None
    return Heavy(problem, inputs[0], weights, node.output, bias)


def _product(graph: StepGraph, node: Node, inputs: tuple[str, ...]) -> Heavy | None:
    """rows @ matrix (+ bias)."""
    attrs = {"alpha": 1.0, "beta": 1.0, "transA": 0, "transB": 0} | dict(node.attrs)
    shape, source = graph.shapes[inputs[1]], graph.shapes[inputs[0]]
    if len(shape) != 2 or attrs["transA"] or not math.prod(source) or not math.prod(shape):
        return None
    floats = inputs == node.inputs
    if floats and graph.dtypes[inputs[1]] != "f32":
        return None
    columns, inner = shape if attrs["transB"] else shape[::-1]
    bias = None
    if any(inputs[2:]):
        given = graph.constants[inputs[2]]
        if given.size != 1 and (given.size != columns or given.shape[-1] != columns):
            return None
        bias = np.broadcast_to(given.reshape(-1) * np.float32(attrs["beta"]), (columns,))
    coded = coded_weights(graph.program, node) if floats and node in graph.tensors else None
    if coded is None:
        matrix = graph.constants[inputs[1]]
        turned = (matrix if attrs["transB"] else matrix.T) * np.float32(attrs["alpha"])
        coded = LayerWeights(turned[:, :, None, None])
    if node in graph.tensors:
        problem = product(math.prod(source[:-1]), inner, columns, coded.dtype, coded.block)
        return Heavy(problem, inputs[0], coded.weights, node.output, bias)
    return _of_flattened(
        graph, Heavy(product(1, inner, columns), inputs[0], coded.weights, node.output, bias)
    )


def _of_flattened(graph: StepGraph, step: Heavy) -> Heavy:
    """A fully connected layer; of flattened images, it is a convolution by a window as large as they are."""
    producer = graph.program.producers.get(step.source)
    source = step.source
    if producer is not None and producer.traits.renames:
        before, after = graph.shapes[producer.inputs[0]], graph.shapes[source]
        if len(before) == 4 and len(after) == 2 and before[0] == after[0]:
            source = producer.inputs[0]
    images = graph.images[source]
    weights = step.weights.reshape(-1, images.channels, *images.extent)
    problem = ConvolutionProblem(
        images.channels, *images.extent, len(weights), window=images.extent, density=density(weights),
        quads=quads(weights), strips=strips(weights),
    )  # fmt: skip
    return replace(step, problem=problem, source=source, weights=weights)


def numbers_of_channels(graph: StepGraph, value: str, output: str, rows: bool) -> Array | None:
    """One number a channel, that a constant adds to `output`; None if it does not."""
    constant, shape = graph.constants.get(value), graph.shapes[output]
    if constant is None:
        return None
    axis = len(shape) - 1 if rows else 1
    aligned = (1,) * (len(shape) - constant.ndim) + constant.shape
    wanted = tuple(size if a == axis else 1 for a, size in enumerate(shape))
    return constant.reshape(-1) if aligned == wanted else None


def with_epilogue(graph: StepGraph, step: Heavy, free: Free, rows: bool) -> tuple[Heavy, list[Node]] | None:
    """The step with one thing more in its epilogue, and the nodes that this computes."""
    readers = graph.program.consumers.get(step.output, ())
    if step.output in graph.program.outputs:
        return None
    other = addend(readers[0], step.output) if len(readers) == 1 and readers[0] in free else None
    found = _added(graph, step, readers[0], other, rows) if other else None
    if found is not None:
        return found, [readers[0]]
    following = function_behind(graph, step.output, free)
    if following is None:
        return None
    return replace(step, activation=following[0], output=following[1][-1].output), following[1]


def _added(graph: StepGraph, step: Heavy, node: Node, other: str, rows: bool) -> Heavy | None:
    """The step with another bias, or with its residual."""
    if step.residual is not None or graph.shapes[node.output] != graph.shapes[step.output]:
        return None
    if other in graph.constants:
        more = numbers_of_channels(graph, other, node.output, rows)
        if more is None:
            return None
        return replace(step, bias=more + (0 if step.bias is None else step.bias), output=node.output)
    same = graph.shapes[other] == graph.shapes[step.output]
    return replace(step, residual=other, output=node.output) if same else None
