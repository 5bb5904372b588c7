"""Elementwise arithmetic: ONNX, formula and field agree; integers and symbolic sizes compute too."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from conformance import check, random

from tensmith.errors import ProgramError
from tensmith.formula.arith import Floats, PrimeField
from tensmith.formula.poly import Poly
from tensmith.ir.op import OPS, Run, Symbolic, Typed
from tensmith.ir.types import TensorType

X, Y = random(2, 3, 4), random(3, 1, seed=1)
POSITIVE, UNIT = random(2, 3, low=0.1), random(2, 3, low=-0.9, high=0.9)
N = Poly.symbol("N")


def on_sizes(name: str, *inputs: object, **attrs: object) -> list[object]:
    """The op run on arrays of sizes."""
    arrays = tuple(np.array(x, dtype=object) for x in inputs)
    types = tuple(TensorType("i64", x.shape) for x in arrays)
    (y,) = OPS[name].run(Run({**OPS[name].attributes, **attrs}, arrays, types, (None,)), Floats())
    return list(y.reshape(-1))


@pytest.mark.parametrize("name", ["add", "sub", "mul", "div", "min", "max", "sum", "mean"])
def test_two_operands_broadcast(name: str) -> None:
    check(name, [X, Y])


@pytest.mark.parametrize("name", ["sum", "mean", "max", "min"])
@pytest.mark.parametrize("count", [1, 3])
def test_variadic(name: str, count: int) -> None:
    check(name, [random(2, 3, seed=seed) for seed in range(count)])


@pytest.mark.parametrize(
    ("name", "x"),
    [(name, X) for name in ("abs", "ceil", "cos", "erf", "exp", "floor", "identity", "neg", "round", "sign")]
    + [(name, X) for name in ("sin", "sinh", "cosh", "asinh", "atan", "tanh", "reciprocal")]
    + [(name, POSITIVE) for name in ("log", "sqrt")]
    + [(name, UNIT) for name in ("acos", "asin", "atanh", "tan")]
    + [("acosh", POSITIVE + 1)],
)
def test_functions_of_one_number(name: str, x: np.ndarray) -> None:
    check(name, [x])


def test_the_sign_of_zero_changes() -> None:
    (y,) = check("neg", [np.array([0.0, -0.0], np.float32)])
    assert np.signbit(y).tolist() == [True, False]


@pytest.mark.parametrize("exponent", [0.0, 1.0, 2.0, 3.0, -1.0, 0.5, -0.5, 1.7])
def test_pow_by_a_constant(exponent: float) -> None:
    check("pow", [POSITIVE, np.array(exponent, np.float32)], known=[1])


def test_a_square_is_a_product_in_the_field() -> None:
    field = PrimeField(2097143, 3)
    x = field.random("x", (5,))
    types = (TensorType("f32", (5,)), TensorType("f32", ()))
    (y,) = OPS["pow"].run(Run({}, (x, field.const(2.0)), types, types[:1]), field)
    assert np.array_equal(y, field.mul(x, x))


@pytest.mark.parametrize("bounds", [(-1.0, 1.0), (None, 1.0), (-1.0, None), (None, None)])
def test_clip_with_bounds_left_out(bounds: tuple[float | None, float | None]) -> None:
    check("clip", [X, *(None if b is None else np.array(b, np.float32) for b in bounds)])


@pytest.mark.parametrize("dtype", [np.float16, np.float64])
def test_other_float_widths(dtype: type) -> None:
    check("add", [X.astype(dtype), Y.astype(dtype)])
    check("exp", [X.astype(dtype)])


def test_integer_division_truncates() -> None:
    check("div", [np.array([7, -7, 7, -7, 6]), np.array([2, 2, -2, -2, -3])], formula=False)
    check("div", [np.array([7, 8], np.uint8), np.array([2, 3], np.uint8)], formula=False)


def test_division_of_sizes_truncates() -> None:
    assert on_sizes("div", [N, -75, 75, -6], [2, 2, -2, 2]) == [N // 2, -37, -37, -3]
    assert on_sizes("div", [-N, N * 4 - 8, 7], [2, 4, N]) == [-(N // 2), N - 2, Poly.of(7) // N]
    behind_a_window = (N - 3) // 2 + 1
    assert on_sizes("div", [behind_a_window], [2]) == [behind_a_window // 2]
    with pytest.raises(ProgramError, match="negative is not known"):
        on_sizes("div", [224 - N], [2])


def test_mod_takes_the_sign_of_the_divisor_or_of_the_dividend() -> None:
    check("mod", [np.array([5, -5, 5]), np.array([3, 3, -3])])
    check("mod", [X, Y], {"fmod": 1})


def test_integers() -> None:
    a, b = np.array([[3, -4], [5, 6]]), np.array([2, 3])
    for name in ("add", "sub", "mul", "max", "min"):
        check(name, [a, b])
    for name in ("abs", "neg", "sign"):
        check(name, [a])


def test_arithmetic_on_symbolic_sizes() -> None:
    assert on_sizes("mul", [N, 3], [4, 5]) == [N * 4, 15]
    assert on_sizes("div", [N * 4], [2]) == [N * 2]
    assert on_sizes("sub", [N], [1]) == [N - 1]
    assert on_sizes("neg", [N]) == [-N]
    assert on_sizes("mod", [N * 6 + 1], [3]) == [1]
    assert on_sizes("max", [N], [1]) == [N]
    assert on_sizes("min", [N], [1]) == [1]
    with pytest.raises(ProgramError, match="which of N and 4 is larger is not known"):
        on_sizes("max", [N], [4])
    with pytest.raises(ProgramError, match="is not known"):
        on_sizes("max", [Poly.symbol("n.y.0")], [1])  # as NonZero finds, perhaps nothing


def test_dropout_is_the_identity_at_inference_and_refuses_training() -> None:
    check("dropout", [X], n_outputs=2)
    check("dropout", [X, np.array(0.5, np.float32), np.array(False)])
    scalar = TensorType("f32", ())
    call = Typed({"seed": None}, (scalar, scalar, TensorType("bool", ())), (None, None, np.array(True)))
    assert OPS["dropout"].accepts(call) == "training_mode is true or not a constant"


def test_what_renames_its_input_has_no_other_output() -> None:
    renaming = [op for op in OPS.values() if op.renames]
    assert len(renaming) > 4
    assert all(onnx.defs.get_schema(op.onnx).max_output == 1 for op in renaming)


def test_shapes_that_do_not_broadcast() -> None:
    with pytest.raises(ProgramError, match="sizes 2 and 3 do not broadcast"):
        OPS["add"].infer(Typed({}, (TensorType("f32", (2,)), TensorType("f32", (3,))), (None, None)))


def test_a_formula_needs_its_inputs() -> None:
    with pytest.raises(ProgramError, match="input 0 is missing"):
        OPS["softmax"].formula(Symbolic({"axis": 0}, ()))
