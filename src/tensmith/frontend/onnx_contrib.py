"""Operators that ONNX Runtime's own tools write, as bodies of the standard's operators.

Most are of the domain com.microsoft; a few stand in the default domain, where the standard has none of them.
A definition says what ONNX Runtime's processor kernels compute.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import partial, reduce
from itertools import pairwise

import numpy as np
from onnx import numpy_helper

from tensmith.formula.poly import Dim
from tensmith.frontend.onnx_body import Bodies, OperatorBody
from tensmith.ir.onnx_schema import ELEMENT_CODES

_FLOATS = ("f16", "f32", "f64")
_MOST_FLOATS = ("f16", "f32")
MICROSOFT = "com.microsoft"

BODIES = Bodies()
_operator = partial(BODIES.operator, domain=MICROSOFT)


def _plus(b: OperatorBody, x: str, other: str) -> str:
    """x + other, where there is one."""
    return b.add("Add", x, other) if other else x


# Activations


def _gelu(b: OperatorBody, x: str, dtype: str, approximate: str = "none") -> str:
    """The standard's Gelu, or its parts where the opset is too old for it."""
    b.need(dtype in (_MOST_FLOATS if approximate == "none" else _FLOATS))
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


@_operator("Gelu")
def _plain_gelu(b: OperatorBody) -> Sequence[str]:
    """y = x (1 + erf(x / sqrt(2))) / 2."""
    (x,) = b.inputs(1)
    return [_gelu(b, x, b.type(0).dtype)]


@_operator("BiasGelu")
def _bias_gelu(b: OperatorBody) -> Sequence[str]:
    """Gelu of x + bias."""
    x, bias = b.inputs(2)
    b.need(b.rank(1) == 1)
    return [_gelu(b, b.add("Add", x, bias), b.type(0).dtype)]


@_operator("FastGelu")
def _fast_gelu(b: OperatorBody) -> Sequence[str]:
    """Gelu by tanh, of x or x + bias."""
    x, bias = b.inputs(2)
    b.need(not bias or b.rank(1) == 1)
    return [_gelu(b, _plus(b, x, bias), b.type(0).dtype, "tanh")]


@_operator("QuickGelu")
def _quick_gelu(b: OperatorBody) -> Sequence[str]:
    """y = x sigmoid(alpha x)."""
    (x,), dtype, alpha = b.inputs(1), b.type(0).dtype, b.attribute("alpha", 1.702)
    b.need(dtype in _FLOATS)
    scaled = x if alpha == 1 else b.add("Mul", x, b.constant(alpha, dtype))
    return [b.add("Mul", x, b.add("Sigmoid", scaled))]


# Products with what follows them


@_operator("FusedMatMul", "TransposeMatMul")
def _fused_matmul(b: OperatorBody) -> Sequence[str]:
    """alpha times the product of matrices, each transposed or not."""
    dtype, operands, alpha = b.type(0).dtype, b.inputs(2), b.attribute("alpha", 1.0)
    b.need(dtype in _FLOATS)
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


@_operator("FusedConv")
def _fused_conv(b: OperatorBody) -> Sequence[str]:
    """An activation of a Conv, to which another tensor may be added first."""
    x, w, bias, added = b.inputs(4)
    name, params = b.attribute("activation", ""), b.attribute("activation_params", [])
    b.need(b.type(0).dtype == "f32" and bool(name))
    y = b.add("Conv", x, w, bias, **b.given(*_CONV))
    return [_activated(b, _plus(b, y, added), name, params)]


@_operator("FusedGemm")
def _fused_gemm(b: OperatorBody) -> Sequence[str]:
    """An activation of a Gemm."""
    a, other, c = b.inputs(3)
    name = b.attribute("activation", "")
    b.need(b.type(0).dtype == "f32" and name in _ACTIVATIONS)
    params = [b.attribute(f"activation_{param}", math.nan) for param in _ACTIVATIONS[name]]
    b.need(not any(map(math.isnan, params)))
    y = b.add("Gemm", a, other, c, **b.given("transA", "transB", "alpha", "beta"))
    return [_activated(b, y, name, params)]


