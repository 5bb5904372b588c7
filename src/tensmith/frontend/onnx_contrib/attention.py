"""Attention without a past, and rotary embeddings."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise

import numpy as np

from tensmith.formula.poly import Dim
from tensmith.frontend.onnx_body import OperatorBody
from tensmith.frontend.onnx_contrib.codes import product_of_codes
from tensmith.frontend.onnx_contrib.common import operator, plus
from tensmith.ir.onnx_schema import ELEMENT_CODES


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


@operator("Attention")
def _attention(b: OperatorBody) -> Sequence[str]:
    """Attention of x to itself; weights and bias hold those of q, k and v."""
    x, weights, bias, _ = b.inputs(4)
    shape, of_weights = b.type(0).shape or (), b.type(1).static or ()
    b.need(b.type(0).dtype == "f32" and len(shape) == 3 and len(of_weights) == 2)
    b.need(not b.attribute("do_rotary", 0) and not b.attribute("past_present_share_buffer", 0))
    b.attribute("rotary_embedding_dim", 0)
    widths = b.attribute("qkv_hidden_sizes", []) or [of_weights[1] // 3] * 3
    b.need(len(widths) == 3 and min(widths) > 0 and sum(widths) == of_weights[1])
    y = plus(b, b.add("MatMul", x, weights), bias)
    return [_attended(b, _split(b, y, widths), widths, 3, (*shape[:2], shape[1]))]


@operator("QAttention")
def _q_attention(b: OperatorBody) -> Sequence[str]:
    """Attention of the numbers of codes."""
    bias = b.inputs(8)[2]
    shape, of_weights = b.type(0).shape or (), b.type(1).static or ()
    b.need(len(shape) == 3 and len(of_weights) == 2 and not of_weights[1] % 3)
    b.need(not b.attribute("do_rotary", 0) and not b.attribute("past_present_share_buffer", 0))
    y = product_of_codes(b, (0, 3, 6), (1, 4, 7), bias)
    widths = [of_weights[1] // 3] * 3
    return [_attended(b, _split(b, y, widths), widths, 5, (*shape[:2], shape[1]))]


@operator("MultiHeadAttention")
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


@operator("RotaryEmbedding")
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
