"""Borders in codes: what a program quantizes first is taken as bytes, what it dequantizes last given as such.

quantize(dequantize(x)) = x (rule `codes_again`): on codes it is the program that was there, to the bit.
"""

from __future__ import annotations

from dataclasses import replace

from tensmith.backend.native.quantization import parameters_of
from tensmith.errors import EngineError
from tensmith.ir import Node, Program, make_node
from tensmith.ir.ops.quantization import decodes, encodes


def in_codes(program: Program) -> Program:
    """The program with bytes for every input and output that lies on one grid; EngineError if none does.

    An output stays numbers where its codes are given already, or lie on another grid for who else has them.
    """
    inputs, nodes, renamed = dict(program.inputs), list(program.nodes), dict[str, str]()
    for name in program.inputs:
        readers = program.consumers.get(name, ())
        if len(readers) != 1 or name in program.outputs:
            continue
        (reader,) = readers
        if _on_bytes(program, reader) and encodes(reader):
            number = next(program.fresh(f"{name}.number"))
            inputs[name] = inputs[name].with_dtype("u8")
            made = make_node("dequantize_linear", (name, *reader.inputs[1:]), (number,))
            nodes[nodes.index(reader)] = replace(reader, inputs=(number, *reader.inputs[1:]))
            nodes.insert(0, made)
    for name in program.outputs:
        maker = program.producers.get(name)
        if maker is None or name in program.static_values:
            continue
        if not (_on_bytes(program, maker) and decodes(maker)):
            continue
        codes, grid = maker.inputs[0], parameters_of(program, maker)
        others = filter(None, (program.producers.get(codes), *program.consumers.get(codes, ())))
        alike = all(parameters_of(program, other) in (None, grid) for other in others)
        if alike and codes not in (*program.outputs, *renamed.values()):
            renamed[name] = codes
    if inputs == program.inputs and not renamed:
        raise EngineError("no input or output is quantized to unsigned bytes; `tensmith compress` does that")
    outputs = tuple(renamed.get(name, name) for name in program.outputs)
    return replace(program, inputs=inputs, nodes=tuple(nodes), outputs=outputs)


def _on_bytes(program: Program, node: Node) -> bool:
    """Whether a node goes between numbers and unsigned bytes on one grid."""
    if parameters_of(program, node) is None:
        return False
    return program.type(node.output if encodes(node) else node.inputs[0]).dtype == "u8"
