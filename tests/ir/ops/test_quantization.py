"""Quantized ops: conformance with ONNX Runtime, bit for bit where the output is integers."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest
from conformance import check, random

from tensmith.errors import ProgramError
from tensmith.formula.arith import Array, Floats
from tensmith.ir.op import OPS, Run, Typed
from tensmith.ir.types import TensorType


def integers(dtype: Any, *shape: int) -> Array:
    info = np.iinfo(dtype)
    return np.random.default_rng(3).integers(info.min, info.max + 1, shape).astype(dtype)


def scale(value: float) -> Array:
    return np.array(value, np.float32)


def scales(*shape: int) -> Array:
    return random(*shape, seed=5, low=0.01, high=0.1)


@pytest.mark.parametrize("dtype", [np.uint8, np.int8, np.int16, np.uint16])
def test_quantize_per_tensor(dtype: Any) -> None:
    check("quantize_linear", [random(3, 4, 5), scale(0.02), np.array(3, dtype)], opset=21)


@pytest.mark.parametrize("dtype", [np.float16, ml_dtypes.bfloat16])
@pytest.mark.parametrize(("codes", "point"), [(np.int16, 0), (np.uint16, 32768)])
def test_16_bit_floats_reach_every_code_of_16_bits(dtype: Any, codes: Any, point: int) -> None:
    x, step = np.array([-4, 0, 2**-14, 4], dtype), np.array(2**-14, dtype)
    info = np.iinfo(codes)
    wanted = np.array([info.min, point, point + 1, info.max], codes)
    zero = np.array(point, codes)
    check("quantize_linear", [x, step, zero], opset=21, formula=False, field=False, expected=[wanted])


def test_quantize_without_a_zero_point_is_u8() -> None:
    check("quantize_linear", [random(3, 4), scale(0.02)])


@pytest.mark.parametrize("axis", [1, -2])
def test_quantize_per_axis(axis: int) -> None:
    check("quantize_linear", [random(3, 4, 2), scales(4), integers(np.int8, 4)], {"axis": axis})


def test_quantize_and_dequantize_by_blocks() -> None:
    attrs = {"axis": 0, "block_size": 3}
    point = integers(np.int8, 2, 4)
    check("quantize_linear", [random(6, 4), scales(2, 4), point], attrs, opset=21)
    check("dequantize_linear", [integers(np.int8, 6, 4), scales(2, 4), point], attrs, opset=21)


@pytest.mark.parametrize("dtype", [ml_dtypes.int4, ml_dtypes.uint4, ml_dtypes.float8_e4m3fn])
def test_small_types(dtype: Any) -> None:
    point = np.array(0).astype(dtype)
    x = random(6, 4, low=-9, high=9)
    (q,) = check("quantize_linear", [x, scale(0.5), point], opset=21, formula=False, field=False)
    check("dequantize_linear", [q, scale(0.5), point], opset=21, formula=False, field=False)


def test_dequantize() -> None:
    check("dequantize_linear", [integers(np.uint8, 3, 4), scale(0.02), np.array(3, np.uint8)])
    check("dequantize_linear", [integers(np.int8, 3, 4), scale(0.02)])
    check("dequantize_linear", [integers(np.int8, 3, 4), scales(3), integers(np.int8, 3)], {"axis": 0})
    check("dequantize_linear", [integers(np.int32, 3, 4) // 1000, scale(0.02)])


@pytest.mark.parametrize(("low", "high"), [(-3, 5), (1, 2), (-2, -1), (0, 0)])
def test_dynamic_quantize(low: float, high: float) -> None:
    check("dynamic_quantize_linear", [random(4, 5, low=low, high=high)], n_outputs=3, formula=False)


def test_matmul_integer() -> None:
    a, b = integers(np.uint8, 3, 4), integers(np.int8, 4, 5)
    check("matmul_integer", [a, b])
    check("matmul_integer", [a, b, np.array(5, np.uint8), np.array(-3, np.int8)])
    check("matmul_integer", [a, b, np.array(5, np.uint8), integers(np.int8, 5)], formula=False)


def test_conv_integer() -> None:
    x, w = integers(np.uint8, 2, 4, 6, 6), integers(np.uint8, 6, 4, 3, 3)
    points = [np.array(7, np.uint8), np.array(9, np.uint8)]
    attrs = {"pads": (1, 1, 1, 1), "strides": (2, 2)}
    check("conv_integer", [x, w, *points], attrs, symbolic=False)
    check("conv_integer", [x, w], symbolic=False)


@pytest.mark.parametrize("per_column", [False, True])
def test_q_linear_matmul(per_column: bool) -> None:
    weight = scales(5) if per_column else scale(0.02)
    point = np.zeros(5, np.int8) if per_column else np.array(1, np.int8)
    a, b = integers(np.uint8, 3, 4), integers(np.int8, 4, 5)
    inputs = [a, scale(0.1), np.array(120, np.uint8), b, weight, point, scale(0.5), np.array(7, np.uint8)]
    check("q_linear_matmul", inputs, formula=False)


def test_scales_in_halves_are_multiplied_in_floats() -> None:
    """Their product in halves would be so far off that a code is another."""
    half, byte = np.float16, np.uint8
    left = [np.array([[0]], byte), half(0.0066), byte(59)]
    right = [np.array([[225]], byte), half(0.00705), byte(114)]
    program = [np.asarray(each) for each in (*left, *right, half(0.0107), byte(118))]
    types = tuple(TensorType({"float16": "f16", "uint8": "u8"}[a.dtype.name], a.shape) for a in program)
    (codes,) = OPS["q_linear_matmul"].run(Run({}, tuple(program), types, (None,)), Floats())
    assert codes.tolist() == [[90]]


@pytest.mark.parametrize("groups", [1, 2])
def test_q_linear_conv(groups: int) -> None:
    # 7 bits: without VNNI, ONNX Runtime adds pairs of products in 16 bits, and more would saturate.
    x, w = integers(np.uint8, 2, 4, 6, 6), integers(np.int8, 6, 4 // groups, 3, 3) // 2
    inputs = [
        x, scale(0.1), np.array(120, np.uint8), w, scales(6), np.zeros(6, np.int8), scale(4),
        np.array(7, np.uint8), integers(np.int16, 6).astype(np.int32),
    ]  # fmt: skip
    check("q_linear_conv", inputs, {"pads": (1, 1, 0, 1), "group": groups}, formula=False, symbolic=False)


def test_scales_that_do_not_fit_their_axis() -> None:
    op = OPS["dequantize_linear"]
    types = (TensorType("i8", (3, 4)), TensorType("f32", (3,)))
    with pytest.raises(ProgramError, match="3 scales along axis 1 of size 4"):
        op.infer(Typed(op.attributes, types, (None, None)))


@pytest.mark.parametrize(
    ("scale", "zero_point", "block", "message"),
    [
        ((8,), (2,), 0, "2 zero points along axis 0 of size 8"),
        ((8,), (1, 8), 0, "a zero point of shape .* needs block_size"),
        ((3, 4), (4, 4), 2, "3 scales along axis 0 of size 8 in blocks of 2"),
        ((4, 4), (4, 3), 2, "3 zero points along axis 1 of size 4"),
        ((4,), (4,), 2, "a scale of rank 1 for blocks of x of rank 2"),
    ],
)
@pytest.mark.parametrize("name", ["dequantize_linear", "quantize_linear"])
def test_scales_and_zero_points_fit_their_blocks(
    name: str, scale: tuple[int, ...], zero_point: tuple[int, ...], block: int, message: str
) -> None:
    op = OPS[name]
    types = (TensorType("f32", (8, 4)), TensorType("f32", scale), TensorType("i8", zero_point))
    with pytest.raises(ProgramError, match=message):
        op.infer(Typed({**op.attributes, "axis": 0, "block_size": block}, types, (None,) * 3))