# Normalizations


def _skipped(b: OperatorBody, bias: str) -> str:
    """The sum of the first two inputs and a bias; the second may be one for all of a batch."""
    x, skip = (b.type(index).shape or () for index in range(2))
    b.need(b.type(0).dtype in _MOST_FLOATS and len(x) in (2, 3) and len(x) >= len(skip) >= 2)
    for size, other in zip(reversed(x), reversed(skip)):
        b.need(other in (1, size) or not (isinstance(size, int) and (size == 1 or isinstance(other, int))))
    return _plus(b, b.add("Add", b.input(0), b.input(1)), bias)


def _rms(b: OperatorBody, x: str, scale: str, dtype: str, axes: Sequence[int], epsilon: float) -> str:
    """The standard's RMSNormalization, or its parts where the opset is too old for it."""
    if b.version >= 23:
        return b.add("RMSNormalization", x, scale, axis=axes[0], epsilon=epsilon)
    b.need(dtype != "f16")  # whose squares are taken in 32 bits
    square = b.add("Mul", x, x)
    if b.version >= 18:
        mean = b.add("ReduceMean", square, b.constant(axes, "i64"), keepdims=1)
    else:
        mean = b.add("ReduceMean", square, axes=axes, keepdims=1)
    deviation = b.add("Sqrt", b.add("Add", mean, b.constant(epsilon, dtype)))
    return b.add("Mul", b.add("Div", x, deviation), scale)


@_operator("LayerNormalization", domain="")
def _layer_normalization(b: OperatorBody) -> Sequence[str]:
    """The standard's LayerNormalization, which ONNX Runtime has before the standard did, too."""
    x, scale, bias = b.inputs(3)
    dtype = b.type(0).dtype
    b.need(dtype in _FLOATS and b.type(1).dtype == dtype)
    return [b.add("LayerNormalization", x, scale, bias, **b.given("axis", "epsilon", "stash_type"))]


@_operator("SimplifiedLayerNormalization", domain="")
def _simplified_layer_normalization(b: OperatorBody) -> Sequence[str]:
    """y = x / sqrt(mean(x x) + epsilon) scale, over `axis` and all behind it."""
    x, scale = b.inputs(2)
    dtype, rank = b.type(0).dtype, b.rank(0)
    axis = b.attribute("axis", -1)
    b.need(dtype in _FLOATS and b.type(1).dtype == dtype and b.attribute("stash_type", 1) == 1)
    b.need(-rank <= axis < rank)
    axes = list(range(axis % rank - rank, 0))
    return [_rms(b, x, scale, dtype, axes, b.attribute("epsilon", 1e-5))]


@_operator("SkipLayerNormalization")
def _skip_layer_normalization(b: OperatorBody) -> Sequence[str]:
    """LayerNormalization of the sum of x, what skips a layer and a bias; the sum is the fourth output."""
    _, _, scale, shift, bias = b.inputs(5)
    total, epsilon = _skipped(b, bias), b.attribute("epsilon", 1e-12)
    y = b.add("LayerNormalization", total, scale, shift, axis=-1, epsilon=epsilon)
    return [y, "", "", total]


@_operator("SkipSimplifiedLayerNormalization")
def _skip_simplified_layer_normalization(b: OperatorBody) -> Sequence[str]:
    """As SkipLayerNormalization, without a mean or a shift."""
    _, _, scale, bias = b.inputs(4)
    total = _skipped(b, bias)
    return [_rms(b, total, scale, b.type(0).dtype, [-1], b.attribute("epsilon", 1e-12)), "", "", total]


