"""Quantize-dequantize pairs as kernels want them: codes unsigned, dequantized behind what only moves them."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from tensmith.backend.native.prepare.builder import free
from tensmith.backend.native.quantization import parameters_of
from tensmith.ir import Node, Program, make_node
from tensmith.ir.ops.quantization import decodes, encodes

# Scales by which a code comes back from its number: normal, and 255 of them are finite.
_SMALLEST, _LARGEST = float(np.finfo(np.float32).tiny), float(np.finfo(np.float32).max) / 256


def unsigned(program: Program) -> Program:
    """Signed codes that dequantizations alone read, as unsigned ones: 128 is added, to zero points too."""
    nodes = {node: node for node in program.nodes}
    constants = dict(program.constants)

    def raised(node: Node) -> Node:
        zero = constants[node.inputs[2]]
        name = free(f"{node.inputs[2]} raised", program.names)
        constants[name] = (zero.astype(np.int16) + 128).astype(np.uint8)
        return replace(node, inputs=(*node.inputs[:2], name))

    for node in program.nodes:
        readers = program.consumers.get(node.output, ())
        if not encodes(node) or node.output in program.outputs or not readers:
            continue
        ends = (node, *readers)
        zeros = [constants.get((*one.inputs, "", "")[2]) for one in ends]
        plain = all(zero is not None and zero.dtype == np.int8 for zero in zeros)
        if plain and all(map(decodes, readers)):
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
        inner = encodes(node) and node.output not in program.outputs
        if inner and source is not None and _one_grid(program, [source, node]):
            same[node.output] = source.inputs[0]
            continue
        behind = _behind(program, node, before)
        for new in behind:
            if decodes(new) and new.inputs[0] not in program.static_values:
                producers[new.output] = new
        nodes += behind
    return replace(program, nodes=tuple(nodes), _known={})


def _parts_first(program: Program) -> Program:
    """quantize(concat(x, y)) as concat(quantize(x), quantize(y))."""
    nodes: list[Node] = []
    gone: set[Node] = set()
    for node in program.nodes:
        readers = program.consumers.get(node.output, ())
        alone = node.traits.joins and len(readers) == 1 and node.output not in program.outputs
        if alone and encodes(readers[0]) and parameters_of(program, readers[0]) is not None:
            last = readers[0]
            gone.add(last)
            parts = [free(f"{last.output} part {i}", program.names) for i in range(len(node.inputs))]
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
    moved = before[: len(node.picked)]
    known = [source for source in moved if source is not None]
    if len(node.outputs) > 1 or not known or len(known) < len(moved):
        return [node]
    if not _one_grid(program, known):
        return [node]
    codes = free(f"{node.output} as bytes", program.names)
    inputs = (*(source.inputs[0] for source in known), *node.inputs[len(known) :])
    first = known[0]
    return [
        replace(node, inputs=inputs, outputs=(codes,)),
        make_node(first.op, (codes, *first.inputs[1:]), (node.output,), dict(first.attrs)),
    ]


def _one_grid(program: Program, nodes: list[Node]) -> bool:
    """Whether all nodes quantize or dequantize on one rising grid of bytes, of one sign."""
    found = set()
    for node in nodes:
        scale, zero = (program.constants.get(name) for name in (*node.inputs[1:], "", "")[:2])
        if scale is None or scale.size != 1 or zero is None or zero.dtype.itemsize != 1:
            return False
        if not _SMALLEST <= float(scale.reshape(())) <= _LARGEST:
            return False
        found.add((float(scale.reshape(())), int(zero.reshape(-1)[0]), zero.dtype.name))
    return len(found) == 1
