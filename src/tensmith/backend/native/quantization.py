"""The quantization parameters of values of bytes.

Signed bytes are kept as unsigned ones: 128 is added to them and to their zero point (`rewrite.exact.codes`).
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from tensmith.errors import EngineError
from tensmith.formula.arith import Array
from tensmith.ir import Node, Program
from tensmith.ir.ops.quantization import OnGrid, decodes, encodes, rises
from tensmith.kernel.quantized import QuantizationParameters

SIGNED_OFFSET = {"u8": 0, "i8": 128}


def quantized_values(node: Node) -> str:
    """What a quantize_linear makes, or a dequantize_linear reads."""
    return node.output if encodes(node) else node.inputs[0]


def symmetric_codes(constants: Mapping[str, Array], node: Node | None) -> tuple[Array, Array] | None:
    """(codes, scales) that a node dequantizes, if they are constants without zero points and blocks."""
    if node is None or not decodes(node) or node.attrs["block_size"]:
        return None
    codes, scales, *zeros = (constants.get(name) for name in node.inputs if name)
    if codes is None or scales is None or any(zero is None or zero.any() for zero in zeros):
        return None
    return codes, scales


def parameters_of(program: Program, node: Node) -> QuantizationParameters | None:
    """Those of a quantize_linear or dequantize_linear; None if it has not one pair for all, of bytes.

    Nor are there any where numbers do not rise with their codes: kernels clip and compare codes in their
    place.
    """
    if node.kind(OnGrid) is None:
        return None
    offset = SIGNED_OFFSET.get(program.type(quantized_values(node)).dtype)
    scale = program.constants.get(node.inputs[1])
    zero = program.constants.get(node.inputs[2]) if node.operand(2) else np.zeros(1, np.int64)
    if offset is None or scale is None or zero is None or scale.dtype != np.float32:
        return None
    if scale.size != 1 or zero.size != 1 or not rises(step := float(scale.reshape(()))):
        return None
    return QuantizationParameters(step, int(zero.reshape(())) + offset)


def parameters_of_values(
    program: Program, parameters: Mapping[Node, QuantizationParameters]
) -> dict[str, QuantizationParameters]:
    """Those of every computed value of bytes, as those who read it understand it, given those of nodes."""
    found: dict[str, QuantizationParameters] = {}
    for node, one in parameters.items():
        if node.output in program.static_values:
            continue
        value = quantized_values(node)
        if found.setdefault(value, one).zero_point != one.zero_point:
            raise EngineError(f"'{value}' is read with two zero points, which has no native kernel")
    for node in reversed(program.nodes):
        if node.output in found:
            found.update({name: found[node.output] for name in node.picked if name not in found})
    return found
