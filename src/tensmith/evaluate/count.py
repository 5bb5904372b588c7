"""What a program does, counted: multiply-adds and bytes of each node, for the roofline and for energy."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace

import numpy as np

from tensmith.formula.poly import Poly
from tensmith.hardware import Target
from tensmith.hardware.cost import OpCost, op_seconds
from tensmith.ir import Node, Program, TensorType
from tensmith.ir.ops.quantization import decodes, encodes

_COST_DTYPES = {"f16": "fp16", "bf16": "bf16"}
# Ops that engines take into the kernel beside them: a quantized convolution reads and writes 8-bit values.
_SCAFFOLDING = frozenset({"quantize_linear", "dequantize_linear", "identity"})


def node_costs(program: Program, sizes: Mapping[str, int] | None = None) -> Iterator[tuple[Node, OpCost]]:
    """Each node with its cost, symbolic sizes taken from `sizes` (1 where not given); without `uncounted`."""
    for node in program.nodes:
        if node.opaque is not None or _scaffolds(node):
            continue
        given = [_fixed(program, name, sizes or {}) for name in node.inputs]
        made = [_fixed(program, name, sizes or {}) for name in node.outputs]
        if any(t is None for t in (*given, *made)):
            continue
        macs = node.definition.cost(replace(program.call(node), types=tuple(given)), tuple(made))
        read = sum(_moved(program, name, type_) for name, type_ in zip(node.inputs, given) if type_)
        written = sum(_moved(program, name, type_) for name, type_ in zip(node.outputs, made) if type_)
        elements = 0 if macs else sum(_elements(type_) for type_ in made if type_)
        yield node, OpCost(macs, elements, read, written, _computed_in(program, node))


def uncounted(program: Program, sizes: Mapping[str, int] | None = None) -> list[Node]:
    """The nodes whose work is not known: opaque operators, what follows them without a shape, and what has no
    shape at such sizes."""
    counted = {node.output for node, _ in node_costs(program, sizes)}
    return [node for node in program.nodes if not _scaffolds(node) and node.output not in counted]


def _scaffolds(node: Node) -> bool:
    return node.op in _SCAFFOLDING


def node_seconds(
    target: Target, sizes: Mapping[str, int] | None = None, threads: int = 1, *, multiplying: bool = False
) -> Callable[[Program], dict[str, float]]:
    """Programs -> seconds that each node takes at best on the target, by its first output.

    multiplying: of those alone that do multiply-adds.
    """

    def seconds(program: Program) -> dict[str, float]:
        counted = node_costs(program, sizes)
        return {n.output: op_seconds(target, c, threads) for n, c in counted if c.macs or not multiplying}

    return seconds


def _fixed(program: Program, name: str, sizes: Mapping[str, int]) -> TensorType | None:
    type_ = program.facts[name].type if name else None
    if type_ is None or type_.shape is None:
        return None
    dims = [
        int(dim.evaluate({s: sizes.get(s, 1) for s in dim.symbols()})) if isinstance(dim, Poly) else dim
        for dim in type_.shape
    ]
    return None if any(dim < 0 for dim in dims) else type_.with_shape(dims)


def _elements(type_: TensorType) -> int:
    return int(np.prod(type_.static or (0,), dtype=np.int64))


def _moved(program: Program, name: str, type_: TensorType) -> float:
    """Bytes of a value as it is stored: 8-bit where a quantization stands around it."""
    source = program.producers.get(name)
    if source is not None and decodes(source):
        type_ = type_.with_dtype(program.type(source.inputs[0]).dtype)
    readers = program.consumers.get(name, ())
    if readers and all(encodes(reader) for reader in readers):
        type_ = type_.with_dtype(program.type(readers[0].output).dtype)
    return _elements(type_) * type_.bits / 8


def _computed_in(program: Program, node: Node) -> str:
    stored = []
    for name in node.inputs[:2]:
        source = program.producers.get(name) if name else None
        stored.append(source is not None and decodes(source))
    if len(stored) == 2 and all(stored):
        return "int8"
    first = program.facts[node.inputs[0]].type if node.inputs and node.inputs[0] else None
    if first is not None and first.dtype in ("u8", "i8"):
        return "int8"
    return _COST_DTYPES.get(first.dtype, "fp32") if first else "fp32"
