"""Scaled dot-product attention and rotary position embedding, as opset 23 and newer have them."""

from __future__ import annotations

import math

import numpy as np

from tensmith.errors import ProgramError
from tensmith.formula.arith import Arith, Array
from tensmith.formula.poly import Dim, Poly
from tensmith.ir.op import Attrs, Op, Run, Typed, op
from tensmith.ir.ops.elementwise import single
from tensmith.ir.ops.sizes import as_ints, onnx_dtype
from tensmith.ir.ops.softmax import softmax
from tensmith.ir.types import DTYPES, Shape, TensorType


@op(
    "attention",
    onnx="Attention",
    attributes={
        "is_causal": 0, "kv_num_heads": None, "q_num_heads": None, "qk_matmul_output_mode": 0, "scale": None,
        "softcap": 0.0, "softmax_precision": None, "left_window_size": -1, "right_window_size": -1,
    },
    since=23,
)  # fmt: skip
class Attention(Op):
    """y = softmax(scale * q k^T + bias) v for each head (Vaswani et al. 2017). ONNX Attention.

    q: [N, Hq, L, D], k: [N, H, S, D], v: [N, H, S, Dv], or [N, L, Hq*D] and so on with the head numbers as
    attributes; Hq is a multiple of H (grouped queries). Optional inputs: mask (Boolean, or added), past key
    and value (joined before k and v), the number of keys that are not padding [N]. Outputs: y, the joined
    key and value, and the scores at the stage qk_matmul_output_mode.
    """

    def infer(self, call: Typed) -> tuple[TensorType | None, ...]:
        """y in q's layout; the others with one axis for heads."""
        q, k, v = call.type(0), call.type(1), call.type(2)
        if q.shape is None or k.shape is None or v.shape is None:
            return tuple(q.with_shape(None) for _ in range(call.n_outputs))
        heads_q, heads = _heads(call.attrs, q.shape, k.shape)
        for name, shape in (("q_num_heads", q.shape), ("kv_num_heads", k.shape)):
            stated = call.attrs[name]
            if stated and len(shape) == 4 and isinstance(shape[1], int) and stated != shape[1]:
                raise ProgramError(f"{name} is {stated}, but its input has {shape[1]} heads")
        n, h, rows, _ = _split_shape(q.shape, heads_q)
        key, value = _split_shape(k.shape, heads), _split_shape(v.shape, heads)
        length = Poly.of(key[2])
        if call.has(4):
            length = length + call.type(4).dims[2]
        key, value = (*key[:2], length, key[3]), (*value[:2], length, value[3])
        y: Shape = (n, h, rows, value[3]) if len(q.shape) == 4 else (n, rows, Poly.of(value[3]) * h)
        found = (q.with_shape(y), k.with_shape(key), v.with_shape(value), q.with_shape((n, h, rows, length)))
        return found[: call.n_outputs]

    def run(self, call: Run, arith: Arith) -> tuple[Array, ...]:
        """Heads apart, scores, mask, softmax, average, heads together again."""
        heads_q, heads = _heads(call.attrs, call[0].shape, call[1].shape)
        q = split_heads(call[0], heads_q)
        key = _joined(call.get(4), split_heads(call[1], heads))
        value = _joined(call.get(5), split_heads(call[2], heads))
        group = q.shape[1] // key.shape[1]
        k, v = np.repeat(key, group, axis=1), np.repeat(value, group, axis=1)
        scores = _scores(call.attrs, arith, q, k)
        capped = _capped(arith, scores, call.attrs["softcap"])
        bias = _bias(call, arith, capped)
        biased = capped if bias is None else arith.add(capped, bias)
        weights = _weights(call.attrs, arith, biased, bias)
        y = _matmul(arith, weights, v)
        stage = (scores, capped, biased, weights)[call.attrs["qk_matmul_output_mode"]]
        return (merge_heads(y, call[0].ndim), key, value, stage)[: len(call.out_types)]

    def cost(self, call: Typed, outputs: tuple[TensorType | None, ...]) -> int:
        """Scores and the average: queries times keys times both depths."""
        shapes = [call.type(i).static for i in range(3)]
        if None in shapes or outputs[0] is None or outputs[0].static is None:
            return 0
        q, k, v = (shape for shape in shapes if shape is not None)
        heads_q, heads = _heads(call.attrs, q, k)
        n, h, rows, depth = _split_shape(q, heads_q)
        past = call.type(4).dims[2] if call.has(4) else 0
        columns, width = Poly.of(_split_shape(k, heads)[2]) + past, _split_shape(v, heads)[3]
        return math.prod(as_ints((n, h, rows, columns, Poly.of(depth) + width)))


