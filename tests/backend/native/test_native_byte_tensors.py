"""Quantized products of rows: what quantizers write for transformers, in 8 bits between dense tensors.

Where all scales are powers of two, every number is exact in single precision, and answers equal to the bit.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from native_programs import Net, answers

from tensmith.backend.native.plan import make_plan
from tensmith.kernel import Isa, host_isa, isa_named
from tensmith.kernel.algorithm import Kernel

ROWS, INNER, COLUMNS = 7, 18, 21
ISAS = [
    host_isa(), *map(isa_named, ["generic", *(["avx2"] if "avx2" in host_isa().features else [])])
]  # fmt: skip


class Bytes(Net):
    """A program whose weights and activations are on grids."""

    def grid(self, scale: float, zero: int, dtype: Any = np.uint8) -> tuple[str, str]:
        return self.constant(values=np.float32(scale)), self.constant(values=dtype(zero))

    def pair(self, x: str, scale: float, zero: int, dtype: Any = np.uint8) -> str:
        grid = self.grid(scale, zero, dtype)
        return self.add("dequantize_linear", self.add("quantize_linear", x, *grid), *grid)

    def weights(self, inner: int, columns: int, axis: int = 1, turned: bool = False) -> str:
        shape = (columns, inner) if turned else (inner, columns)
        codes = self.random.integers(-127, 128, shape).astype(np.int8)
        scales = (2.0 ** self.random.integers(-9, -6, columns)).astype(np.float32)
        parts = (codes, scales, np.zeros(columns, np.int8))
        return self.add("dequantize_linear", *(self.constant(values=part) for part in parts), axis=axis)

    def product(self, x: str, inner: int, columns: int) -> str:
        return self.add("matmul", x, self.weights(inner, columns))

    def bias(self, columns: int) -> str:
        return self.constant(values=(self.random.integers(-64, 64, columns) / 16).astype(np.float32))


def rectified(net: Bytes) -> str:
    y = net.add("add", net.product(net.pair("x", 2**-4, 113), INNER, COLUMNS), net.bias(COLUMNS))
    y = net.pair(net.add("relu", y), 2**-5, 0)
    return net.pair(net.product(y, COLUMNS, 40), 2**-3, 120)


def residual_of_bytes(net: Bytes) -> str:
    x = net.pair(net.product(net.pair("x", 2**-4, 113), INNER, COLUMNS), 2**-4, 77)
    y = net.add("add", net.bias(COLUMNS), net.product(x, COLUMNS, COLUMNS))
    return net.add("add", x, net.pair(y, 2**-4, 131))


def residual_of_numbers(net: Bytes) -> str:
    y = net.product(net.pair("x", 2**-4, 113), INNER, INNER)
    return net.add("add", net.add("add", y, net.bias(INNER)), "x")


def bias_behind_a_pair(net: Bytes) -> str:
    y = net.pair(net.product(net.pair("x", 2**-4, 113), INNER, COLUMNS), 2**-4, 100)
    return net.pair(net.add("add", y, net.bias(COLUMNS)), 2**-3, 127)


def signed(net: Bytes) -> str:
    y = net.pair(net.product(net.pair("x", 2**-4, -7, np.int8), INNER, COLUMNS), 2**-4, 5, np.int8)
    return net.add("add", net.product(y, COLUMNS, COLUMNS), y)


def gemm_of_flattened_rows(net: Bytes) -> str:
    x = net.add("reshape", net.pair("x", 2**-4, 90), net.constant(values=np.array([-1, INNER])))
    codes = net.constant(values=net.random.integers(-900, 900, 3).astype(np.int32))
    scales = np.float32([2**-9, 2**-8, 2**-7])
    matrix = net.constant(values=net.random.integers(-127, 128, (3, INNER)).astype(np.int8))
    w = net.add("dequantize_linear", matrix, net.constant(values=scales), axis=0)
    b = net.add("dequantize_linear", codes, net.constant(values=scales * np.float32(2**-4)), axis=0)
    return net.pair(net.add("gemm", x, w, b, transB=1), 2**-3, 120)


def moved(net: Bytes) -> str:
    """Bytes are cut, turned and put back before they are multiplied."""
    y = net.pair(net.product(net.pair("x", 2**-4, 113), INNER, 24), 2**-4, 120)
    y = net.add("reshape", y, net.constant(values=np.array([2, ROWS, 2, 12])))
    bounds = (net.constant(values=np.array([n])) for n in (1, 2, 2))
    y = net.pair(net.add("slice", y, *bounds), 2**-4, 120)
    y = net.add("transpose", net.add("squeeze", y, net.constant(values=np.array([2]))), perm=(0, 2, 1))
    return net.product(net.pair(y, 2**-4, 120), ROWS, 5)


def turned(net: Bytes) -> str:
    """A matrix with a scale a row, as output heads read the table of an embedding."""
    matrix = net.weights(INNER, COLUMNS, axis=0, turned=True)
    return net.add("matmul", net.pair("x", 2**-4, 113), net.add("transpose", matrix, perm=(1, 0)))


def elementwise(net: Bytes) -> str:
    y = net.add("mul", net.pair("x", 2**-4, 113), net.pair(net.add("abs", "x"), 2**-3, 1))
    return net.pair(net.add("add", net.pair(y, 2**-2, 60), net.bias(INNER)), 2**-2, 60)


FORMS: list[Callable[[Bytes], str]] = [
    rectified, residual_of_bytes, residual_of_numbers, bias_behind_a_pair, signed, gemm_of_flattened_rows,
    moved, turned, elementwise,
]  # fmt: skip


@pytest.mark.parametrize("isa", ISAS, ids=lambda isa: isa.name)
@pytest.mark.parametrize("form", FORMS, ids=lambda form: form.__name__)
def test_answers_are_equal_to_the_bit(form: Callable[[Bytes], str], isa: Isa, tmp_path: Path) -> None:
    net = Bytes(2, ROWS, INNER)
    program = net.program(form(net))
    found, expected = answers(program, tmp_path, isa, sixteenths=True)
    (name,) = expected
    assert len(np.unique(expected[name])) > 15, "the test says nothing if everything saturates"
    assert np.array_equal(found[name], expected[name])


@pytest.mark.parametrize("form", FORMS[:-1], ids=lambda form: form.__name__)
def test_no_product_is_of_floats(form: Callable[[Bytes], str]) -> None:
    net = Bytes(2, ROWS, INNER)
    works = [action.work for action in make_plan(net.program(form(net)), host_isa()).actions]
    assert {work.problem.dtype for work in works if isinstance(work, Kernel)} == {"u8"}


def filters(net: Bytes, count: int, channels: int, size: int) -> str:
    codes = net.random.integers(-127, 128, (count, channels, size, size)).astype(np.int8)
    scales = (2.0 ** net.random.integers(-9, -6, count)).astype(np.float32)
    parts = (codes, scales, np.zeros(count, np.int8))
    return net.add("dequantize_linear", *(net.constant(values=part) for part in parts), axis=0)


def test_bytes_pass_between_images_and_rows(tmp_path: Path) -> None:
    net = Bytes(2, 3, 16, 12)
    one = {"group": 1, "dilations": (1, 1)}
    x = net.pair("x", 2**-4, 113)
    cut = net.add("conv", x, filters(net, 20, 3, 4), net.bias(20), strides=(4, 4), pads=(0,) * 4, **one)
    rows = net.add("reshape", net.pair(cut, 2**-3, 128), net.constant(values=np.array([2, 20, 12])))
    rows = net.pair(net.add("transpose", rows, perm=(0, 2, 1)), 2**-3, 128)
    rows = net.pair(net.add("add", net.product(rows, 20, 20), net.bias(20)), 2**-2, 120)
    turned = net.add("transpose", rows, perm=(0, 2, 1))
    image = net.pair(net.add("reshape", turned, net.constant(values=np.array([2, 20, 4, 3]))), 2**-2, 120)
    y = net.add("conv", image, filters(net, 5, 20, 3), net.bias(5), strides=(1, 1), pads=(1,) * 4, **one)
    program = net.program(net.pair(y, 2**-1, 127))
    works = [action.work for action in make_plan(program, host_isa()).actions]
    assert [work.problem.dtype for work in works if isinstance(work, Kernel)] == ["u8"] * 3
    found, expected = answers(program, tmp_path, sixteenths=True)
    (name,) = expected
    assert np.array_equal(found[name], expected[name])


def gelu(net: Bytes, x: str) -> str:
    half, one, root = (net.constant(values=np.float32(n)) for n in (0.5, 1, 2**0.5))
    bent = net.add("add", net.add("erf", net.add("div", x, root)), one)
    return net.add("mul", x, net.add("mul", half, bent))


def test_a_function_of_the_sums_is_part_of_the_product(tmp_path: Path) -> None:
    net = Bytes(2, ROWS, INNER)
    y = net.add("add", net.product(net.pair("x", 2**-4, 113), INNER, COLUMNS), net.bias(COLUMNS))
    y = net.product(net.pair(gelu(net, y), 2**-4, 3), COLUMNS, 40)
    program = net.program(y)
    actions = make_plan(program, host_isa()).actions
    assert [type(action.work).__name__ for action in actions] == ["Strided", *["SpatialPack"] * 2]
    found, expected = answers(program, tmp_path)
    # A byte may be one unit off where its number lies within rounding errors of a half.
    assert np.abs(found[y] - expected[y]).max() <= 2**-4 * 127 * 2**-7
    assert np.mean(found[y] != expected[y]) < 0.01 or np.abs(found[y] - expected[y]).max() < 1e-5


def test_attention_between_grids(tmp_path: Path) -> None:
    net = Bytes(2, 13, 32)
    shape, turn = net.constant(values=np.array([2, 13, 2, 16])), (0, 2, 1, 3)
    x = net.pair("x", 2**-5, 128)
    q, k, v = (
        net.add("transpose", net.add("reshape", net.product(x, 32, 32), shape), perm=turn) for _ in range(3)
    )
    q, k = net.pair(q, 2**-4, 3, np.int8), net.pair(k, 2**-4, 0, np.int8)
    scores = net.add("matmul", q, net.add("transpose", k, perm=(0, 1, 3, 2)))
    shares = net.add("softmax", net.add("mul", scores, net.constant(values=np.float32(0.25))), axis=-1)
    mixed = net.add("transpose", net.add("matmul", shares, v), perm=turn)
    rows = net.add("reshape", mixed, net.constant(values=np.array([2, 13, 32])))
    y = net.product(net.pair(rows, 2**-4, 120), 32, 20)
    program = net.program(y)
    kinds = {type(action.work).__name__ for action in make_plan(program, host_isa()).actions}
    assert kinds == {"Strided", "SpatialPack", "AttentionRoutine"}
    found, expected = answers(program, tmp_path)
    # Shares are off by a few roundings, so a mixed row's byte may be one unit off.
    assert np.abs(found[y] - expected[y]).max() <= 3 * 2**-4 * 127 * 2**-7


def test_signed_bytes_leave_a_program_of_tensors(tmp_path: Path) -> None:
    net = Bytes(2, ROWS, INNER)
    program = net.program(net.add("quantize_linear", "x", *net.grid(2**-4, -3, np.int8)))
    found, expected = answers(program, tmp_path)
    assert np.array_equal(found[program.outputs[0]], expected[program.outputs[0]])
