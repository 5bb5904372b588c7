"""Unsigned integers as wider signed ones, for libraries that store unsigned types but compute in signed."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from tensmith.ir import Node, Program
from tensmith.ir.onnx_schema import ELEMENT_CODES
from tensmith.ir.program import make_node
from tensmith.ir.types import DTYPES

# Results that stay inside the type of their operands.
_INSIDE = frozenset({
    "where", "min", "max", "abs", "div", "mod", "identity", "unsqueeze", "transpose", "expand", "gather",
    "gather_elements", "squeeze", "pad", "slice", "reduce_max", "reduce_min", "bitwise_and", "bitwise_or",
    "bitwise_xor",
})  # fmt: skip


def signed(program: Program, wider: Mapping[str, str]) -> Program:
    """The same program in `wider` types ("u32": "i64"), each result cut back to the bits of its own."""
    types = {name: program.type(name).dtype for name in program.facts}
    if not set(types.values()) & wider.keys():
        return program
    nodes: list[Node] = []
    constants = dict(program.constants)
    stand: dict[str, str] = {}

    def add(op: str, inputs: tuple[str, ...], output: str, **attrs: int) -> str:
        nodes.append(make_node(op, inputs, (output,), attrs))
        return output

    for name in program.inputs:
        if types[name] in wider:
            stand[name] = add("cast", (name,), f"{name}.wide", to=ELEMENT_CODES[wider[types[name]]])
    for name, array in program.constants.items():
        if types[name] in wider:
            constants[name] = array.astype(DTYPES[wider[types[name]]])
    for node in program.nodes:
        inputs, dtype = tuple(stand.get(name, name) for name in node.inputs), types[node.output]
        if dtype not in wider:
            nodes.append(Node(node.op, inputs, node.outputs, node.attrs, node.name))
            continue
        attrs = {**node.attrs, "to": ELEMENT_CODES[wider[dtype]]} if node.op == "cast" else node.attrs
        wide = f"{node.output}.wide"
        nodes.append(Node(node.op, inputs, (wide,), attrs, node.name))
        narrow = DTYPES[dtype].itemsize < DTYPES[wider[dtype]].itemsize
        if node.op not in _INSIDE and narrow:
            bits = f"{wider[dtype]}.bits.{dtype}"
            constants[bits] = np.asarray(np.iinfo(DTYPES[dtype]).max, DTYPES[wider[dtype]])
            wide = add("bitwise_and", (wide, bits), f"{node.output}.cut")
        stand[node.output] = wide
    for name in program.outputs:
        if name in stand:
            add("cast", (stand[name],), name, to=ELEMENT_CODES[types[name]])
    return Program(program.name, program.inputs, program.outputs, tuple(nodes), constants)
