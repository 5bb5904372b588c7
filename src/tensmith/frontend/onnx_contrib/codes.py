"""Codes on a grid, of the numbers that they stand for, halves to even.

A number in the middle between two codes becomes either, by how its parts were rounded: ONNX Runtime takes
quotients of scales first, so it may have the next code there. What says "exactly" is alike in all cases.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tensmith.frontend.onnx_body import OperatorBody
from tensmith.frontend.onnx_contrib.common import operator, plus
from tensmith.frontend.onnx_contrib.normalizations import normal_sum, rows_of_places
from tensmith.ir.onnx_schema import ELEMENT_CODES

_CODES = ("u8", "i8")
# Where codes, their scale and their zero point are among the inputs.
Indices = tuple[int, int, int]


def _alone(b: OperatorBody, *indices: int) -> None:
    """Scales and zero points, those that are given, are of whole tensors."""
    b.need(all(b.type(index).static in ((), (1,)) for index in indices if b.has(index)))


def _decoded(b: OperatorBody, index: int) -> str:
    """The numbers of a code, which its scale and zero point follow."""
    _alone(b, index + 1, index + 2)
    b.need(b.type(index).dtype in _CODES and b.type(index + 1).dtype == "f32")
    return b.add("DequantizeLinear", b.input(index), b.input(index + 1), b.optional(index + 2))


def _encoded(b: OperatorBody, x: str, index: int) -> str:
    """The codes of numbers, by the scale and the zero point at `index` and behind it."""
    _alone(b, index, index + 1)
    b.need(b.type(index + 1).dtype in _CODES and b.type(index).dtype == "f32")
    return b.add("QuantizeLinear", x, b.input(index), b.input(index + 1))


@operator("QuantizeLinear", "DequantizeLinear")
def _linear(b: OperatorBody) -> Sequence[str]:
    """The standard's operators, which know codes of 16 and 4 bits since opset 21."""
    x, scale, zero = b.inputs(3)
    dtypes = {b.type(index).dtype for index in (0, 2) if b.has(index)}
    b.need(dtypes <= {"f16", "f32", "u8", "i8", "u16", "i16", "i32", "u4", "i4"})
    b.need(b.rank(1) <= 1)
    if dtypes & {"u16", "i16", "u4", "i4"}:
        b.version = max(b.version, 21)
    elif "f16" in dtypes or b.type(1).dtype == "f16":
        b.version = max(b.version, 19)
    return [b.add(b.name, x, scale, zero, **b.given("axis"))]


@operator("QLinearAdd", "QLinearMul")
def _qlinear_binary(b: OperatorBody) -> Sequence[str]:
    """Sums and products of numbers, as codes."""
    b.inputs(8)
    return [_encoded(b, b.add(b.name.removeprefix("QLinear"), _decoded(b, 0), _decoded(b, 3)), 6)]


@operator("QLinearLeakyRelu", "QLinearSigmoid")
def _qlinear_unary(b: OperatorBody) -> Sequence[str]:
    """Activations of numbers, as codes."""
    b.inputs(5)
    name = b.name.removeprefix("QLinear")
    given = b.given("alpha") if name == "LeakyRelu" else {}
    return [_encoded(b, b.add(name, _decoded(b, 0), **given), 3)]


@operator("QLinearWhere")
def _qlinear_where(b: OperatorBody) -> Sequence[str]:
    """A choice between numbers, exactly, as codes."""
    condition = b.inputs(9)[0]
    return [_encoded(b, b.add("Where", condition, _decoded(b, 1), _decoded(b, 4)), 7)]


@operator("QLinearConcat")
def _qlinear_concat(b: OperatorBody) -> Sequence[str]:
    """Numbers side by side, exactly, as codes."""
    b.need(b.count() % 3 == 2)
    parts = [_decoded(b, index) for index in range(2, b.count(), 3)]
    return [_encoded(b, b.add("Concat", *parts, **b.given("axis")), 0)]


_POOL = ("auto_pad", "ceil_mode", "count_include_pad", "kernel_shape", "pads", "strides")


@operator("QLinearAveragePool", "QLinearGlobalAveragePool")
def _qlinear_average(b: OperatorBody) -> Sequence[str]:
    """Means of numbers, as codes."""
    b.inputs(5)
    b.need(not b.attribute("channels_last", 0))
    name = b.name.removeprefix("QLinear")
    given = b.given(*_POOL) if name == "AveragePool" else {}
    return [_encoded(b, b.add(name, _decoded(b, 0), **given), 3)]


@operator("QLinearSoftmax")
def _qlinear_softmax(b: OperatorBody) -> Sequence[str]:
    """Softmax of numbers, as codes.

    ONNX Runtime takes the whole part of 1 / scale for that of the codes, so others are left as they are.
    """
    b.inputs(5)
    axis, rank = b.attribute("axis", -1), b.rank(0)
    b.need(b.attribute("opset", 0) >= 13 or axis in (-1, rank - 1))  # before, rows went on to the last axis
    scale = b.value(3).astype(np.float32)
    b.need(bool((scale > 0).all()))
    steps = np.float32(1) / scale
    b.need(bool((steps == np.floor(steps)).all()))
    return [_encoded(b, b.add("Softmax", _decoded(b, 0), axis=axis), 3)]


