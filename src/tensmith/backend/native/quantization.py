"""Which grid a value of bytes lies on.

Signed bytes are kept as unsigned ones: 128 is added to them and to their zero point (`prepare.pairs`).
"""

from __future__ import annotations

from collections.abc import Container

import numpy as np

from tensmith.errors import EngineError
from tensmith.ir import Node, Program
from tensmith.ir.ops.quantization import OnGrid, encodes
from tensmith.kernel.quantized import QuantizationParameters

_SIGNED_OFFSET = {"u8": 0, "i8": 128}


def codes_of(node: Node) -> str:
    """The value that holds the codes of a quantize_linear or dequantize_linear."""
    return node.output if encodes(node) else node.inputs[0]


def grid_of(program: Program, node: Node) -> QuantizationParameters | None:
    """The grid of a quantize_linear or dequantize_linear; None if it is not one grid of bytes for all."""
    if node.kind(OnGrid) is None:
        return None
    codes = codes_of(node)
    offset = _SIGNED_OFFSET.get(program.type(codes).dtype)
    scale = program.constants.get(node.inputs[1])
    has_zero = len(node.inputs) > 2 and bool(node.inputs[2])
    zero = program.constants.get(node.inputs[2]) if has_zero else np.zeros(1, np.int64)
    if offset is None or scale is None or scale.size != 1 or zero is None or scale.dtype != np.float32:
        return None
    return QuantizationParameters(float(scale.reshape(())), int(zero.reshape(-1)[0]) + offset)


def grids(program: Program, tensors: Container[str] = ()) -> dict[str, QuantizationParameters]:
    """The grid of every computed value of bytes, as those who read it understand it.

    Values in `tensors` have element types of their own.
    """
    found: dict[str, QuantizationParameters] = {}
    for node in program.nodes:
        grid = grid_of(program, node)
        if grid is None or node.output in program.static_values:
            continue
        value = codes_of(node)
        if found.setdefault(value, grid).zero_point != grid.zero_point:
            raise EngineError(f"'{value}' is read with two zero points, which has no native kernel")
    for node in reversed(program.nodes):
        if node.output in found:
            found.update({name: found[node.output] for name in node.picked if name not in found})
    for name in (*program.inputs, *program.outputs):
        dtype = program.type(name).dtype
        if name in tensors:
            continue
        if dtype != "f32" and (dtype != "u8" or name not in found):
            raise EngineError(f"'{name}' is {dtype} at the border of the program: there is no native kernel")
    return found