@_operator("EmbedLayerNormalization")
def _embed_layer_normalization(b: OperatorBody) -> Sequence[str]:
    """LayerNormalization of the sum of embeddings of words, positions and segments.

    Outputs: y [B, S, H], how many ones each row of the mask holds [B], the sum [B, S, H].
    """
    words, segments, of_words, of_places, of_segments, scale, shift, mask, places = b.inputs(9)
    b.need(b.type(2).dtype in _MOST_FLOATS and bool(segments) == bool(of_segments))
    b.attribute("mask_index_type", 0)
    rows = [b.add("Gather", of_words, words), _rows_of_places(b, of_places, words, places)]
    if segments:
        rows.append(b.add("Gather", of_segments, segments))
    return _normal_sum(b, rows, scale, shift, mask)


def _rows_of_places(b: OperatorBody, table: str, words: str, places: str = "") -> str:
    """Those of given places, or of 0, 1... as there are words."""
    if places:
        return b.add("Gather", table, places)
    start, end = b.constant([0], "i64"), b.add("Shape", words, start=1, end=2)
    return b.add("Slice", table, start, end, start)


def _normal_sum(b: OperatorBody, rows: Sequence[str], scale: str, shift: str, mask: str) -> list[str]:
    """LayerNormalization of a sum of rows, how many ones rows of the mask hold if asked for, the sum."""
    total = reduce(lambda one, other: b.add("Add", one, other), rows)
    y = b.add("LayerNormalization", total, scale, shift, axis=-1, epsilon=b.attribute("epsilon", 1e-12))
    counts = ""
    if b.wants(1):
        if mask:
            ones = b.add("Cast", b.add("Equal", mask, b.constant(1, "i32")), to=ELEMENT_CODES["i32"])
            counts = b.add("ReduceSum", ones, b.constant([1], "i64"), keepdims=0)
        else:
            size = b.add("Shape", b.input(0), start=0, end=1)
            zero = numpy_helper.from_array(np.zeros(1, np.int32))
            counts = b.add("ConstantOfShape", size, value=zero)
    return [y, counts, total]


# Codes on a grid, of the numbers that they stand for, halves to even. A number in the middle between two
# codes becomes either, by how its parts were rounded: ONNX Runtime takes quotients of scales first, so it may
# have the next code there. What says "exactly" is alike in all cases.

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


@_operator("QuantizeLinear", "DequantizeLinear")
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


@_operator("QLinearAdd", "QLinearMul")
def _qlinear_binary(b: OperatorBody) -> Sequence[str]:
    """Sums and products of numbers, as codes."""
    b.inputs(8)
    return [_encoded(b, b.add(b.name.removeprefix("QLinear"), _decoded(b, 0), _decoded(b, 3)), 6)]


@_operator("QLinearLeakyRelu", "QLinearSigmoid")
def _qlinear_unary(b: OperatorBody) -> Sequence[str]:
    """Activations of numbers, as codes."""
    b.inputs(5)
    name = b.name.removeprefix("QLinear")
    given = b.given("alpha") if name == "LeakyRelu" else {}
    return [_encoded(b, b.add(name, _decoded(b, 0), **given), 3)]


@_operator("QLinearWhere")
def _qlinear_where(b: OperatorBody) -> Sequence[str]:
    """A choice between numbers, exactly, as codes."""
    condition = b.inputs(9)[0]
    return [_encoded(b, b.add("Where", condition, _decoded(b, 1), _decoded(b, 4)), 7)]


@_operator("QLinearConcat")
def _qlinear_concat(b: OperatorBody) -> Sequence[str]:
    """Numbers side by side, exactly, as codes."""
    b.need(b.count() % 3 == 2)
    parts = [_decoded(b, index) for index in range(2, b.count(), 3)]
    return [_encoded(b, b.add("Concat", *parts, **b.given("axis")), 0)]


_POOL = ("auto_pad", "ceil_mode", "count_include_pad", "kernel_shape", "pads", "strides")


