"""Attention and rotary embedding against ONNX's reference, and against their parts in the field."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from conformance import PRIME, check, random

from tensmith.errors import ProgramError
from tensmith.formula.arith import Array, PrimeField
from tensmith.ir.op import OPS, Run, Typed
from tensmith.ir.types import TensorType

Q, K, V = random(2, 4, 3, 8), random(2, 2, 5, 8, seed=1), random(2, 2, 5, 6, seed=2)
MASK = np.tril(np.ones((3, 5), np.bool_))


def attend(*inputs: Array | None, outputs: int = 1, opset: int = 24, **attrs: Any) -> tuple[Array, ...]:
    return check("attention", inputs, attrs, n_outputs=outputs, opset=opset, formula=False, rtol=1e-4)


@pytest.mark.parametrize(
    "attrs",
    [{}, {"is_causal": 1}, {"scale": 0.25}, {"softcap": 2.0}, {"softmax_precision": 11}],
)
def test_attributes(attrs: dict[str, Any]) -> None:
    attend(Q, K, V, **attrs)


@pytest.mark.parametrize("mask", [MASK, random(3, 5), random(2, 1, 3, 5), MASK[:, :4]])
def test_masks(mask: Array) -> None:
    attend(Q, K, V, mask)
    attend(Q, K, V, mask, is_causal=1)


def test_a_query_that_may_see_nothing_gives_zeros() -> None:
    (y,) = attend(Q, K, V, np.array([[True] * 5, [False] * 5, [True] * 5]))
    assert not y[:, :, 1].any() and y[:, :, 0].any()


def test_past_keys_and_all_outputs() -> None:
    past = random(2, 2, 2, 8, seed=3), random(2, 2, 2, 6, seed=4)
    # ONNX Runtime's masked scores (mode 2) are the lowest finite number, not -inf, so they go unmasked.
    for mode in (0, 2, 3):
        attend(Q, K, V, None, *past, outputs=4, is_causal=int(mode != 2), qk_matmul_output_mode=mode)


def test_padded_keys_and_windows() -> None:
    valid = np.array([3, 5])
    attend(Q, K, V, None, None, None, valid, is_causal=1)
    attend(Q, K, V, opset=25, left_window_size=1, right_window_size=1)


def test_heads_side_by_side() -> None:
    q, k, v = random(2, 3, 32), random(2, 5, 16, seed=1), random(2, 5, 12, seed=2)
    attend(q, k, v, q_num_heads=4, kv_num_heads=2, outputs=3)
    types = tuple(map(TensorType.of, (q, k, v)))
    with pytest.raises(ProgramError, match="3-D ones with q_num_heads"):
        OPS["attention"].infer(Typed(OPS["attention"].attributes, types, (None,) * 3))


def test_attention_is_softmax_between_two_products_in_the_field() -> None:
    field = PrimeField(PRIME, seed=2)
    q, k, v = (field.random(name, (1, 2, 3, 4)) for name in "qkv")
    t = TensorType("f32", (1, 2, 3, 4))
    call = Run({**OPS["attention"].attributes, "scale": 4.0}, (q, k, v), (t,) * 3, (t,))
    (y,) = OPS["attention"].run(call, field)
    scores = field.mul(field.matmul(q, k.swapaxes(-1, -2)), field.const(4.0))
    s = TensorType("f32", scores.shape)
    (weights,) = OPS["softmax"].run(Run({"axis": -1}, (scores,), (s,), (s,)), field)
    assert np.array_equal(y, field.matmul(weights, v))


@pytest.mark.parametrize("interleaved", [0, 1])
@pytest.mark.parametrize("width", [0, 4])
def test_rotary_embedding(interleaved: int, width: int) -> None:
    half = (width or 8) // 2
    cos, sin = random(6, half), random(6, half, seed=1)
    ids = np.array([[0, 1, 2], [3, 4, 5]])
    attrs = {"interleaved": interleaved, "rotary_embedding_dim": width}
    check("rotary_embedding", [Q, cos, sin, ids], attrs, formula=False)
    check("rotary_embedding", [Q, cos[ids], sin[ids]], attrs, formula=False)
    flat = random(2, 3, 32)
    check("rotary_embedding", [flat, cos, sin, ids], {**attrs, "num_heads": 4}, formula=False)
