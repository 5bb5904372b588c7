"""Rows about what elements are: windows, order, functions, integers, element types, statistics."""

from __future__ import annotations

import numpy as np
from claims_table import (
    FAR,
    B,
    C,
    H,
    N,
    W,
    X,
    Y,
    cast,
    cut,
    ints,
    number,
    over,
    pair,
    row,
    turned,
)

from tensmith.formula.poly import Poly
from tensmith.rewrite.term import Const, Term, Use, ops

LINE = {"x": (N,)}
PLANE = {"x": (N, C)}
BOTH = {"x": (N, C), "y": (N, C)}
K = Poly.symbol("K")
CONV = {"x": (N, C, H + 2), "w": (K, C, 3)}
POOL = {"x": (N, C, H + 4)}
TWO_WIDE = {"kernel_shape": (2,)}
THREE_WIDE = {"kernel_shape": (3,)}
PADDED = {"kernel_shape": (3,), "pads": (1, 1)}


def as_type(dtype: str, *names: str) -> dict[str, str]:
    return dict.fromkeys(names, dtype)


def whole(value: int, dtype: str) -> Const:
    return Const(np.array(value, dtype))


def negated(value: Term) -> Use:
    made: Use = getattr(ops, "not")(value)
    return made


# Windows

pair(
    "a stride from another start",
    CONV,
    lambda: (ops.conv(X, W, attrs={"strides": (2,)}), cut(ops.conv(X, W), 1, FAR, step=2)),
    lambda: (ops.conv(X, W, attrs={"strides": (2,)}), cut(ops.conv(X, W), 0, FAR, step=2)),
    lower={"H": 1},
)
pair(
    "pads on the other side",
    CONV,
    lambda: (ops.conv(X, W, attrs={"pads": (1, 0)}), ops.conv(X, W, attrs={"pads": (0, 1)})),
    lambda: (ops.conv(X, W, attrs={"pads": (1, 0)}), ops.conv(ops.pad(X, ints(0, 0, 1, 0, 0, 0)), W)),
    lower={"H": 1},
)
pair(
    "a filter turned round",
    CONV,
    lambda: (ops.conv(X, cut(W, -1, -FAR, step=-1)), ops.conv(X, W)),
    lambda: (ops.conv(X, ops.neg(W)), ops.neg(ops.conv(X, W))),
    lower={"H": 1},
)
pair(
    "a dilation left out",
    {"x": (N, C, H + 5), "w": (K, C, 3)},
    lambda: (ops.conv(X, W, attrs={"dilations": (2,)}), cut(ops.conv(X, W), 0, -2)),
    lower={"H": 1},
)
pair(
    "a dilation of a filter of one",
    {"x": (N, C, H), "w": (K, C, 1)},
    lambda: (ops.conv(X, W, attrs={"dilations": (2,)}), ops.conv(ops.neg(X), W)),
    lambda: (ops.conv(X, W, attrs={"dilations": (2,)}), ops.conv(X, W)),
    lower={"H": 1},
)
pair(
    "a shift before a padded convolution",
    CONV,
    lambda: (
        ops.conv(ops.add(X, number(1)), W, attrs={"pads": (1, 1)}),
        ops.add(
            ops.conv(X, W, attrs={"pads": (1, 1)}), ops.unsqueeze(over("reduce_sum", W, 1, 2), ints(0, 2))
        ),
    ),
    lambda: (
        ops.conv(ops.add(X, number(1)), W),
        ops.add(ops.conv(X, W), ops.unsqueeze(over("reduce_sum", W, 1, 2), ints(0, 2))),
    ),
    lower={"H": 1},
)
pair(
    "a bias on the wrong axis",
    {"x": (N, C, C), "w": (C, C, 1), "b": (C,)},
    lambda: (ops.conv(X, W, B), ops.add(ops.conv(X, W), B)),
    lambda: (ops.conv(X, W, B), ops.add(ops.conv(X, W), ops.unsqueeze(B, ints(1)))),
    lower={"C": 1},
)
pair(
    "groups that are none",
    {"x": (N, 4, H), "w": (4, 2, 1)},
    lambda: (ops.conv(X, W, attrs={"group": 2}), ops.conv(cut(X, 0, 2, axis=1), W)),
    lambda: (ops.conv(X, W, attrs={"group": 2}), ops.neg(ops.conv(ops.neg(X), W, attrs={"group": 2}))),
    lower={"H": 1},
)
pair(
    "groups that do not divide",
    {"x": (N, 6, H), "w": (5, 3, 1)},
    lambda: (ops.conv(X, W, attrs={"group": 2}), ops.conv(X, W, attrs={"group": 2})),
)
pair(
    "a transposed convolution is a convolution",
    {"x": (N, C, H), "w": (C, C, 1)},
    lambda: (ops.conv_transpose(X, W), ops.conv(X, W)),
    lambda: (ops.conv_transpose(X, W), ops.conv(X, turned(W, 1, 0, 2))),
    lower={"H": 1},
)
pair(
    "zeros around a maximum",
    POOL,
    lambda: (
        ops.max_pool(X, attrs=PADDED),
        ops.max_pool(ops.pad(X, ints(0, 0, 1, 0, 0, 1)), attrs=THREE_WIDE),
    ),
)
pair(
    "zeros around a mean that does not count them",
    POOL,
    lambda: (
        ops.average_pool(X, attrs=PADDED),
        ops.average_pool(ops.pad(X, ints(0, 0, 1, 0, 0, 1)), attrs=THREE_WIDE),
    ),
    lambda: (
        ops.average_pool(X, attrs={**PADDED, "count_include_pad": 1}),
        ops.average_pool(ops.pad(X, ints(0, 0, 1, 0, 0, 1)), attrs=THREE_WIDE),
    ),
)
pair(
    "pads are counted or not",
    POOL,
    lambda: (
        ops.average_pool(X, attrs=PADDED),
        ops.average_pool(X, attrs={**PADDED, "count_include_pad": 1}),
    ),
    lambda: (
        ops.average_pool(X, attrs=THREE_WIDE),
        ops.average_pool(X, attrs={**THREE_WIDE, "count_include_pad": 1}),
    ),
)
pair(
    "a window over the end",
    {"x": (N, C, 5)},
    lambda: (
        ops.max_pool(X, attrs={**TWO_WIDE, "strides": (2,), "ceil_mode": 1}),
        ops.max_pool(X, attrs={**TWO_WIDE, "strides": (2,)}),
    ),
    lambda: (ops.max_pool(X, attrs={**TWO_WIDE, "ceil_mode": 1}), ops.max_pool(X, attrs=TWO_WIDE)),
)
pair(
    "a wider window",
    POOL,
    lambda: (cut(ops.average_pool(X, attrs=TWO_WIDE), 0, -1), ops.average_pool(X, attrs=THREE_WIDE)),
    lambda: (ops.average_pool(ops.neg(X), attrs=TWO_WIDE), ops.neg(ops.average_pool(X, attrs=TWO_WIDE))),
)
pair(
    "a global maximum is a mean",
    POOL,
    lambda: (ops.global_max_pool(X), ops.global_average_pool(X)),
    lambda: (ops.global_average_pool(X), over("reduce_mean", X, 2, keep=1)),
)
pair(
    "another kind of enlarging",
    {"x": (1, 1, 3)},
    lambda: (
        ops.resize(X, None, row(1, 1, 2), attrs={"mode": "nearest"}),
        ops.resize(X, None, row(1, 1, 2), attrs={"mode": "linear"}),
    ),
)

