"""Transposes of dequantized matrices as dequantizations of transposed ones: weights as layers read them.

So an output head that shares its table with an embedding is a layer like any other.
"""

from __future__ import annotations

from dataclasses import replace

from tensmith.backend.native.prepare.builder import free
from tensmith.backend.native.steps import Array
from tensmith.ir import Node, Program
from tensmith.ir.ops.quantization import decodes

_PERMUTATIONS = (None, (), (1, 0))


def upright(program: Program) -> Program:
    """transpose(dequantize(codes, axis)) as dequantize(codes^T, 1 - axis), for constant matrices."""
    constants = dict(program.constants)
    nodes = tuple(_upright(program, node, constants) for node in program.nodes)
    return replace(program, nodes=nodes, constants=constants, _known={})


def _upright(program: Program, node: Node, constants: dict[str, Array]) -> Node:
    """What takes a node's place; `constants` grow."""
    if node.op != "transpose" or node.attrs["perm"] not in _PERMUTATIONS:
        return node
    opened = program.producers.get(node.inputs[0])
    if opened is None or not decodes(opened):
        return node
    given = {name: program.constants.get(name) for name in opened.inputs if name}
    codes = given[opened.inputs[0]]
    if codes is None or codes.ndim != 2 or any(part is None for part in given.values()):
        return node
    names = {name: free(f"{name} turned", program.names) for name in given}
    constants |= {names[name]: _turned(part) for name, part in given.items() if part is not None}
    inputs = tuple(name and names[name] for name in opened.inputs)
    attrs = {**opened.attrs, "axis": 1 - opened.attrs["axis"] % 2}
    return replace(opened, inputs=inputs, outputs=node.outputs, attrs=attrs)


def _turned(part: Array) -> Array:
    """Codes, or scales and zero points of blocks, transposed; those of rows or columns as they are."""
    return part.T if part.ndim == 2 else part
