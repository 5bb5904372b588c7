"""Products by dequantized constants of few bits, whose weights stay codes in memory.

    matmul(x, dequantize(w)), gemm(x, dequantize(w))

with one scale for all, one a column, or one a block along the inner axis; int4, uint4 and int8, or uint8
whose zero points are all 128; `prepare.packed` writes ONNX Runtime's MatMulNBits so. Anything else is left to
float kernels.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from tensmith.formula.arith import Array
from tensmith.ir import Node, Program
from tensmith.ir.ops.quantization import decodes
from tensmith.kernel.codes import CODE_BITS, coded

# What is taken off codes and zero points, and the dtype of problems without and with zero points.
_CENTRES = {"i4": (0, "i4", "u4"), "u4": (8, "i4", "u4"), "i8": (0, "i8", ""), "u8": (128, "i8", "")}


class LayerWeights(NamedTuple):
    """Weights [columns, inner, 1, 1], floats or kernel.codes.CODE, with what a problem says about them."""

    weights: Array
    dtype: str = "f32"
    block: int = 0


def coded_weights(program: Program, node: Node) -> LayerWeights | None:
    """The codes behind the right operand of a matmul or gemm; None if it has none that kernels read."""
    producer = program.producers.get(node.inputs[1])
    turned = bool(node.attrs.get("transB", 0))
    if producer is None or not decodes(producer) or node.attrs.get("alpha", 1.0) != 1:
        return None
    codes, scales, zeros = (
        program.constants.get(name) if name else None for name in (*producer.inputs, "")[:3]
    )
    if codes is None or scales is None or codes.ndim != 2 or scales.dtype != np.float32:
        return None
    dtype = program.type(producer.inputs[0]).dtype
    spread = _over_columns(producer, codes, scales, turned)
    if dtype not in _CENTRES or spread is None or program.type(producer.output).dtype != "f32":
        return None
    block, scales = spread
    offsets = np.zeros((1, 1), np.int16)
    if zeros is not None:
        found = _over_columns(producer, codes, zeros.astype(np.int16), turned)
        assert found is not None
        offsets = found[1]
    centre, plain, shifted = _CENTRES[dtype]
    offsets = np.broadcast_to(offsets - centre, scales.shape) if zeros is not None or centre else offsets
    kind = shifted if offsets.any() else plain
    if not kind or (block % 8 and CODE_BITS[kind] == 4 and block < codes.shape[1 if turned else 0]):
        return None
    columns = (codes if turned else codes.T).astype(np.int16) - centre
    return LayerWeights(coded(columns, scales, offsets if kind == shifted else None, block), kind, block)


def _over_columns(node: Node, codes: Array, given: Array, turned: bool) -> tuple[int, Array] | None:
    """(block, [columns, blocks]) of a dequantization's scales or zero points; None if they go another way."""
    inner = 1 if turned else 0
    columns, depth = codes.shape[1 - inner], codes.shape[inner]
    axis, block = node.attrs["axis"] % 2, node.attrs["block_size"]
    if block and axis == inner and given.ndim == 2:
        return block, given if turned else given.T
    if not block and (given.size == 1 or axis != inner):
        return depth, np.broadcast_to(given.reshape(-1, 1), (columns, 1))
    return None
