"""Pooling: conformance with ONNX Runtime over windows, paddings and ceil_mode."""

from __future__ import annotations

import itertools
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from conformance import check, random

from tensmith.formula.arith import Floats
from tensmith.formula.poly import Poly
from tensmith.ir.op import OPS, Run, Typed
from tensmith.ir.types import TensorType

WINDOWS: list[dict[str, Any]] = [
    {"kernel_shape": (3,), "strides": (1,)},
    {"kernel_shape": (3,), "strides": (2,), "pads": (1, 1)},
    {"kernel_shape": (2,), "strides": (2,)},
    {"kernel_shape": (3,), "strides": (2,), "pads": (1, 0), "dilations": (2,)},
    {"kernel_shape": (2,), "strides": (3,), "pads": (1, 1)},
]
CASES = [{**window, "ceil_mode": ceil} for window, ceil in itertools.product(WINDOWS, (0, 1))]


@pytest.mark.parametrize("attrs", CASES)
@pytest.mark.parametrize("size", [7, 8, 10])
def test_max_pool(attrs: dict[str, Any], size: int) -> None:
    check("max_pool", [random(2, 3, size)], attrs, field=False, symbolic=False)
    check("max_pool", [random(2, 3, size)], attrs, n_outputs=2, formula=False, symbolic=False)


def test_max_pool_in_a_field() -> None:
    check("max_pool", [random(1, 2, 7)], {"kernel_shape": (3,), "strides": (2,)}, symbolic=False)


@pytest.mark.parametrize("attrs", CASES)
@pytest.mark.parametrize("included", [0, 1])
def test_average_pool(attrs: dict[str, Any], included: int) -> None:
    for size in (7, 8, 10):
        formula = not (attrs["ceil_mode"] and included)
        use = {**attrs, "count_include_pad": included}
        check("average_pool", [random(2, 3, size)], use, formula=formula, symbolic=False)


@pytest.mark.parametrize("mode", ["SAME_UPPER", "SAME_LOWER", "VALID"])
def test_auto_pad(mode: str) -> None:
    attrs = {"kernel_shape": (3, 2), "auto_pad": mode, "strides": (2, 1)}
    check("max_pool", [random(1, 2, 6, 7)], attrs, field=False, symbolic=False)
    if mode != "SAME_LOWER":  # ONNX Runtime swaps the odd pad of average pools there
        check("average_pool", [random(1, 2, 6, 7)], attrs, symbolic=False)


@pytest.mark.parametrize(
    "attrs",
    [
        {"kernel_shape": (3,), "strides": (2,), "auto_pad": "VALID", "ceil_mode": 1},
        {"kernel_shape": (3,), "dilations": (2,), "auto_pad": "SAME_UPPER"},
        {"kernel_shape": (1,), "strides": (3,), "auto_pad": "SAME_UPPER"},
    ],
)
@pytest.mark.parametrize("name", ["max_pool", "average_pool", "lp_pool"])
def test_what_runtimes_compute_otherwise_is_not_claimed(name: str, attrs: dict[str, Any]) -> None:
    call = Typed({**OPS[name].attributes, **attrs}, (TensorType("f32", (1, 1, 6)),), (None,))
    assert OPS[name].accepts(call)


def test_windows_shorter_than_their_stride() -> None:
    """Where one element between two of them is left out, as in shortcuts of networks."""
    check("average_pool", [random(1, 2, 6, 8)], {
        "kernel_shape": (1, 1), "strides": (2, 2), "auto_pad": "SAME_UPPER"}, symbolic=False)  # fmt: skip


def test_positions_in_column_major_order() -> None:
    attrs = {"kernel_shape": (3, 2), "storage_order": 1}
    check("max_pool", [random(2, 2, 6, 7)], attrs, n_outputs=2, formula=False, symbolic=False)


@pytest.mark.parametrize(
    ("dtype", "value"),
    [
        (np.uint8, 0),
        (np.int8, -128),
        (np.float32, -np.inf),
        (np.float32, np.nan),
        (ml_dtypes.bfloat16, np.nan),
    ],
)
def test_positions_are_inside_the_image(dtype: type, value: float) -> None:
    x = np.full((1, 2, 3, 3), value, dtype)
    attrs = {**OPS["max_pool"].attributes, "kernel_shape": (2, 2), "pads": (1, 1, 1, 1)}
    type_ = TensorType("i64", (1, 2, 4, 4))
    with np.errstate(invalid="ignore"):
        _, places = OPS["max_pool"].run(Run(attrs, (x,), (TensorType.of(x),), (None, type_)), Floats())
    row = np.array([0, 0, 1, 2])
    image = row[:, None] * 3 + row
    np.testing.assert_array_equal(places, [[image, image + 9]])


def test_max_pool_of_integers() -> None:
    x = np.random.default_rng(0).integers(-128, 127, (1, 2, 6, 7)).astype(np.int8)
    check("max_pool", [x], {"kernel_shape": (3, 2), "pads": (1, 1, 1, 1)}, formula=False, symbolic=False)


@pytest.mark.parametrize("p", [1, 2, 3])
def test_lp_pool(p: int) -> None:
    attrs = {"kernel_shape": (3,), "strides": (2,), "pads": (1, 1), "p": p}
    check("lp_pool", [random(2, 3, 8)], attrs, symbolic=False, field=p < 3)


def test_global_pools() -> None:
    check("global_average_pool", [random(2, 3, 4, 5)])
    check("global_max_pool", [random(2, 3, 4)])
    check("global_lp_pool", [random(2, 3, 4, 5)], opset=13)


@pytest.mark.parametrize("dtype", [np.float16, ml_dtypes.bfloat16])
def test_sums_of_16_bit_floats_neither_overflow_nor_stick(dtype: Any) -> None:
    x = np.full((1, 1, 32, 32), 96, dtype)
    alone = {"formula": False, "field": False, "symbolic": False}
    for name, wanted in ("average_pool", 96), ("lp_pool", 96 * 32):
        for kind, attrs in (name, {"kernel_shape": (32, 32)}), (f"global_{name}", {}):
            check(kind, [x], attrs, expected=[np.full((1, 1, 1, 1), wanted, dtype)], **alone)


def test_a_symbolic_image() -> None:
    op = OPS["max_pool"]
    h = Poly.symbol("H")
    attrs = {**op.attributes, "kernel_shape": (3,), "strides": (2,), "pads": (1, 1)}
    (y,) = op.infer(Typed(attrs, (TensorType("f32", (1, 8, h)),), (None,)))
    assert y == TensorType("f32", (1, 8, (h - 1) // 2 + 1))
