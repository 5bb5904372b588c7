"""Reductions, softmax, positions of extremes, running sums."""

from __future__ import annotations

import numpy as np
import pytest
from conformance import check, random

from tensmith.formula.arith import Floats
from tensmith.formula.poly import Poly
from tensmith.ir.op import OPS, Run, Typed
from tensmith.ir.types import TensorType

X = random(2, 3, 4)
KINDS = ("sum", "mean", "max", "min", "prod", "l1", "l2", "log_sum", "log_sum_exp", "sum_square")


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("keepdims", [0, 1])
@pytest.mark.parametrize("axes", [[1], [0, -1], None])
def test_reductions(kind: str, keepdims: int, axes: list[int] | None) -> None:
    x = np.abs(X) + np.float32(0.1) if kind == "log_sum" else X
    check(f"reduce_{kind}", [x, None if axes is None else np.array(axes)], {"keepdims": keepdims})


@pytest.mark.parametrize("kind", ["sum", "mean", "max"])
def test_no_axes_can_mean_none(kind: str) -> None:
    check(f"reduce_{kind}", [X, np.array([], np.int64)], {"noop_with_empty_axes": 1})


@pytest.mark.parametrize("kind", ["sum", "max", "min", "prod"])
def test_integers(kind: str) -> None:
    check(f"reduce_{kind}", [np.array([[3, -4], [5, 6]]), np.array([1])])


def test_the_product_of_sizes() -> None:
    n = Poly.symbol("N")
    sizes = np.array([n, 3, 2], dtype=object)
    call = Run({"keepdims": 0, "noop_with_empty_axes": 0}, (sizes,), (TensorType("i64", (3,)),), (None,))
    assert OPS["reduce_prod"].run(call, Floats())[0] == n * 6


def test_means_of_16_bit_floats_do_not_overflow() -> None:
    x = np.full((1, 2048), 100, np.float16)
    (y,) = check("reduce_mean", [x, np.array([1])])
    assert y == 100


def test_unknown_axes_leave_the_shape_unknown() -> None:
    types = (TensorType("f32", (2, 3)), TensorType("i64", (1,)))
    call = Typed({"keepdims": 1, "noop_with_empty_axes": 0}, types, (None, None))
    assert OPS["reduce_sum"].infer(call) == (TensorType("f32", None),)


@pytest.mark.parametrize("name", ["arg_max", "arg_min"])
@pytest.mark.parametrize("last", [0, 1])
@pytest.mark.parametrize("keepdims", [0, 1])
def test_positions(name: str, last: int, keepdims: int) -> None:
    attrs = {"axis": 1, "select_last_index": last, "keepdims": keepdims}
    check(name, [np.round(X)], attrs, formula=False)


@pytest.mark.parametrize("axis", [-1, 0, 1])
def test_softmax(axis: int) -> None:
    check("softmax", [X], {"axis": axis})
    check("log_softmax", [X], {"axis": axis})
    check("hardmax", [X], {"axis": axis}, formula=False)


def test_softmax_of_large_numbers() -> None:
    check("softmax", [X * np.float32(1000)], field=False)
    check("log_softmax", [X * np.float32(1000)], field=False)
    check("reduce_log_sum_exp", [X * np.float32(1000)], formula=False)


@pytest.mark.parametrize("exclusive", [0, 1])
@pytest.mark.parametrize("reverse", [0, 1])
def test_running_sums_and_products(exclusive: int, reverse: int) -> None:
    attrs = {"exclusive": exclusive, "reverse": reverse}
    check("cum_sum", [X, np.array(1)], attrs)
    check("cum_prod", [X, np.array(-1)], attrs, opset=26)


@pytest.mark.parametrize("exclusive", [0, 1])
@pytest.mark.parametrize("reverse", [0, 1])
@pytest.mark.parametrize("kind", ["max", "min"])
def test_running_maxima_and_minima(kind: str, exclusive: int, reverse: int) -> None:
    """ONNX has no operator of these: NumPy says what they are."""
    before = -np.inf if kind == "max" else np.inf
    turned = X[:, ::-1] if reverse else X
    found = (np.maximum if kind == "max" else np.minimum).accumulate(turned, 1)
    if exclusive:
        found = np.concatenate([np.full_like(X[:, :1], before), found[:, :-1]], 1)
    wanted = found[:, ::-1] if reverse else found
    attrs = {"exclusive": exclusive, "reverse": reverse}
    check(f"cum_{kind}", [X, np.array(1)], attrs, formula=not exclusive, expected=[wanted])


def test_before_the_first_integer_is_the_least_of_its_type() -> None:
    x = np.array([3, 200], np.uint8)
    check("cum_max", [x, np.array(0)], {"exclusive": 1}, formula=False, expected=[np.array([0, 3], np.uint8)])
    check(
        "cum_min", [x, np.array(0)], {"exclusive": 1}, formula=False, expected=[np.array([255, 3], np.uint8)]
    )
