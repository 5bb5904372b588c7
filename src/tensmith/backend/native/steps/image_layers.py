"""Convolutions and fully connected layers of images as heavy steps."""

from __future__ import annotations

import numpy as np

from tensmith.backend.native.images import images_of
from tensmith.backend.native.steps.step import Array, Heavy
from tensmith.errors import EngineError
from tensmith.ir import Node, Program, interpret
from tensmith.ir.ops.convolution import window_attrs
from tensmith.ir.ops.product import Product
from tensmith.ir.ops.sizes import as_ints
from tensmith.kernel.problem import ConvolutionProblem
from tensmith.kernel.sparse_stream import density, quads, strips


def _constant(program: Program, node: Node, index: int) -> Array:
    name = node.inputs[index]
    if name in program.constants:
        return np.asarray(program.constants[name], np.float32)
    if name not in program.static_values:
        raise EngineError(f"{node.label} multiplies two computed tensors, which has no native kernel yet")
    wanted = {name}
    for part in reversed(program.nodes):
        wanted.update(part.inputs if wanted & set(part.outputs) else ())
    nodes = tuple(part for part in program.nodes if wanted & set(part.outputs))
    alone = Program("constant", {}, (name,), nodes, program.constants)
    return np.asarray(interpret(alone, {})[name], np.float32)


def layer(program: Program, node: Node) -> Heavy:
    """A conv, gemm or matmul by a constant as a heavy step; EngineError if no kernel computes it."""
    product = node.kind(Product)
    return (_convolution if product is not None and product.windowed else _product)(program, node)


def _convolution(program: Program, node: Node) -> Heavy:
    """A convolution of images; sequences are images of one row."""
    weights = _constant(program, node, 1)
    images = images_of(program, node.inputs[0])
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
    bias = _constant(program, node, 2) if len(node.inputs) > 2 and node.inputs[2] else None
    return Heavy(problem, node.inputs[0], weights, node.output, bias)


def _product(program: Program, node: Node) -> Heavy:
    """A fully connected layer; of flattened images, it is a convolution by a window as large as they are."""
    matrix = _constant(program, node, 1)
    attrs = {"alpha": 1.0, "beta": 1.0, "transA": 0, "transB": 0} | dict(node.attrs)
    if matrix.ndim != 2 or attrs["transA"] or program.type(node.inputs[0]).rank != 2:
        raise EngineError(f"{node.label} is no product of rows with a matrix; it has no native kernel yet")
    weights = (matrix if attrs["transB"] else matrix.T) * np.float32(attrs["alpha"])
    bias = None
    if len(node.inputs) > 2 and node.inputs[2]:
        scaled = _constant(program, node, 2) * np.float32(attrs["beta"])
        if scaled.ndim > 1 and scaled.shape[0] != 1:
            raise EngineError(f"{node.label} adds a matrix, which has no native kernel yet")
        bias = np.broadcast_to(scaled.reshape(-1), weights.shape[:1])
    source = _flattened(program, node.inputs[0])
    images = images_of(program, source)
    window = images.extent
    weights = weights.reshape(-1, images.channels, *window)
    problem = ConvolutionProblem(
        images.channels, *window, len(weights), window=window, density=density(weights),
        quads=quads(weights), strips=strips(weights),
    )  # fmt: skip
    return Heavy(problem, source, weights, node.output, bias)


def _flattened(program: Program, value: str) -> str:
    """What `value` flattens to rows; itself if it is no flattening."""
    producer = program.producers.get(value)
    if producer is None or not producer.traits.renames or program.type(value).rank != 2:
        return value
    before = program.type(producer.inputs[0]).static
    after = program.type(value).static
    same = before is not None and after is not None and len(before) == 4 and before[0] == after[0]
    return producer.inputs[0] if same else value