@operator("QGemm")
def _qgemm(b: OperatorBody) -> Sequence[str]:
    """alpha times the product of the numbers of a and b, and of c in units of products; as codes if asked."""
    c, y_scale, y_zero = b.inputs(9)[6:]
    b.need(b.rank(0) == b.rank(3) == 2 and b.has(2) and bool(y_scale) == bool(y_zero))
    turned, alpha = b.given("transA", "transB"), b.attribute("alpha", 1.0)
    operands = [_decoded(b, 0), _decoded_columns(b, 3, 0 if turned.get("transB") else 1)]
    if c:
        unit, last = b.add("Mul", b.input(1), b.input(4)), b.rank(6) - 1
        sizes = (), (1,), (b.type(6).dims[-1:])
        b.need(b.type(6).dtype == "i32" and b.type(4).static in sizes)
        operands.append(b.add("DequantizeLinear", c, unit, axis=max(last, 0)))
    y = b.add("Gemm", *operands, alpha=alpha, beta=alpha, **turned)
    return [_encoded(b, y, 7) if y_scale else y]


def _decoded_columns(b: OperatorBody, index: int, axis: int) -> str:
    """The numbers of a code with one grid for all, or one for each of its columns, which lie along `axis`."""
    scale, zero = b.type(index + 1), b.type(index + 2)
    b.need(b.type(index).dtype in _CODES and scale.dtype == "f32" and len(scale.dims) < 2)
    b.need(
        zero.static is not None
        and (zero.static == scale.static or not {zero.static, scale.static} - {(), (1,)})
    )
    return b.add("DequantizeLinear", *map(b.input, range(index, index + 3)), axis=axis)


@operator("QEmbedLayerNormalization")
def _q_embed_layer_normalization(b: OperatorBody) -> Sequence[str]:
    """EmbedLayerNormalization of codes, whose scales and zero points follow.

    Inputs: ids of words and segments; codes of words, places, segments, scale and shift; mask.
    """
    words, segments, of_words, of_places, of_segments, scale, shift, mask = b.inputs(18)[:8]
    b.need(bool(segments) == bool(of_segments))
    rows = [b.add("Gather", of_words, words), rows_of_places(b, of_places, words)]
    numbers = [_decoded_apart(b, codes, index) for index, codes in enumerate(rows)]
    if segments:
        numbers.append(_decoded_apart(b, b.add("Gather", of_segments, segments), 2))
    scale, shift = (_decoded_apart(b, codes, index) for index, codes in ((3, scale), (4, shift)))
    return normal_sum(b, numbers, scale, shift, mask)[:2]


def _decoded_apart(b: OperatorBody, codes: str, number: int) -> str:
    """The numbers of codes of one of five tensors, of which all scales come before all zero points."""
    _alone(b, 8 + number, 13 + number)
    b.need(b.type(2 + number).dtype in _CODES and b.type(8 + number).dtype == "f32")
    return b.add("DequantizeLinear", codes, b.input(8 + number), b.input(13 + number))


# Products of codes in floats: integers until they are scaled, or of numbers where the grid is known


@operator("DynamicQuantizeMatMul")
def _dynamic_product(b: OperatorBody) -> Sequence[str]:
    """A product of rows on a grid of their own, plus a bias."""
    bias = b.inputs(5)[4]
    b.need(b.type(0).dtype == "f32")
    return [_scaled_sums(b, b.many("DynamicQuantizeLinear", 3, b.input(0)), (1, 2, 3), bias)]


@operator("MatMulIntegerToFloat")
def _product_to_floats(b: OperatorBody) -> Sequence[str]:
    """A product of codes, plus a bias."""
    bias = b.inputs(7)[6]
    return [product_of_codes(b, (0, 2, 4), (1, 3, 5), bias)]


def product_of_codes(b: OperatorBody, x: Indices, w: Indices, bias: str) -> str:
    """A product of rows of codes, plus a bias; each is known by where it, its scale and zero point are."""
    _alone(b, *x[1:])
    b.need(b.type(x[0]).dtype in _CODES and b.type(x[1]).dtype == "f32")
    codes, scale, zero = b.input(x[0]), b.input(x[1]), b.optional(x[2])
    alike = not b.has(w[2]) or b.type(w[2]).static == b.type(w[1]).static is not None
    if not (alike and b.known(x[1]) and (not zero or b.known(x[2]))):
        return _scaled_sums(b, (codes, scale, zero), w, bias)
    _check_columns(b, w)
    numbers = b.add("DequantizeLinear", codes, scale, zero)
    columns = b.add("DequantizeLinear", *map(b.optional, w), axis=1)
    return plus(b, b.add("MatMul", numbers, columns), bias)


def _scaled_sums(b: OperatorBody, x: Sequence[str], w: Indices, bias: str) -> str:
    """x_scale w_scale ((x - x_zero) (w - w_zero)), plus a bias."""
    _check_columns(b, w)
    codes, scale, zero = x
    sums = b.add("MatMulInteger", codes, b.input(w[0]), zero, b.optional(w[2]))
    numbers = b.add("Cast", sums, to=ELEMENT_CODES["f32"])
    return plus(b, b.add("Mul", numbers, b.add("Mul", scale, b.input(w[1]))), bias)


def _check_columns(b: OperatorBody, w: Indices) -> None:
    """A matrix of codes has one scale and zero point, or one a column."""
    b.need(b.type(w[0]).dtype in _CODES and b.rank(w[0]) == 2 and b.type(w[1]).dtype == "f32")
    b.need(all(b.rank(index) < 2 for index in w[1:] if b.has(index)))
