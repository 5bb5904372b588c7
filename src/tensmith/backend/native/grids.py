"""Bytes in programs: which grid a value lies on, and dequantizations moved behind ops that only move values.

Signed bytes are kept as unsigned ones: 128 is added to them and to their zero point.
"""

from __future__ import annotations

from collections.abc import Container
from dataclasses import replace

import numpy as np

from tensmith.errors import EngineError
from tensmith.ir import Node, Program, make_node
from tensmith.kernel.quantized import Grid

_SIGNED_OFFSET = {"u8": 0, "i8": 128}
# Ops whose result is some of their inputs' elements.
_MOVING = frozenset({
    "max_pool", "concat", "flatten", "reshape", "squeeze", "unsqueeze", "identity", "transpose", "slice",
    "expand",
})  # fmt: skip


def grid_of(program: Program, node: Node) -> Grid | None:
    """The grid of a quantize_linear or dequantize_linear; None if it is not one grid of bytes for all."""
    if node.op not in ("quantize_linear", "dequantize_linear"):
        return None
    codes = node.output if node.op == "quantize_linear" else node.inputs[0]
    offset = _SIGNED_OFFSET.get(program.type(codes).dtype)
    scale = program.constants.get(node.inputs[1])
    has_zero = len(node.inputs) > 2 and bool(node.inputs[2])
    zero = program.constants.get(node.inputs[2]) if has_zero else np.zeros(1, np.int64)
    if offset is None or scale is None or scale.size != 1 or zero is None or scale.dtype != np.float32:
        return None
    return Grid(float(scale.reshape(())), int(zero.reshape(-1)[0]) + offset)


def grids(program: Program, tensors: Container[str] = ()) -> dict[str, Grid]:
    """The grid of every computed value of bytes, as those who read it understand it.

    Values in `tensors` have element types of their own.
    """
    found: dict[str, Grid] = {}
    for node in program.nodes:
        grid = grid_of(program, node)
        if grid is None or node.output in program.static_values:
            continue
        value = node.output if node.op == "quantize_linear" else node.inputs[0]
        if found.setdefault(value, grid).zero_point != grid.zero_point:
            raise EngineError(f"'{value}' is read with two zero points, which has no native kernel")
    for node in reversed(program.nodes):
        if node.op in _MOVING and node.output in found:
            found.update({name: found[node.output] for name in node.inputs if name not in found})
    for name in (*program.inputs, *program.outputs):
        dtype = program.type(name).dtype
        if name in tensors:
            continue
        if dtype != "f32" and (dtype != "u8" or name not in found):
            raise EngineError(f"'{name}' is {dtype} at the border of the program: there is no native kernel")
    return found


def unsigned(program: Program) -> Program:
    """Signed codes that dequantizations alone read, as unsigned ones: 128 is added, to zero points too."""
    nodes = {node: node for node in program.nodes}
    constants = dict(program.constants)

    def raised(node: Node) -> Node:
        name = node.inputs[2]
        constants[f"{name} raised"] = (constants[name].astype(np.int16) + 128).astype(np.uint8)
        return replace(node, inputs=(*node.inputs[:2], f"{name} raised"))

    for node in program.nodes:
        readers = program.consumers.get(node.output, ())
        if node.op != "quantize_linear" or node.output in program.outputs or not readers:
            continue
        ends = (node, *readers)
        zeros = [constants.get((*one.inputs, "", "")[2]) for one in ends]
        plain = all(zero is not None and zero.dtype == np.int8 for zero in zeros)
        if plain and all(reader.op == "dequantize_linear" for reader in readers):
            nodes |= {one: raised(one) for one in ends}
    return replace(program, nodes=tuple(nodes.values()), constants=constants, _known={})


def moved_behind(program: Program) -> Program:
    """f(dequantize(x)) as dequantize(f(x)) for ops f that only move values, and no pair on one grid.

    Exact: f commutes with any rising function, and quantize(dequantize(x)) is x on one grid. What is
    quantized after a concatenation is quantized before it, so that its parts are written as bytes.
    """
    program = _parts_first(program)
    producers: dict[str, Node] = {}
    same: dict[str, str] = {}
    nodes: list[Node] = []
    for old in program.nodes:
        node = replace(old, inputs=tuple(same.get(name, name) for name in old.inputs))
        before = [producers.get(name) for name in node.inputs]
        source = before[0] if before else None
        inner = node.op == "quantize_linear" and node.output not in program.outputs
        if inner and source is not None and _one_grid(program, [source, node]):
            same[node.output] = source.inputs[0]
            continue
        behind = _behind(program, node, before)
        for new in behind:
            if new.op == "dequantize_linear" and new.inputs[0] not in program.static_values:
                producers[new.output] = new
        nodes += behind
    return replace(program, nodes=tuple(nodes), _known={})


def _parts_first(program: Program) -> Program:
    """quantize(concat(x, y)) as concat(quantize(x), quantize(y))."""
    nodes: list[Node] = []
    gone: set[Node] = set()
    for node in program.nodes:
        readers = program.consumers.get(node.output, ())
        alone = node.op == "concat" and len(readers) == 1 and node.output not in program.outputs
        if alone and readers[0].op == "quantize_linear" and grid_of(program, readers[0]) is not None:
            last = readers[0]
            gone.add(last)
            parts = [f"{last.output} part {index}" for index in range(len(node.inputs))]
            nodes += [
                replace(last, inputs=(name, *last.inputs[1:]), outputs=(part,))
                for name, part in zip(node.inputs, parts)
            ]
            nodes.append(replace(node, inputs=tuple(parts), outputs=last.outputs))
        elif node not in gone:
            nodes.append(node)
    return replace(program, nodes=tuple(nodes), _known={})


def _behind(program: Program, node: Node, before: list[Node | None]) -> list[Node]:
    """The nodes that take a node's place."""
    moved = before if node.op == "concat" else before[:1]
    known = [source for source in moved if source is not None]
    if node.op not in _MOVING or len(node.outputs) > 1 or not known or len(known) < len(moved):
        return [node]
    if not _one_grid(program, known):
        return [node]
    codes = f"{node.output} as bytes"
    inputs = (*(source.inputs[0] for source in known), *node.inputs[len(known) :])
    first = known[0]
    return [
        replace(node, inputs=inputs, outputs=(codes,)),
        make_node(first.op, (codes, *first.inputs[1:]), (node.output,), dict(first.attrs)),
    ]


def _one_grid(program: Program, nodes: list[Node]) -> bool:
    """Whether all nodes quantize or dequantize on one grid of bytes, of one sign."""
    found = set()
    for node in nodes:
        scale, zero = (program.constants.get(name) for name in (*node.inputs[1:], "", "")[:2])
        if scale is None or scale.size != 1 or zero is None or zero.dtype.itemsize != 1:
            return False
        found.add((float(scale.reshape(())), int(zero.reshape(-1)[0]), zero.dtype.name))
    return len(found) == 1
