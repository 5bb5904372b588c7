"""Normalizations, of sums and of embeddings too."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce

import numpy as np
from onnx import numpy_helper

from tensmith.frontend.onnx_body import OperatorBody
from tensmith.frontend.onnx_contrib.common import FLOATS, MOST_FLOATS, operator, plus
from tensmith.ir.onnx_schema import ELEMENT_CODES


def _skipped(b: OperatorBody, bias: str) -> str:
    """The sum of the first two inputs and a bias; the second may be one for all of a batch."""
    x, skip = (b.type(index).shape or () for index in range(2))
    b.need(b.type(0).dtype in MOST_FLOATS and len(x) in (2, 3) and len(x) >= len(skip) >= 2)
    for size, other in zip(reversed(x), reversed(skip)):
        b.need(other in (1, size) or not (isinstance(size, int) and (size == 1 or isinstance(other, int))))
    return plus(b, b.add("Add", b.input(0), b.input(1)), bias)


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


@operator("LayerNormalization", domain="")
def _layer_normalization(b: OperatorBody) -> Sequence[str]:
    """The standard's LayerNormalization, which ONNX Runtime has before the standard did, too."""
    x, scale, bias = b.inputs(3)
    dtype = b.type(0).dtype
    b.need(dtype in FLOATS and b.type(1).dtype == dtype)
    return [b.add("LayerNormalization", x, scale, bias, **b.given("axis", "epsilon", "stash_type"))]


@operator("SimplifiedLayerNormalization", domain="")
def _simplified_layer_normalization(b: OperatorBody) -> Sequence[str]:
    """y = x / sqrt(mean(x x) + epsilon) scale, over `axis` and all behind it."""
    x, scale = b.inputs(2)
    dtype, rank = b.type(0).dtype, b.rank(0)
    axis = b.attribute("axis", -1)
    b.need(dtype in FLOATS and b.type(1).dtype == dtype and b.attribute("stash_type", 1) == 1)
    b.need(-rank <= axis < rank)
    axes = list(range(axis % rank - rank, 0))
    return [_rms(b, x, scale, dtype, axes, b.attribute("epsilon", 1e-5))]


@operator("SkipLayerNormalization")
def _skip_layer_normalization(b: OperatorBody) -> Sequence[str]:
    """LayerNormalization of the sum of x, what skips a layer and a bias; the sum is the fourth output."""
    _, _, scale, shift, bias = b.inputs(5)
    total, epsilon = _skipped(b, bias), b.attribute("epsilon", 1e-12)
    y = b.add("LayerNormalization", total, scale, shift, axis=-1, epsilon=epsilon)
    return [y, "", "", total]


@operator("SkipSimplifiedLayerNormalization")
def _skip_simplified_layer_normalization(b: OperatorBody) -> Sequence[str]:
    """As SkipLayerNormalization, without a mean or a shift."""
    _, _, scale, bias = b.inputs(4)
    total = _skipped(b, bias)
    return [_rms(b, total, scale, b.type(0).dtype, [-1], b.attribute("epsilon", 1e-12)), "", "", total]


@operator("EmbedLayerNormalization")
def _embed_layer_normalization(b: OperatorBody) -> Sequence[str]:
    """LayerNormalization of the sum of embeddings of words, positions and segments.

    Outputs: y [B, S, H], how many ones each row of the mask holds [B], the sum [B, S, H].
    """
    words, segments, of_words, of_places, of_segments, scale, shift, mask, places = b.inputs(9)
    b.need(b.type(2).dtype in MOST_FLOATS and bool(segments) == bool(of_segments))
    b.attribute("mask_index_type", 0)
    rows = [b.add("Gather", of_words, words), rows_of_places(b, of_places, words, places)]
    if segments:
        rows.append(b.add("Gather", of_segments, segments))
    return normal_sum(b, rows, scale, shift, mask)


def rows_of_places(b: OperatorBody, table: str, words: str, places: str = "") -> str:
    """Those of given places, or of 0, 1... as there are words."""
    if places:
        return b.add("Gather", table, places)
    start, end = b.constant([0], "i64"), b.add("Shape", words, start=1, end=2)
    return b.add("Slice", table, start, end, start)


def normal_sum(b: OperatorBody, rows: Sequence[str], scale: str, shift: str, mask: str) -> list[str]:
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