def _heads(attrs: Attrs, q: Shape, k: Shape) -> tuple[Dim, Dim]:
    """How many heads q and k have."""
    if len(q) == 4:
        return q[1], k[1]
    if len(q) != 3 or not attrs["q_num_heads"] or not attrs["kv_num_heads"]:
        raise ProgramError("attention takes 4-D inputs, or 3-D ones with q_num_heads and kv_num_heads")
    return attrs["q_num_heads"], attrs["kv_num_heads"]


def _split_shape(shape: Shape, heads: Dim) -> Shape:
    """[N, L, H*D] as [N, H, L, D]."""
    if len(shape) == 4:
        return shape
    return (shape[0], heads, shape[1], Poly.of(shape[2]) // heads)


def split_heads(x: Array, heads: Dim) -> Array:
    """[N, L, H*D] -> [N, H, L, D]; 4-D arrays are so already."""
    if x.ndim == 4:
        return x
    return x.reshape(x.shape[0], x.shape[1], *as_ints((heads,)), -1).transpose(0, 2, 1, 3)


def merge_heads(x: Array, rank: int) -> Array:
    """[N, H, L, D] -> [N, L, H*D] where the op's own layout has rank 3."""
    if rank == 4:
        return x
    return x.transpose(0, 2, 1, 3).reshape(x.shape[0], x.shape[2], x.shape[1] * x.shape[3])


def _joined(past: Array | None, new: Array) -> Array:
    return new if past is None else np.concatenate((past, new), axis=2)


def _scores(attrs: Attrs, arith: Arith, q: Array, k: Array) -> Array:
    """q k^T * scale, each side scaled by its root so that 16-bit floats do not overflow."""
    scale = attrs["scale"]
    root = math.sqrt(1 / math.sqrt(q.shape[3]) if scale is None else single(scale))
    factor = arith.const(single(root), like=q)
    return _matmul(arith, arith.mul(q, factor), np.swapaxes(arith.mul(k, factor), -1, -2))


def _matmul(arith: Arith, a: Array, b: Array) -> Array:
    """The product in the element type of a, which NumPy would widen where that is bfloat16."""
    product = arith.matmul(a, b)
    return product if arith.exact else product.astype(a.dtype)


def _capped(arith: Arith, scores: Array, softcap: float) -> Array:
    if softcap == 0:
        return scores
    cap = arith.const(single(softcap), like=scores)
    return arith.mul(arith.call("tanh", arith.div(scores, cap)), cap)


def _bias(call: Run, arith: Arith, scores: Array) -> Array | None:
    """What is added to the scores: 0 where a key may be seen, -inf where not, and a mask of numbers."""
    zero, never = arith.const(0.0, like=scores), arith.const(-np.inf, like=scores)
    mask, allowed = call.get(3), positions_allowed(call, *scores.shape[-2:])
    if mask is not None:
        missing = [(0, 0)] * (mask.ndim - 1) + [(0, scores.shape[-1] - mask.shape[-1])]
        if mask.dtype == np.bool_:
            seen = np.pad(mask, missing, constant_values=False)
            allowed, mask = seen if allowed is None else np.logical_and(allowed, seen), None
        else:
            mask = np.pad(mask, missing, constant_values=never)
    if allowed is None:
        return mask
    bias = np.where(allowed, zero, never)
    return bias if mask is None else arith.add(bias, mask)


def positions_allowed(call: Run, rows: int, columns: int) -> Array | None:
    """Which keys each query may see by position: causality, the window and the keys' number; None for all.

    Query i stands at position i + offset, offset being the keys before this block of queries.
    """
    past, valid = call.get(4), call.get(6)
    offset = np.asarray(0 if past is None else past.shape[2])
    if valid is not None and past is None:
        offset = valid.reshape(-1, 1, 1, 1) - rows
    position, key = np.arange(rows)[:, None] + offset, np.arange(columns)
    left, right = call.attrs["left_window_size"], call.attrs["right_window_size"]
    tests = []
    if call.attrs["is_causal"]:
        tests.append(key <= position)
    if left >= 0:
        tests.append(position - key <= left)
    if right >= 0:
        tests.append(key - position <= right)
    if valid is not None:
        tests.append(key < valid.reshape(-1, 1, 1, 1))
    allowed: Array | None = None
    for test in tests:
        allowed = np.asarray(test if allowed is None else np.logical_and(allowed, test))
    return allowed


def _weights(attrs: Attrs, arith: Arith, biased: Array, bias: Array | None) -> Array:
    """Softmax over the keys; a query that may see none has weights 0, as ONNX says."""
    precision = attrs["softmax_precision"]
    x = biased if arith.exact or precision is None else biased.astype(DTYPES[onnx_dtype(precision)])
    weights = softmax(arith, x, x.ndim - 1)
    if arith.exact:
        return weights
    if bias is not None:
        weights = np.where(np.isneginf(np.max(bias, axis=-1, keepdims=True)), 0, weights)
    return weights.astype(biased.dtype)


@op(
    "rotary_embedding",
    onnx="RotaryEmbedding",
    attributes={"interleaved": 0, "num_heads": None, "rotary_embedding_dim": 0},
    since=23,
)
class RotaryEmbedding(Op):
    """Pairs of features turned by the angle of their position (Su et al. 2021). ONNX RotaryEmbedding.

    x: [N, H, L, D], or [N, L, H*D] with num_heads; cos, sin: [positions, D/2] with position_ids [N, L], or
    [N, L, D/2]. Pairs are (first half, second half), or neighbours if interleaved; features past
    rotary_embedding_dim stay.
    """

    def infer(self, call: Typed) -> tuple[TensorType | None, ...]:
        """x's type."""
        x = call.type(0)
        if x.rank not in (None, 3, 4):
            raise ProgramError(f"rotary_embedding takes 3-D or 4-D inputs, not {x}")
        if x.rank == 3 and not call.attrs["num_heads"]:
            raise ProgramError(f"rotary_embedding of {x} needs num_heads")
        return (x,)

    def run(self, call: Run, arith: Arith) -> tuple[Array, ...]:
        """(a, b) -> (a cos - b sin, a sin + b cos)."""
        x, ids = split_heads(call[0], call.attrs["num_heads"]), call.get(3)
        cos, sin = (cache if ids is None else cache[ids] for cache in (call[1], call[2]))
        cos, sin = np.expand_dims(cos, 1), np.expand_dims(sin, 1)
        width = call.attrs["rotary_embedding_dim"] or x.shape[-1]
        turned, kept = x[..., :width], x[..., width:]
        if call.attrs["interleaved"]:
            a, b = turned[..., 0::2], turned[..., 1::2]
        else:
            a, b = turned[..., : width // 2], turned[..., width // 2 :]
        real = arith.sub(arith.mul(cos, a), arith.mul(sin, b))
        imaginary = arith.add(arith.mul(sin, a), arith.mul(cos, b))
        if call.attrs["interleaved"]:
            pairs = np.stack((real, imaginary), axis=-1).reshape(turned.shape)
        else:
            pairs = np.concatenate((real, imaginary), axis=-1)
        return (merge_heads(np.concatenate((pairs, kept), axis=-1), call[0].ndim),)