# Order, ties and signs

pair("the larger is the first", BOTH, lambda: (ops.max(X, Y), X), lambda: (ops.max(X, Y, X), ops.max(Y, X)))
pair(
    "bounds the wrong way round",
    LINE,
    lambda: (
        ops.clip(X, Const(np.float32(6)), Const(np.float32(0))),
        ops.max(ops.min(X, number(0)), number(6)),
    ),
    lambda: (
        ops.clip(X, Const(np.float32(0)), Const(np.float32(6))),
        ops.max(ops.min(X, number(6)), number(0)),
    ),
)
pair("nothing is negative", LINE, lambda: (ops.relu(X), X), lambda: (ops.relu(ops.relu(X)), ops.relu(X)))
pair(
    "relu is odd",
    LINE,
    lambda: (ops.relu(ops.neg(X)), ops.neg(ops.relu(X))),
    lambda: (ops.sub(ops.relu(X), ops.relu(ops.neg(X))), X),
)
pair(
    "a magnitude is the number",
    LINE,
    lambda: (ops.abs(X), X),
    lambda: (ops.abs(X), ops.add(ops.relu(X), ops.relu(ops.neg(X)))),
)
pair(
    "the smaller where smaller is the larger",
    BOTH,
    lambda: (ops.where(ops.less(X, Y), X, Y), ops.max(X, Y)),
    lambda: (ops.where(ops.less(X, Y), X, Y), ops.min(X, Y)),
)
pair(
    "a tie is not less",
    BOTH,
    lambda: (ops.less(X, Y), ops.less_or_equal(X, Y)),
    lambda: (ops.less(X, Y), ops.greater(Y, X)),
)
pair(
    "not less is greater",
    BOTH,
    lambda: (negated(ops.less(X, Y)), ops.less(Y, X)),
    lambda: (negated(ops.less(X, Y)), ops.less_or_equal(Y, X)),
)
pair(
    "the first of equals is the last",
    PLANE,
    lambda: (ops.arg_max(X, attrs={"axis": 1}), ops.arg_max(X, attrs={"axis": 1, "select_last_index": 1})),
)
pair(
    "maxima of sums",
    BOTH,
    lambda: (
        over("reduce_max", ops.add(X, Y), 1),
        ops.add(over("reduce_max", X, 1), over("reduce_max", Y, 1)),
    ),
    lambda: (over("reduce_max", ops.add(X, Y), 1), over("reduce_max", ops.add(Y, X), 1)),
)
pair(
    "the maximum of negatives",
    PLANE,
    lambda: (over("reduce_max", ops.neg(X), 1), ops.neg(over("reduce_max", X, 1))),
)
pair(
    "where with its branches changed",
    BOTH,
    lambda: (ops.where(ops.less(X, Y), X, Y), ops.where(ops.less(X, Y), Y, X)),
    lambda: (ops.where(ops.less(X, Y), X, X), X),
)
pair(
    "a leak left out",
    LINE,
    lambda: (ops.leaky_relu(X, attrs={"alpha": 0.1}), ops.relu(X)),
    lambda: (ops.leaky_relu(X, attrs={"alpha": 0.0}), ops.relu(X)),
)

