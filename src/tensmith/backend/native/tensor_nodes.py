"""Which nodes are computed on tensors that lie dense, rather than on images in blocks.

Convolutions, pools and what follows them position by position stay images. Everything that no image kernel
takes is a tensor node, and so is everything behind one, up to the next convolution or pool, or what brings
its operands onto a grid; and all of a program that has neither.
"""

from __future__ import annotations

import math

from tensmith.backend.native.image_steps.elementwise import is_elementwise
from tensmith.backend.native.image_steps.parts import padded_slice
from tensmith.backend.native.images import images_of
from tensmith.backend.native.quantized.operands import operands
from tensmith.backend.native.views import RESHAPING
from tensmith.errors import EngineError
from tensmith.ir import Node, Program

# Kernels of their own for these exist on images alone.
_IMAGES = frozenset({
    "conv", "max_pool", "average_pool", "global_average_pool", "global_max_pool", "batch_normalization",
    "pad",
})  # fmt: skip
_PAIR = frozenset({"quantize_linear", "dequantize_linear"})


def tensor_nodes(program: Program) -> frozenset[Node]:
    """The nodes that read and make dense tensors."""
    found: set[Node] = set()
    computed = [node for node in program.nodes if node.output not in program.static_values]
    kept = {node for node in computed if node.op in _IMAGES and _is_kernel(program, node)}
    images = bool(kept)
    for node in computed:
        if node in kept:
            continue
        behind = any(program.producers.get(name) in found for name in node.inputs if name)
        if behind or not (images or node.op == "softmax") or not _on_images(program, node):
            found.add(node)
    for node in reversed(computed):
        readers = program.consumers.get(node.output, ())
        if node.op in _PAIR and readers and found.isdisjoint(readers):
            found.discard(node)
    return frozenset(found)


def _is_kernel(program: Program, node: Node) -> bool:
    """Whether an image kernel computes a convolution, pool or padding; all others run by their formulas."""
    try:
        images_of(program, node.inputs[0]), images_of(program, node.output)
        if node.op == "pad":
            padded_slice(program, node, None)
    except EngineError:
        return False
    if node.op == "conv":
        return all(name in program.static_values for name in node.inputs[1:] if name)
    if node.op in ("max_pool", "average_pool"):
        return len(node.attrs["kernel_shape"]) == 2 and len(node.outputs) == 1
    return True


def _on_images(program: Program, node: Node) -> bool:
    """Whether an image kernel computes a node that is no convolution or pool."""
    computed = [name for name in node.inputs if name and name not in program.static_values]
    try:
        before = [images_of(program, name) for name in computed]
        after = images_of(program, node.output)
    except EngineError:
        return False
    if not before or len(node.outputs) > 1:
        return False
    if node.op in ("gemm", "matmul"):
        return _is_layer(program, node, computed, before[0].batch)
    if node.op in RESHAPING:
        return before[0].batch == after.batch
    rank = len(program.type(node.output).dims)
    if node.op in ("concat", "softmax"):
        return bool(node.attrs["axis"] % rank == 1)
    if node.op == "slice":
        return _cuts_images(program, node)
    if node.op in ("reduce_mean", "reduce_max"):
        axes = program.constants.get(node.inputs[1]) if len(node.inputs) > 1 else None
        rank = len(program.type(node.inputs[0]).dims)
        return rank == 4 and axes is not None and sorted(int(a) % 4 for a in axes) == [2, 3]
    if not is_elementwise(program, node):
        return False
    return all(_fits(program, node, name) for name in node.inputs if name)


def _is_layer(program: Program, node: Node, computed: list[str], batch: int) -> bool:
    """One row times a constant matrix; rows of bytes have kernels on images alone."""
    if operands(program, node) is not None:
        return True
    shape = program.type(node.inputs[0]).static or ()
    plain = not bool(node.attrs.get("transA", 0)) and computed[0] == node.inputs[0]
    return bool(len(computed) == 1 and len(shape) == 2 and batch == 1 and plain)


def _cuts_images(program: Program, node: Node) -> bool:
    try:
        padded_slice(program, None, node)
    except EngineError:
        return False
    return True


def _fits(program: Program, node: Node, value: str) -> bool:
    """Whether an operand is as large as the result, one position of it, one number a channel, or a number."""
    shape = program.type(value).static or ()
    whole = program.type(node.output).static or ()
    if value in program.static_values:
        aligned = (1,) * (len(whole) - len(shape)) + shape
        channel = len(whole) > 1 and aligned[1] == math.prod(shape) == whole[1]
        return math.prod(shape) == 1 or channel or node.op not in ("add", "sub", "mul", "div", "max", "min")
    return len(shape) == len(whole) and (shape == whole or shape == (*whole[:2], *([1] * (len(whole) - 2))))
