"""Activations, and products with what follows them."""

from __future__ import annotations

import math
from collections.abc import Sequence

from tensmith.frontend.onnx_body import OperatorBody
from tensmith.frontend.onnx_contrib.common import FLOATS, MOST_FLOATS, operator, plus


def _gelu(b: OperatorBody, x: str, dtype: str, approximate: str = "none") -> str:
    """The standard's Gelu, or its parts where the opset is too old for it."""
    b.need(dtype in (MOST_FLOATS if approximate == "none" else FLOATS))
    if b.version >= 20:
        return b.add("Gelu", x, approximate=approximate)
    half, one = b.constant(0.5, dtype), b.constant(1, dtype)
    if approximate == "none":
        bent = b.add("Erf", b.add("Div", x, b.constant(math.sqrt(2), dtype)))
    else:
        cube = b.add("Mul", b.constant(0.044715, dtype), b.add("Mul", x, b.add("Mul", x, x)))
        inner = b.add("Mul", b.constant(math.sqrt(2 / math.pi), dtype), b.add("Add", x, cube))
        bent = b.add("Tanh", inner)
    return b.add("Mul", half, b.add("Mul", x, b.add("Add", bent, one)))


@operator("Gelu")
def _plain_gelu(b: OperatorBody) -> Sequence[str]:
    """y = x (1 + erf(x / sqrt(2))) / 2."""
    (x,) = b.inputs(1)
    return [_gelu(b, x, b.type(0).dtype)]


@operator("BiasGelu")
def _bias_gelu(b: OperatorBody) -> Sequence[str]:
    """Gelu of x + bias."""
    x, bias = b.inputs(2)
    b.need(b.rank(1) == 1)
    return [_gelu(b, b.add("Add", x, bias), b.type(0).dtype)]


@operator("FastGelu")
def _fast_gelu(b: OperatorBody) -> Sequence[str]:
    """Gelu by tanh, of x or x + bias."""
    x, bias = b.inputs(2)
    b.need(not bias or b.rank(1) == 1)
    return [_gelu(b, plus(b, x, bias), b.type(0).dtype, "tanh")]


@operator("QuickGelu")
def _quick_gelu(b: OperatorBody) -> Sequence[str]:
    """y = x sigmoid(alpha x)."""
    (x,), dtype, alpha = b.inputs(1), b.type(0).dtype, b.attribute("alpha", 1.702)
    b.need(dtype in FLOATS)
    scaled = x if alpha == 1 else b.add("Mul", x, b.constant(alpha, dtype))
    return [b.add("Mul", x, b.add("Sigmoid", scaled))]


@operator("FusedMatMul", "TransposeMatMul")
def _fused_matmul(b: OperatorBody) -> Sequence[str]:
    """alpha times the product of matrices, each transposed or not."""
    dtype, operands, alpha = b.type(0).dtype, b.inputs(2), b.attribute("alpha", 1.0)
    b.need(dtype in FLOATS)
    for index, letter in enumerate("AB"):
        b.need(not b.attribute(f"transBatch{letter}", 0))
        if b.attribute(f"trans{letter}", 0):
            rank = b.rank(index)
            b.need(rank >= 2)
            operands[index] = b.add("Transpose", operands[index], perm=[*range(rank - 2), rank - 1, rank - 2])
    product = b.add("MatMul", *operands)
    return [product if alpha == 1 else b.add("Mul", product, b.constant(alpha, dtype))]


# Activation -> its attributes, in the order in which fused operators have them.
_ACTIVATIONS: dict[str, tuple[str, ...]] = {
    "Relu": (), "Tanh": (), "Sigmoid": (), "LeakyRelu": ("alpha",), "HardSigmoid": ("alpha", "beta"),
}  # fmt: skip


_CONV = ("auto_pad", "dilations", "group", "kernel_shape", "pads", "strides")


def _activated(b: OperatorBody, x: str, name: str, params: Sequence[float]) -> str:
    if name == "Clip" and len(params) == 2:
        return b.add("Clip", x, *(b.constant(bound, "f32") for bound in params))
    b.need(name in _ACTIVATIONS and len(_ACTIVATIONS[name]) == len(params))
    return b.add(name, x, **dict(zip(_ACTIVATIONS[name], params)))


@operator("FusedConv")
def _fused_conv(b: OperatorBody) -> Sequence[str]:
    """An activation of a Conv, to which another tensor may be added first."""
    x, w, bias, added = b.inputs(4)
    name, params = b.attribute("activation", ""), b.attribute("activation_params", [])
    b.need(b.type(0).dtype == "f32" and bool(name))
    y = b.add("Conv", x, w, bias, **b.given(*_CONV))
    return [_activated(b, plus(b, y, added), name, params)]


@operator("FusedGemm")
def _fused_gemm(b: OperatorBody) -> Sequence[str]:
    """An activation of a Gemm."""
    a, other, c = b.inputs(3)
    name = b.attribute("activation", "")
    b.need(b.type(0).dtype == "f32" and name in _ACTIVATIONS)
    params = [b.attribute(f"activation_{param}", math.nan) for param in _ACTIVATIONS[name]]
    b.need(not any(map(math.isnan, params)))
    y = b.add("Gemm", a, other, c, **b.given("transA", "transB", "alpha", "beta"))
    return [_activated(b, y, name, params)]