# Functions and fractions

pair(
    "exp of a sum is a sum",
    BOTH,
    lambda: (ops.exp(ops.add(X, Y)), ops.add(ops.exp(X), ops.exp(Y))),
    lambda: (ops.exp(ops.add(X, Y)), ops.exp(ops.add(Y, X))),
)
pair("log undoes another function", LINE, lambda: (ops.log(ops.sin(X)), X))
pair(
    "the root of a square",
    LINE,
    lambda: (ops.sqrt(ops.mul(X, X)), X),
    lambda: (ops.mul(ops.exp(X), ops.exp(X)), ops.pow(ops.exp(X), Const(np.float32(2)))),
)
pair(
    "a square is a double",
    LINE,
    lambda: (ops.pow(X, Const(np.float32(2))), ops.add(X, X)),
    lambda: (ops.pow(X, Const(np.float32(2))), ops.mul(X, X)),
)
pair(
    "a power of zero is zero",
    LINE,
    lambda: (ops.pow(X, Const(np.float32(0))), ops.mul(X, number(0))),
    lambda: (ops.pow(X, Const(np.float32(1))), X),
)
pair(
    "a fraction upside down",
    BOTH,
    lambda: (ops.div(X, Y), ops.div(Y, X)),
    lambda: (ops.div(X, Y), ops.mul(X, ops.reciprocal(Y))),
)
pair(
    "a division that was not there",
    LINE,
    lambda: (X, ops.div(ops.mul(X, X), X)),
    lambda: (ops.div(ops.mul(X, X), X), X),
)
pair(
    "nothing by nothing is one",
    LINE,
    lambda: (ops.div(ops.sub(X, X), ops.sub(X, X)), number(1)),
    lambda: (ops.sub(X, X), ops.mul(X, number(0))),
)
pair(
    "zero times infinity is zero",
    LINE,
    lambda: (ops.mul(ops.mul(X, number(0)), ops.reciprocal(ops.mul(X, number(0)))), ops.mul(X, number(0))),
    lambda: (ops.mul(ops.mul(X, number(0)), X), ops.mul(X, number(0))),
)
pair(
    "a square of a sum",
    BOTH,
    lambda: (ops.mul(ops.add(X, Y), ops.add(X, Y)), ops.add(ops.mul(X, X), ops.mul(Y, Y))),
    lambda: (ops.mul(ops.add(X, Y), ops.sub(X, Y)), ops.sub(ops.mul(X, X), ops.mul(Y, Y))),
)
pair(
    "sigmoid is odd",
    LINE,
    lambda: (ops.sigmoid(ops.neg(X)), ops.neg(ops.sigmoid(X))),
    lambda: (ops.mul(X, ops.sigmoid(X)), ops.swish(X)),
)
pair(
    "another sigmoid",
    LINE,
    lambda: (ops.hard_sigmoid(X), ops.sigmoid(X)),
    lambda: (ops.neg(ops.neg(ops.sigmoid(X))), ops.sigmoid(X)),
)
pair(
    "opaque functions of other numbers",
    LINE,
    lambda: (ops.erf(ops.add(X, X)), ops.erf(X)),
    lambda: (ops.erf(ops.add(X, X)), ops.erf(ops.mul(X, number(2)))),
)

