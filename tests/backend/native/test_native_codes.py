"""Products by constants of few bits: the codes stay packed, and the answers are the interpreter's."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from native_programs import Net, answers

from tensmith.backend.native.plan import make_plan
from tensmith.kernel import host_isa

Array = np.ndarray[Any, Any]
ROWS, INNER, COLUMNS = 3, 96, 37


def dequantized(
    net: Net, dtype: Any, axis: int, block: int, zeros: str = "", shape: tuple[int, int] = (INNER, COLUMNS)
) -> str:
    """A constant of `shape` as codes; block 0 is one scale a column, -1 one for all."""
    low, high = (0, 16) if dtype == ml_dtypes.uint4 else (-8, 8)
    codes = net.random.integers(low, high, shape).astype(dtype)
    sizes = tuple(-(-n // block) if a == axis else n for a, n in enumerate(shape)) if block > 0 else ()
    sizes = (shape[axis],) if block == 0 else sizes
    scales = net.constant(values=(net.random.uniform(0.5, 1, sizes) / 30).astype(np.float32))
    parts = [net.constant(values=codes), scales]
    if zeros:
        kept = (
            net.random.integers(low, high, sizes) if zeros == "random" else np.full(sizes, (low + high) // 2)
        )
        parts.append(net.constant(values=kept.astype(dtype)))
    return net.add("dequantize_linear", *parts, axis=axis, block_size=max(block, 0))


def blocks(dtype: Any, block: int, zeros: str = "") -> Callable[[Net], str]:
    return lambda net: net.add("matmul", "x", dequantized(net, dtype, 0, block, zeros))


def turned(net: Net) -> str:
    """As exporters of linear layers write it, with a bias, a residual and an activation behind."""
    weights = dequantized(net, ml_dtypes.int4, 1, 32, shape=(COLUMNS, INNER))
    y = net.add("matmul", "x", net.add("transpose", weights, perm=(1, 0)))
    return net.add("relu", net.add("add", net.add("add", y, net.constant(COLUMNS)), y))


FORMS: dict[str, tuple[Callable[[Net], str], str]] = {
    "int4 in blocks": (blocks(ml_dtypes.int4, 32), "i4"),
    "uint4 without zero points": (blocks(ml_dtypes.uint4, 16), "u4"),
    "uint4 with its middle as zero point": (blocks(ml_dtypes.uint4, 16, "middle"), "i4"),
    "uint4 with zero points": (blocks(ml_dtypes.uint4, 64, "random"), "u4"),
    "int4 with zero points": (blocks(ml_dtypes.int4, 32, "random"), "u4"),
    "int8 in blocks": (blocks(np.int8, 16), "i8"),
    "one scale for all": (blocks(ml_dtypes.int4, -1), "i4"),
    "one scale a column": (lambda net: net.add("matmul", "x", dequantized(net, ml_dtypes.int4, 1, 0)), "i4"),
    "turned": (turned, "i4"),
    "int8 with zero points, as floats": (blocks(np.int8, 16, "random"), "f32"),
    "one scale a row, as floats": (
        lambda net: net.add("matmul", "x", dequantized(net, ml_dtypes.int4, 0, 0)), "f32"
    ),
}  # fmt: skip


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("shape", [(1, ROWS, INNER), (1, INNER)], ids=str)
def test_codes_are_multiplied_as_the_interpreter_does(
    form: str, shape: tuple[int, ...], tmp_path: Path
) -> None:
    build, dtype = FORMS[form]
    net = Net(*shape)
    program = net.program(build(net))
    (kernel,) = make_plan(program, host_isa()).kernels
    assert kernel.work.problem.dtype == dtype  # type: ignore[union-attr]
    found, expected = answers(program, tmp_path)
    for name, values in expected.items():
        # |w| is at most 16/30, so sums of 96 products stay below 100 * 96 * 2^-24 from the exact ones.
        np.testing.assert_allclose(found[name], values, rtol=0, atol=6e-4)