@_operator("QLinearAveragePool", "QLinearGlobalAveragePool")
def _qlinear_average(b: OperatorBody) -> Sequence[str]:
    """Means of numbers, as codes."""
    b.inputs(5)
    b.need(not b.attribute("channels_last", 0))
    name = b.name.removeprefix("QLinear")
    given = b.given(*_POOL) if name == "AveragePool" else {}
    return [_encoded(b, b.add(name, _decoded(b, 0), **given), 3)]


@_operator("QLinearSoftmax")
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


@_operator("QGemm")
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


@_operator("QEmbedLayerNormalization")
def _q_embed_layer_normalization(b: OperatorBody) -> Sequence[str]:
    """EmbedLayerNormalization of codes, whose scales and zero points follow.

    Inputs: ids of words and segments; codes of words, places, segments, scale and shift; mask.
    """
    words, segments, of_words, of_places, of_segments, scale, shift, mask = b.inputs(18)[:8]
    b.need(bool(segments) == bool(of_segments))
    rows = [b.add("Gather", of_words, words), _rows_of_places(b, of_places, words)]
    numbers = [_decoded_apart(b, codes, index) for index, codes in enumerate(rows)]
    if segments:
        numbers.append(_decoded_apart(b, b.add("Gather", of_segments, segments), 2))
    scale, shift = (_decoded_apart(b, codes, index) for index, codes in ((3, scale), (4, shift)))
    return _normal_sum(b, numbers, scale, shift, mask)[:2]


def _decoded_apart(b: OperatorBody, codes: str, number: int) -> str:
    """The numbers of codes of one of five tensors, of which all scales come before all zero points."""
    _alone(b, 8 + number, 13 + number)
    b.need(b.type(2 + number).dtype in _CODES and b.type(8 + number).dtype == "f32")
    return b.add("DequantizeLinear", codes, b.input(8 + number), b.input(13 + number))


# Products of codes in floats: integers until they are scaled, or of numbers where the grid is known


@_operator("DynamicQuantizeMatMul")
def _dynamic_product(b: OperatorBody) -> Sequence[str]:
    """A product of rows on a grid of their own, plus a bias."""
    bias = b.inputs(5)[4]
    b.need(b.type(0).dtype == "f32")
    return [_scaled_sums(b, b.many("DynamicQuantizeLinear", 3, b.input(0)), (1, 2, 3), bias)]


@_operator("MatMulIntegerToFloat")
def _product_to_floats(b: OperatorBody) -> Sequence[str]:
    """A product of codes, plus a bias."""
    bias = b.inputs(7)[6]
    return [_product_of_codes(b, (0, 2, 4), (1, 3, 5), bias)]


def _product_of_codes(b: OperatorBody, x: Indices, w: Indices, bias: str) -> str:
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
    return _plus(b, b.add("MatMul", numbers, columns), bias)


def _scaled_sums(b: OperatorBody, x: Sequence[str], w: Indices, bias: str) -> str:
    """x_scale w_scale ((x - x_zero) (w - w_zero)), plus a bias."""
    _check_columns(b, w)
    codes, scale, zero = x
    sums = b.add("MatMulInteger", codes, b.input(w[0]), zero, b.optional(w[2]))
    numbers = b.add("Cast", sums, to=ELEMENT_CODES["f32"])
    return _plus(b, b.add("Mul", numbers, b.add("Mul", scale, b.input(w[1]))), bias)


def _check_columns(b: OperatorBody, w: Indices) -> None:
    """A matrix of codes has one scale and zero point, or one a column."""
    b.need(b.type(w[0]).dtype in _CODES and b.rank(w[0]) == 2 and b.type(w[1]).dtype == "f32")
    b.need(all(b.rank(index) < 2 for index in w[1:] if b.has(index)))


# Attention without a past