# Integers and element types

pair(
    "halves of integers",
    LINE,
    lambda: (ops.mul(ops.div(X, whole(2, "int32")), whole(2, "int32")), X),
    dtypes=as_type("i32", "x"),
)
pair(
    "halves of floats",
    LINE,
    lambda: (ops.mul(ops.div(X, number(2)), number(4)), X),
    lambda: (ops.mul(ops.div(X, number(2)), number(2)), X),
)
pair("integers over integers", BOTH, lambda: (ops.mul(ops.div(X, Y), Y), X), dtypes=as_type("i32", "x", "y"))
pair(
    "halves of a sum of integers",
    BOTH,
    lambda: (
        ops.div(ops.add(X, Y), whole(2, "int32")),
        ops.add(ops.div(X, whole(2, "int32")), ops.div(Y, whole(2, "int32"))),
    ),
    dtypes=as_type("i32", "x", "y"),
)
pair(
    "doubles that do not fit",
    LINE,
    lambda: (ops.div(ops.mul(X, whole(2, "int8")), whole(2, "int8")), X),
    dtypes=as_type("i8", "x"),
)
pair(
    "a difference of bytes without a sign",
    BOTH,
    lambda: (cast(ops.sub(X, Y), "i32"), ops.sub(cast(X, "i32"), cast(Y, "i32"))),
    dtypes=as_type("u8", "x", "y"),
)
pair(
    "sums that wrap come back",
    BOTH,
    lambda: (ops.sub(ops.add(X, Y), X), X),
    lambda: (ops.sub(ops.add(X, Y), Y), X),
    dtypes=as_type("i8", "x", "y"),
)
pair(
    "remainders of negative numbers",
    LINE,
    lambda: (ops.mod(X, whole(3, "int32")), ops.mod(X, whole(3, "int32"), attrs={"fmod": 1})),
    dtypes=as_type("i32", "x"),
)
pair("another element type", LINE, lambda: (cast(X, "f16"), X), lambda: (cast(X, "f32"), X))
pair(
    "through halves and back",
    LINE,
    lambda: (cast(cast(X, "f16"), "f32"), X),
    lambda: (cast(cast(X, "f64"), "f32"), X),
)
pair(
    "through integers and back",
    LINE,
    lambda: (cast(cast(X, "i32"), "f32"), X),
    lambda: (cast(cast(X, "i32"), "f32"), cast(cast(X, "i64"), "f32")),
)
pair(
    "bytes are integers",
    LINE,
    lambda: (cast(cast(X, "i8"), "i32"), cast(X, "i32")),
    dtypes=as_type("i32", "x"),
)
pair(
    "bytes of one sign are bytes of the other",
    LINE,
    lambda: (cast(cast(X, "u8"), "i32"), cast(cast(X, "i8"), "i32")),
    dtypes=as_type("i32", "x"),
)
pair(
    "truth is a number",
    LINE,
    lambda: (cast(cast(X, "bool"), "f32"), X),
    lambda: (cast(cast(cast(X, "bool"), "f32"), "bool"), cast(X, "bool")),
)
pair(
    "a quantized number is the number",
    LINE,
    lambda: (
        ops.dequantize_linear(
            ops.quantize_linear(X, Const(np.float32(0.5)), whole(0, "int8")),
            Const(np.float32(0.5)),
            whole(0, "int8"),
        ),
        X,
    ),
)
pair(
    "a zero point left out",
    LINE,
    lambda: (
        ops.dequantize_linear(X, Const(np.float32(0.5)), whole(3, "int8")),
        ops.dequantize_linear(X, Const(np.float32(0.5)), whole(0, "int8")),
    ),
    lambda: (
        ops.dequantize_linear(X, Const(np.float32(0.5)), whole(0, "int8")),
        ops.dequantize_linear(X, Const(np.float32(0.5))),
    ),
    dtypes=as_type("i8", "x"),
)
pair(
    "half to even is half up",
    LINE,
    lambda: (ops.round(ops.mul(X, number(0.5))), ops.floor(ops.add(ops.mul(X, number(0.5)), number(0.5)))),
)
pair("floor is truncation", LINE, lambda: (ops.floor(X), cast(cast(X, "i32"), "f32")))

