"""Which nodes are computed on tensors that lie dense, rather than on images in blocks.

Convolutions, pools and what follows them position by position stay images. Everything that no image kernel
takes is a tensor node, and so is everything behind one, up to the next convolution or pool, or what brings
its operands onto a grid; and all of a program that has neither.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from tensmith.backend.native.images import images_of
from tensmith.backend.native.steps.image_elementwise import is_elementwise
from tensmith.backend.native.steps.integers import operands
from tensmith.backend.native.steps.parts import padded_slice
from tensmith.errors import EngineError
from tensmith.ir import Node, Program
from tensmith.ir.handlers import Handlers
from tensmith.ir.ops.elementwise import Elementwise
from tensmith.ir.ops.quantization import OnGrid

# Whether an image kernel computes a node of an op that has kernels on images alone; EngineError if not, too.
_kernels = Handlers[Callable[[Program, Node], bool]]()
# The same of ops that have kernels on tensors, too.
_others = Handlers[Callable[[Program, Node], bool]]()


def tensor_nodes(program: Program) -> frozenset[Node]:
    """The nodes that read and make dense tensors."""
    found: set[Node] = set()
    computed = [node for node in program.nodes if node.output not in program.static_values]
    kept = {node for node in computed if _is_kernel(program, node)}
    images = bool(kept)
    for node in computed:
        if node in kept:
            continue
        behind = any(program.producers.get(name) in found for name in node.inputs if name)
        if behind or not (images or node.op == "softmax") or not _on_images(program, node):
            found.add(node)
    for node in reversed(computed):
        readers = program.consumers.get(node.output, ())
        if node.kind(OnGrid) is not None and readers and found.isdisjoint(readers):
            found.discard(node)
    return frozenset(found)


def _is_kernel(program: Program, node: Node) -> bool:
    """Whether an image kernel computes a convolution, pool or padding; all others run by their formulas."""
    fits = _kernels.find(node)
    if fits is None:
        return False
    try:
        images_of(program, node.inputs[0]), images_of(program, node.output)
        return fits(program, node)
    except EngineError:
        return False


@_kernels("conv")
def _constant_weights(program: Program, node: Node) -> bool:
    return all(name in program.static_values for name in node.inputs[1:] if name)


@_kernels("max_pool", "average_pool")
def _flat_window(program: Program, node: Node) -> bool:
    return len(node.attrs["kernel_shape"]) == 2 and len(node.outputs) == 1


@_kernels("global_average_pool", "global_max_pool", "batch_normalization")
def _always(program: Program, node: Node) -> bool:
    return True


@_kernels("pad")
def _pads_images(program: Program, node: Node) -> bool:
    padded_slice(program, node, None)
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
    if node.traits.renames:
        return before[0].batch == after.batch
    fits = _others.find(node)
    if fits is not None:
        return fits(program, node)
    if not is_elementwise(program, node):
        return False
    return all(_fits(program, node, name) for name in node.inputs if name)


@_others("gemm", "matmul")
def _is_layer(program: Program, node: Node) -> bool:
    """One row times a constant matrix; rows of bytes have kernels on images alone."""
    if operands(program, node) is not None:
        return True
    computed = [name for name in node.inputs if name and name not in program.static_values]
    shape = program.type(node.inputs[0]).static or ()
    plain = not bool(node.attrs.get("transA", 0)) and computed == [node.inputs[0]]
    return bool(len(shape) == 2 and plain and images_of(program, computed[0]).batch == 1)


@_others("concat", "softmax")
def _along_channels(program: Program, node: Node) -> bool:
    return bool(node.attrs["axis"] % len(program.type(node.output).dims) == 1)


@_others("slice")
def _cuts_images(program: Program, node: Node) -> bool:
    try:
        padded_slice(program, None, node)
    except EngineError:
        return False
    return True


@_others("reduce_mean", "reduce_max")
def _over_space(program: Program, node: Node) -> bool:
    axes = program.constants.get(node.inputs[1]) if len(node.inputs) > 1 else None
    rank = len(program.type(node.inputs[0]).dims)
    return rank == 4 and axes is not None and sorted(int(a) % 4 for a in axes) == [2, 3]


def _fits(program: Program, node: Node, value: str) -> bool:
    """Whether an operand is as large as the result, one position of it, one number a channel, or a number."""
    shape = program.type(value).static or ()
    whole = program.type(node.output).static or ()
    if value in program.static_values:
        aligned = (1,) * (len(whole) - len(shape)) + shape
        channel = len(whole) > 1 and aligned[1] == math.prod(shape) == whole[1]
        return math.prod(shape) == 1 or channel or node.kind(Elementwise) is None
    return len(shape) == len(whole) and (shape == whole or shape == (*whole[:2], *([1] * (len(whole) - 2))))
