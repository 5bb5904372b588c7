"""Products of rows that are quantized by their own range at run time."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from native_programs import Net, compile_folder

from tensmith.backend.native.emit.loader import Model
from tensmith.backend.native.plan import make_plan
from tensmith.errors import EngineError
from tensmith.ir import Program, interpret, make_node
from tensmith.kernel import host_isa, isa_named
from tensmith.kernel.algorithm import Kernel

ROWS, INNER, COLUMNS = 7, 18, 37


def encoder(net: Net, x: str) -> tuple[str, str, str]:
    outputs = tuple(f"{x} {part}" for part in ("codes", "scale", "zero"))
    net.nodes.append(make_node("dynamic_quantize_linear", [x], outputs))
    return outputs


def product(net: Net, rows: tuple[str, str, str], inner: int, columns: int, zero: int | None = None) -> str:
    """As ONNX Runtime writes it: one scale a column, or unsigned weights around `zero` and one scale."""
    dtype, shift = (np.int8, 0) if zero is None else (np.uint8, zero)
    codes = net.random.integers(0 if zero == 0 else -128, 128, (inner, columns)) + shift
    scales = net.random.uniform(0.001, 0.01, columns if zero is None else 1).astype(np.float32)
    operands = [net.constant(values=codes.astype(dtype)), rows[2]]
    operands.append(net.constant(values=np.asarray(shift, dtype)))
    sums = net.add("cast", net.add("matmul_integer", rows[0], *operands), to=1)
    return net.add("mul", sums, net.add("mul", rows[1], net.constant(values=scales)))


def two_layers() -> Program:
    """Two products of the same rows, one of them with bias, function and residual, then one of signs."""
    net = Net(2, ROWS, INNER)
    rows = encoder(net, "x")
    left = net.add("tanh", net.add("add", product(net, rows, INNER, COLUMNS), net.constant(COLUMNS)))
    right = net.add("add", product(net, rows, INNER, COLUMNS, 128), left)
    return net.program(product(net, encoder(net, right), COLUMNS, 5), left)


def images(name: str) -> Any:
    random = np.random.default_rng(3)
    given = random.standard_normal((2, ROWS, INNER)).astype(np.float32)
    return {"any": given, "negative": -abs(given), "zero": 0 * given, "large": 1e30 * given}[name]


@pytest.mark.parametrize("isa", ["host", "generic"])
def test_rows_of_any_range(isa: str, tmp_path: Path) -> None:
    program = two_layers()
    model = Model(compile_folder(program, tmp_path, host_isa() if isa == "host" else isa_named(isa)))
    for name in ("any", "negative", "zero"):
        found, expected = model(x=images(name)), interpret(program, {"x": images(name)})
        for value, array in expected.items():
            # Sums are exact; a byte of the second product's rows may be one unit off.
            assert np.abs(found[value] - array).max() <= 1e-6 + 0.01 * np.abs(array).max() * (array.size < 99)


def test_what_is_multiplied_once_is_right_to_the_last_digits(tmp_path: Path) -> None:
    net = Net(2, ROWS, INNER)
    program = net.program(product(net, encoder(net, "x"), INNER, COLUMNS))
    model = Model(compile_folder(program, tmp_path))
    for name in ("any", "negative", "zero", "large"):
        (found,), (expected,) = (
            list(run.values()) for run in (model(x=images(name)), interpret(program, {"x": images(name)}))
        )
        np.testing.assert_allclose(found, expected, rtol=3e-7)


def test_rows_are_encoded_once_and_multiplied_as_bytes() -> None:
    actions = make_plan(two_layers(), host_isa()).actions
    kinds = [str(action.work) for action in actions]
    assert sum("dtype u8" in kind for kind in kinds) == sum("dynamic_scale" in kind for kind in kinds) == 2
    assert [a.work.problem.dtype for a in actions if isinstance(a.work, Kernel)] == ["u8"] * 3


def test_weights_beyond_signed_bytes_are_refused() -> None:
    net = Net(2, ROWS, INNER)
    program = net.program(product(net, encoder(net, "x"), INNER, COLUMNS, 0))
    program.constants["c0"][0, 0] = 255
    with pytest.raises(EngineError, match="no native kernel"):
        make_plan(program, host_isa())


@pytest.mark.parametrize("least", [-64, -128])
def test_the_least_byte_is_not_narrow(least: int) -> None:
    net = Net(2, ROWS, INNER)
    program = net.program(product(net, encoder(net, "x"), INNER, COLUMNS))
    codes = program.constants["c0"]
    codes[...] = np.clip(codes, -64, 64)
    codes[0, 0] = least
    (kernel,) = make_plan(program, isa_named("avx2")).kernels
    assert isinstance(kernel.work, Kernel) and kernel.work.problem.narrow == (least == -64)


@pytest.mark.parametrize("part", [1, 2])
def test_rows_whose_parameters_are_asked_for_are_refused(part: int) -> None:
    net = Net(2, ROWS, INNER)
    rows = encoder(net, "x")
    program = net.program(product(net, rows, INNER, COLUMNS), rows[part])
    with pytest.raises(EngineError, match=r"dynamic_quantize_linear.* no native kernel"):
        make_plan(program, host_isa())


def test_rows_may_be_asked_for_in_bytes(tmp_path: Path) -> None:
    net = Net(2, ROWS, INNER)
    rows = encoder(net, "x")
    program = net.program(product(net, rows, INNER, COLUMNS), rows[0])
    found = Model(compile_folder(program, tmp_path))(x=images("any"))
    np.testing.assert_array_equal(found[rows[0]], interpret(program, {"x": images("any")})[rows[0]])