def _visible(b: OperatorBody, index: int, keys: str, batch: Dim, queries: Dim, count: Dim) -> str:
    """Which keys are seen [B, 1, 1 or queries, keys], of an input: one number a key, or how many are seen."""
    mask, shape = b.input(index), b.type(index).shape or ()
    b.need(b.type(index).dtype == "i32" and shape in ((batch,), (batch, count), (batch, queries, count)))
    if len(shape) == 1:
        number = b.add("Cast", _places(b, keys), to=ELEMENT_CODES["i32"])
        seen = b.add("Less", number, b.add("Unsqueeze", mask, b.constant([1], "i64")))
    else:
        seen = b.add("Greater", mask, b.constant(0, "i32"))
    return b.add("Unsqueeze", seen, b.constant([1] if len(shape) == 3 else [1, 2], "i64"))


def _places(b: OperatorBody, x: str) -> str:
    """0, 1... along the second axis of x."""
    size = b.add("Squeeze", b.add("Shape", x, start=1, end=2), b.constant([0], "i64"))
    return b.add("Range", b.constant(0, "i64"), size, b.constant(1, "i64"))


def _attended(
    b: OperatorBody, parts: Sequence[str], widths: Sequence[int], mask: int, sizes: Sequence[Dim]
) -> str:
    """softmax(scale q k^T + mask) v for each head; q, k, v are [B, L, width], and sizes B, L of q and of k.

    What the mask hides is not left out, but scored mask_filter_value less; later keys are left out.
    """
    k = parts[1]
    heads, (batch, queries, keys) = b.attribute("num_heads", 0), sizes
    b.need(heads > 0 and widths[0] == widths[1] and not any(width % heads for width in widths))
    turned = []
    for name, width, perm in zip(parts, widths, ([0, 2, 1, 3], [0, 2, 3, 1], [0, 2, 1, 3])):
        split = b.add("Reshape", name, b.constant([0, 0, heads, width // heads], "i64"))
        turned.append(b.add("Transpose", split, perm=perm))
    scale = b.attribute("scale", 0.0) or 1 / math.sqrt(widths[0] // heads)
    scores = b.add("Mul", b.add("MatMul", *turned[:2]), b.constant(scale, "f32"))
    hidden = b.constant(b.attribute("mask_filter_value", -10000.0), "f32")
    masked = b.constant(0, "f32")
    if b.has(mask):
        masked = b.add("Where", _visible(b, mask, k, batch, queries, keys), masked, hidden)
    if b.attribute("unidirectional", 0):
        b.need(queries == keys)
        places = _places(b, k)
        rows = b.add("Unsqueeze", places, b.constant([1], "i64"))
        lowest = b.constant(np.finfo(np.float32).min, "f32")
        masked = b.add("Where", b.add("GreaterOrEqual", rows, places), masked, lowest)
    if b.has(mask) or b.attribute("unidirectional", 0):
        scores = b.add("Add", scores, masked)
    y = b.add("MatMul", b.add("Softmax", scores, axis=-1), turned[2])
    return b.add("Reshape", b.add("Transpose", y, perm=[0, 2, 1, 3]), b.constant([0, 0, widths[2]], "i64"))


@_operator("Attention")
def _attention(b: OperatorBody) -> Sequence[str]:
    """Attention of x to itself; weights and bias hold those of q, k and v."""
    x, weights, bias, _ = b.inputs(4)
    shape, of_weights = b.type(0).shape or (), b.type(1).static or ()
    b.need(b.type(0).dtype == "f32" and len(shape) == 3 and len(of_weights) == 2)
    b.need(not b.attribute("do_rotary", 0) and not b.attribute("past_present_share_buffer", 0))
    b.attribute("rotary_embedding_dim", 0)
    widths = b.attribute("qkv_hidden_sizes", []) or [of_weights[1] // 3] * 3
    b.need(len(widths) == 3 and min(widths) > 0 and sum(widths) == of_weights[1])
    y = _plus(b, b.add("MatMul", x, weights), bias)
    return [_attended(b, _split(b, y, widths), widths, 3, (*shape[:2], shape[1]))]


@_operator("QAttention")
def _q_attention(b: OperatorBody) -> Sequence[str]:
    """Attention of the numbers of codes."""
    bias = b.inputs(8)[2]
    shape, of_weights = b.type(0).shape or (), b.type(1).static or ()
    b.need(len(shape) == 3 and len(of_weights) == 2 and not of_weights[1] % 3)
    b.need(not b.attribute("do_rotary", 0) and not b.attribute("past_present_share_buffer", 0))
    y = _product_of_codes(b, (0, 3, 6), (1, 4, 7), bias)
    widths = [of_weights[1] // 3] * 3
    return [_attended(b, _split(b, y, widths), widths, 5, (*shape[:2], shape[1]))]


@_operator("MultiHeadAttention")
def _multi_head_attention(b: OperatorBody) -> Sequence[str]:
    """Attention of q to k and v, to which a bias may be added first."""
    *parts, bias, _ = b.inputs(5)
    shapes = [b.type(index).shape or () for index in range(3)]
    b.need(b.type(0).dtype == "f32" and all(len(shape) == 3 for shape in shapes))
    b.need(shapes[0][0] == shapes[1][0] and shapes[1][:2] == shapes[2][:2])
    widths = [size for _, _, size in shapes if isinstance(size, int)]
    b.need(len(widths) == 3)
    if bias:
        parts = [b.add("Add", *pair) for pair in zip(parts, _split(b, bias, widths))]
    return [_attended(b, parts, widths, 4, (*shapes[0][:2], shapes[1][1]))]


def _split(b: OperatorBody, x: str, widths: Sequence[int]) -> list[str]:
    """x in parts of its last axis."""
    ends = [sum(widths[:count]) for count in range(len(widths) + 1)]
    axis = b.constant([-1], "i64")
    bounds = [b.constant([end], "i64") for end in ends]
    return [b.add("Slice", x, start, end, axis) for start, end in pairwise(bounds)]


@_operator("RotaryEmbedding")
def _rotary_embedding(b: OperatorBody) -> Sequence[str]:
    """Halves of each head turned by the angle of their place: x [B, L, H] or [B, heads, L, D].

    Places [B, L], or [1]: where the first one is. Tables of cosines and sines [places, D / 2].
    """
    x, places, *tables = b.inputs(4)
    shape, of_places, table = b.type(0).shape or (), b.type(1).shape or (), b.type(2).static or ()
    b.need(b.type(0).dtype == "f32" and len(shape) in (3, 4) and len(table) == 2)
    b.need(not any(b.attribute(n, 0) for n in ("interleaved", "rotary_embedding_dim", "is_packed_batching")))
    b.need(b.attribute("scale", 1.0) == 1)
    half, length = table[1], shape[-2]
    heads = b.attribute("num_heads", 0)
    b.need(shape[3] == 2 * half if len(shape) == 4 else not heads or shape[2] == heads * 2 * half)
    if of_places == (1,):
        moved = x if len(shape) == 3 else b.add("Transpose", x, perm=[0, 2, 1, 3])
        places = b.add("Unsqueeze", b.add("Add", places, _places(b, moved)), b.constant([0], "i64"))
    else:
        b.need(of_places == (shape[0], length))
    axis = b.constant([2 if len(shape) == 3 else 1], "i64")
    cos, sin = (b.add("Unsqueeze", b.add("Gather", name, places), axis) for name in tables)
    split = b.add("Reshape", x, b.constant([0, 0, -1, 2 * half], "i64")) if len(shape) == 3 else x
    first, second = _split(b, split, [half, half])
    y = b.add(
        "Concat",
        b.add("Sub", b.add("Mul", first, cos), b.add("Mul", second, sin)),
        b.add("Add", b.add("Mul", second, cos), b.add("Mul", first, sin)),
        axis=-1,
    )
    return [b.add("Reshape", y, b.constant([0, 0, -1], "i64")) if len(shape) == 3 else y]
