"""ONNX Runtime's MatMulNBits as a product by a dequantized constant of few bits."""

from __future__ import annotations

from collections.abc import Container
from dataclasses import replace

from tensmith.formula.arith import Array
from tensmith.ir import Node, Program, make_node
from tensmith.ir.ops.packed_products import unpacked


def opened(program: Program) -> Program:
    """Products by packed constants as dequantizations of low-bit constants and products by those."""
    nodes: list[Node] = []
    constants = dict(program.constants)
    for node in program.nodes:
        names = node.operands(4)[1:]
        given = [program.constants.get(name) for name in names]
        whole = node.op == "matmul_n_bits" and all(not n or v is not None for n, v in zip(names, given))
        if whole and given[0] is not None and given[1] is not None:
            parts = unpacked(node.attrs, given[0], given[1], given[2])
            nodes += _opened(node, parts, constants, program.names)
        else:
            nodes.append(node)
    return replace(program, nodes=tuple(nodes), constants=constants)


def _opened(
    node: Node, parts: tuple[Array, Array, Array], constants: dict[str, Array], taken: frozenset[str]
) -> list[Node]:
    """The nodes that take a packed product's place; `constants` grow."""
    names = tuple(_free(f"{node.output} {part}", taken) for part in ("codes", "scales", "zeros"))
    constants.update(zip(names, parts))
    real, turned, sums = (_free(f"{node.output} {part}", taken) for part in ("weights", "columns", "sums"))
    bias = node.operand(5)
    made = [
        make_node("dequantize_linear", names, (real,), {"axis": 1, "block_size": node.attrs["block_size"]}),
        make_node("transpose", (real,), (turned,), {"perm": (1, 0)}),
        make_node("matmul", (node.inputs[0], turned), (sums if bias else node.output,)),
    ]
    return [*made, make_node("add", (sums, bias), (node.output,))] if bias else made


def _free(name: str, taken: Container[str]) -> str:
    """A name that a value may have: a model may have named its own as the passes do."""
    while name in taken:
        name += "'"
    return name
