"""Transposed convolution: conformance with ONNX Runtime."""

from __future__ import annotations

from typing import Any

import pytest
from conformance import check, random

from tensmith.ir.op import OPS, Typed
from tensmith.ir.types import TensorType


@pytest.mark.parametrize(
    ("shape", "kernel", "bias", "attrs"),
    [
        ((2, 4, 5), (4, 3, 3), 0, {}),
        ((2, 4, 5), (4, 3, 3), 3, {"strides": (2,), "pads": (1, 1), "output_padding": (1,)}),
        ((2, 4, 5), (4, 3, 3), 6, {"strides": (3,), "dilations": (2,), "pads": (1, 2), "group": 2}),
        ((1, 4, 5, 4), (4, 3, 3, 2), 0, {"strides": (2, 1), "pads": (1, 0, 0, 1)}),
        ((1, 4, 5, 4), (4, 3, 3, 2), 0, {"strides": (3, 2), "output_shape": (15, 9)}),
        ((1, 4, 5), (4, 3, 3), 0, {"strides": (2,), "auto_pad": "SAME_UPPER"}),
        ((1, 4, 5), (4, 3, 3), 0, {"strides": (2,), "auto_pad": "SAME_LOWER"}),
        ((1, 4, 5), (4, 3, 4), 0, {"strides": (2,), "auto_pad": "VALID"}),
    ],
)
def test_conv_transpose(
    shape: tuple[int, ...], kernel: tuple[int, ...], bias: int, attrs: dict[str, Any]
) -> None:
    inputs = [random(*shape), random(*kernel, seed=1), *([random(bias, seed=2)] if bias else [])]
    check("conv_transpose", inputs, attrs, symbolic=False, atol=1e-5)


def test_filters_shorter_than_their_stride_are_not_claimed_with_same_padding() -> None:
    """The standard promises 6 elements, ONNX Runtime gives 5."""
    attrs = {**OPS["conv_transpose"].attributes, "strides": (2,), "auto_pad": "SAME_UPPER"}
    types = (TensorType("f32", (1, 1, 3)), TensorType("f32", (1, 1, 1)))
    assert OPS["conv_transpose"].accepts(Typed(attrs, types, (None, None)))
