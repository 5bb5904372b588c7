"""Which nodes are computed on tensors that lie dense, rather than on images in blocks.

Convolutions, pools and what follows them position by position stay images. Everything that no image kernel
takes is a tensor node, and so is everything behind one, up to the next convolution or pool, or what brings
its operands onto a grid; and all of a program that has neither.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace

from tensmith.backend.native.invented import invented
from tensmith.backend.native.steps.elementwise import is_elementwise
from tensmith.backend.native.steps.graph import StepGraph
from tensmith.backend.native.steps.parts import cuts, padded_slice
from tensmith.backend.native.steps.single import over_images
from tensmith.errors import EngineError
from tensmith.ir import Node
from tensmith.ir.handlers import Handlers
from tensmith.ir.ops.elementwise import Elementwise
from tensmith.ir.ops.pooling import GlobalPool, Pool
from tensmith.ir.ops.product import Product
from tensmith.ir.ops.quantization import OnGrid, decodes

# Whether an image kernel computes a node of an op that has kernels on images alone.
_kernels = Handlers[Callable[[StepGraph, Node], bool]]()


def placed(graph: StepGraph) -> StepGraph:
    """The graph with its tensor nodes, and what each value is called where it lies as a tensor."""
    program, found = graph.program, set[Node]()
    computed = [node for node in program.nodes if node.output not in graph.constants]
    kept = {node for node in computed if _is_kernel(graph, node)}
    for node in computed:
        if node in kept:
            continue
        behind = any(program.producers.get(name) in found for name in node.inputs if name)
        if behind or not kept or not _on_images(graph, node):
            found.add(node)
    for node in reversed(computed):
        readers = program.consumers.get(node.output, ())
        if node in graph.parameters and readers and found.isdisjoint(readers):
            found.discard(node)
    tensors = frozenset(found)
    names = {
        value: invented(value, "as a tensor") if _both(graph, tensors, value) else value
        for value in graph.shapes
    }
    result = replace(graph, tensors=tensors, names=names)
    for value in graph.quantized:
        if graph.dtypes[value] == "i8" and value not in graph.constants:
            _check_signed(result, value)
    return result


def _check_signed(graph: StepGraph, value: str) -> None:
    """EngineError where signed codes, which images keep with 128 added, meet who would read or write them as
    they are."""
    producer = graph.program.producers.get(value)
    touching = [*graph.program.consumers.get(value, ()), *([producer] if producer else [])]
    for node in touching:
        moved = value in node.picked or (value == node.output and bool(node.picked))
        images = node not in graph.tensors
        if graph.names[value] != value or (images and not moved and node.kind(OnGrid) is None):
            raise EngineError(
                f"{node.label} takes the signed codes '{value}', which has no native kernel yet"
            )


def _both(graph: StepGraph, tensors: frozenset[Node], value: str) -> bool:
    """Whether image nodes make a value and tensor nodes read it, or the other way round.

    Who reads numbers of codes may read the codes.
    """
    program = graph.program
    if value in graph.constants:
        return False
    producer, readers = program.producers.get(value), program.consumers.get(value, ())
    behind = [
        reader for node in readers if decodes(node) for reader in program.consumers.get(node.output, ())
    ]
    touching = (*readers, *behind, *([producer] if producer else []))
    return len({node in tensors for node in touching}) > 1


def _is_kernel(graph: StepGraph, node: Node) -> bool:
    """Whether an image kernel computes a convolution, pool or padding; all others run by their formulas."""
    fits = _kernels.find(node)
    return fits is not None and {node.inputs[0], node.output} <= graph.images.keys() and fits(graph, node)


@_kernels("conv")
def _constant_weights(graph: StepGraph, node: Node) -> bool:
    return node.fixed_by(graph.constants)


@_kernels(Pool, GlobalPool)
def _pools(graph: StepGraph, node: Node) -> bool:
    return over_images(graph, node) is not None


@_kernels("batch_normalization")
def _constant_statistics(graph: StepGraph, node: Node) -> bool:
    return is_elementwise(graph, node)


@_kernels("pad")
def _pads_images(graph: StepGraph, node: Node) -> bool:
    return padded_slice(graph, node, None) is not None


def _on_images(graph: StepGraph, node: Node) -> bool:
    """Whether an image kernel computes a node that is no convolution or pool."""
    computed = [name for name in node.inputs if name and name not in graph.constants]
    if not computed or len(node.outputs) > 1 or not graph.images.keys() >= {*computed, node.output}:
        return False
    first = graph.images[computed[0]]
    if node.traits.renames:
        return first.batch == graph.images[node.output].batch
    if node.kind(Product) is not None:
        return _is_layer(graph, node, computed)
    if cuts(node):
        return padded_slice(graph, None, node) is not None
    if over_images(graph, node) is not None:
        return True
    return is_elementwise(graph, node) and all(_fits(graph, node, name) for name in node.inputs if name)


def _is_layer(graph: StepGraph, node: Node, computed: list[str]) -> bool:
    """One row times a constant matrix; rows of bytes have kernels on images alone."""
    one = computed == [node.inputs[0]] and graph.images[computed[0]].batch == 1
    ranks = [len(graph.shapes[name]) for name in node.inputs[:2]]
    plain = not node.attrs.get("transA", 0) and ranks == [2, 2]
    return plain and (one or node in graph.integers)


def _fits(graph: StepGraph, node: Node, value: str) -> bool:
    """Whether an operand is as large as the result, one position of it, one number a channel, or a number."""
    shape, whole = graph.shapes[value], graph.shapes[node.output]
    if value in graph.constants:
        aligned = (1,) * (len(whole) - len(shape)) + shape
        channel = len(whole) > 1 and aligned[1] == math.prod(shape) == whole[1]
        return math.prod(shape) == 1 or channel or node.kind(Elementwise) is None
    return len(shape) == len(whole) and (shape == whole or shape == (*whole[:2], *([1] * (len(whole) - 2))))
