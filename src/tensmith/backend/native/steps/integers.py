"""The integers that a convolution or product between quantize-dequantize pairs multiplies."""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

import numpy as np

from tensmith.backend.native.quantization import grid_of
from tensmith.backend.native.steps.step import Array
from tensmith.ir import Node, Program
from tensmith.ir.ops.product import Product
from tensmith.ir.ops.quantization import decodes
from tensmith.kernel.quantized import QuantizationParameters


class Operands(NamedTuple):
    """A product of bytes: `node` reads the codes of x and w; the rest says what they stand for."""

    node: Node
    source: QuantizationParameters
    scales: Array
    codes: Array | None
    bias: Array | None


def operands(program: Program, node: Node) -> Operands | None:
    """The integers behind a conv, gemm or matmul; None if it does not multiply bytes by int8."""
    x, w = (program.producers.get(name) for name in node.inputs[:2])
    if x is None or w is None or node.attrs.get("alpha", 1.0) != 1 or node.attrs.get("beta", 1.0) != 1:
        return None
    source = grid_of(program, x)
    product = node.kind(Product)
    if product is None or source is None or not decodes(x) or not decodes(w):
        return None
    scales = _weight_scales(program, w, product.filters(node.attrs))
    if scales is None:
        return None
    codes, bias = None, None
    if len(node.inputs) > 2 and node.inputs[2]:
        found = _bias(program, node.inputs[2], source.scale * scales.astype(np.float64))
        if found is None:
            return None
        codes, bias = found
    return Operands(replace(node, inputs=(x.inputs[0], w.inputs[0])), source, scales, codes, bias)


def _weight_scales(program: Program, node: Node, axis: int) -> Array | None:
    """One scale a filter, or one for all, of dequantized int8 constants without zero points."""
    codes, scale = (program.constants.get(name) for name in node.inputs[:2])
    zero = program.constants.get(node.inputs[2]) if len(node.inputs) > 2 and node.inputs[2] else None
    if codes is None or scale is None or codes.dtype != np.int8 or node.attrs["block_size"]:
        return None
    along = scale.size == 1 or node.attrs["axis"] % codes.ndim == axis % codes.ndim
    return scale.reshape(-1) if along and (zero is None or not zero.any()) else None


def _bias(program: Program, name: str, unit: Array) -> tuple[Array | None, Array | None] | None:
    """(codes, None) of a bias on the grid of the products, (None, floats) of another; None if computed."""
    producer = program.producers.get(name)
    if name in program.constants:
        return None, program.constants[name].reshape(-1)
    if producer is None or not decodes(producer):
        return None
    codes, scale = (program.constants.get(part) for part in producer.inputs[:2])
    zero = program.constants.get(producer.inputs[2]) if len(producer.inputs) > 2 else None
    if codes is None or scale is None or (zero is not None and zero.any()) or producer.attrs["block_size"]:
        return None
    if codes.dtype == np.int32 and np.allclose(scale.reshape(-1), unit, rtol=1e-6, atol=0):
        return codes.reshape(-1), None
    return None, (codes.astype(np.float64) * scale).reshape(-1)
