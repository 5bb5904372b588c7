"""The integers that a convolution or product between quantize-dequantize pairs multiplies."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from tensmith.backend.native.quantization import symmetric_codes
from tensmith.formula.arith import Array
from tensmith.formula.poly import Dim
from tensmith.ir import Node, Program
from tensmith.ir.ops.product import Product
from tensmith.ir.ops.quantization import decodes
from tensmith.kernel.quantized import QuantizationParameters


class IntegerOperands(NamedTuple):
    """A product of bytes: `node` reads the quantized x and w; the rest says what they stand for."""

    node: Node
    source: QuantizationParameters
    scales: Array
    quantized: Array | None
    bias: Array | None


def integer_operands(
    program: Program, parameters: Mapping[Node, QuantizationParameters], node: Node
) -> IntegerOperands | None:
    """The integers behind a conv, gemm or matmul; None if it does not multiply bytes by int8."""
    product = node.kind(Product)
    if product is None:
        return None
    x, w = (program.producers.get(name) for name in node.inputs[:2])
    if x is None or w is None or node.attrs.get("alpha", 1.0) != 1 or node.attrs.get("beta", 1.0) != 1:
        return None
    source = parameters.get(x)
    if source is None or not decodes(x) or not decodes(w):
        return None
    scales = _weight_scales(program, w, product.filters(node.attrs))
    if scales is None:
        return None
    quantized, bias = None, None
    if node.operand(2):
        filters = program.type(w.inputs[0]).dims[product.filters(node.attrs)]
        found = _bias(program, node.inputs[2], source.scale * scales.astype(np.float64), filters)
        if found is None:
            return None
        quantized, bias = found
    return IntegerOperands(replace(node, inputs=(x.inputs[0], w.inputs[0])), source, scales, quantized, bias)


def _weight_scales(program: Program, node: Node, axis: int) -> Array | None:
    """One scale a filter, or one for all, of dequantized int8 constants without zero points."""
    found = symmetric_codes(program.constants, node)
    if found is None or found[0].dtype != np.int8:
        return None
    quantized, scale = found
    along = scale.size == 1 or node.attrs["axis"] % quantized.ndim == axis % quantized.ndim
    return scale.reshape(-1) if along else None


def _bias(program: Program, name: str, unit: Array, filters: Dim) -> tuple[Array | None, Array | None] | None:
    """(quantized, None) of a bias in units of products, (None, floats) of another; None if it is computed, or
    not of one number a filter."""
    if program.type(name).static not in ((filters,), (1, filters)):
        return None
    if name in program.constants:
        return None, program.constants[name].reshape(-1)
    found = symmetric_codes(program.constants, program.producers.get(name))
    if found is None:
        return None
    quantized, scale = found
    if quantized.dtype == np.int32 and np.allclose(scale.reshape(-1), unit, rtol=1e-6, atol=0):
        return quantized.reshape(-1), None
    return None, (quantized.astype(np.float64) * scale).reshape(-1)