# Statistics

pair(
    "softmax along another axis",
    {"x": (N, N)},
    lambda: (ops.softmax(X, attrs={"axis": 0}), ops.softmax(X, attrs={"axis": 1})),
    lambda: (ops.softmax(X, attrs={"axis": -1}), ops.softmax(X, attrs={"axis": 1})),
)
pair(
    "softmax of doubles",
    PLANE,
    lambda: (ops.softmax(ops.add(X, X)), ops.softmax(X)),
    lambda: (ops.softmax(ops.add(X, X)), ops.softmax(ops.mul(X, number(2)))),
)
pair(
    "a variance over n - 1",
    PLANE,
    lambda: (
        over("reduce_mean", ops.mul(X, X), 1),
        ops.div(over("reduce_sum", ops.mul(X, X), 1), number(C - 1)),
    ),
    lambda: (over("reduce_mean", ops.mul(X, X), 1), ops.div(over("reduce_sum", ops.mul(X, X), 1), number(C))),
)
pair(
    "another epsilon",
    {"x": (N, C), "w": (C,)},
    lambda: (
        ops.layer_normalization(X, W, attrs={"epsilon": 0.1}),
        ops.layer_normalization(X, W, attrs={"epsilon": 0.2}),
    ),
    lambda: (ops.layer_normalization(X, W), ops.mul(ops.layer_normalization(X, row(1)), W)),
)
pair(
    "a mean of means of other sizes",
    {"x": (N, C, H)},
    lambda: (over("reduce_mean", X, 1, 2), over("reduce_mean", over("reduce_sum", X, 2), 1)),
    lambda: (over("reduce_mean", X, 1, 2), over("reduce_mean", over("reduce_mean", X, 2), 1)),
)
pair(
    "a mean of squares",
    PLANE,
    lambda: (
        over("reduce_mean", ops.mul(X, X), 1),
        ops.mul(over("reduce_mean", X, 1), over("reduce_mean", X, 1)),
    ),
    lambda: (over("reduce_sum_square", X, 1), over("reduce_sum", ops.mul(X, X), 1)),
)
pair(
    "mean and variance change places",
    {"x": (N, C), "w": (C,), "b": (C,)},
    lambda: (ops.batch_normalization(X, W, B, W, B), ops.batch_normalization(X, W, B, B, W)),
    lambda: (ops.batch_normalization(X, W, B, W, B), ops.batch_normalization(X, W, B, W, B)),
)
pair(
    "over other axes",
    {"x": (N, C, C)},
    lambda: (over("reduce_sum", X, 1), over("reduce_sum", X, 2)),
    lambda: (over("reduce_sum", X, 1, 2), over("reduce_sum", over("reduce_sum", X, 2), 1)),
)
