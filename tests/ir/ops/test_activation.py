"""Activations, and the identities between them that rewriting relies on."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from conformance import PRIME, check, random

from tensmith.formula.arith import Arith, Array, Floats, PrimeField
from tensmith.ir.op import OPS, Run, Typed
from tensmith.ir.types import TensorType

X = random(2, 3, 4, low=-6, high=6)
NAMES = (
    "relu", "leaky_relu", "elu", "selu", "celu", "sigmoid", "hard_sigmoid", "hard_swish", "swish", "softplus",
    "mish", "softsign", "thresholded_relu", "shrink", "gelu",
)  # fmt: skip


@pytest.mark.parametrize("name", NAMES)
def test_defaults(name: str) -> None:
    check(name, [X], rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(
    ("name", "attrs"),
    [
        ("leaky_relu", {"alpha": 0.3}),
        ("elu", {"alpha": 0.7}),
        ("selu", {"alpha": 1.2, "gamma": 0.9}),
        ("celu", {"alpha": 2.0}),
        ("hard_sigmoid", {"alpha": 0.3, "beta": 0.4}),
        ("swish", {"alpha": 1.7}),
        ("thresholded_relu", {"alpha": 2.0}),
        ("shrink", {"lambd": 1.5, "bias": 0.5}),
        ("gelu", {"approximate": "tanh"}),
    ],
)
def test_attributes(name: str, attrs: dict[str, Any]) -> None:
    check(name, [X], attrs, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(("dtype", "told"), [("f16", None), ("i32", "shrink of i32"), ("u8", "shrink of u8")])
def test_attributes_that_integers_would_cut_off_are_refused(dtype: str, told: str | None) -> None:
    op = OPS["shrink"]
    assert op.accepts(Typed(op.attributes, (TensorType(dtype, (3,)),), (None,))) == told


def test_two_inputs() -> None:
    check("prelu", [X, random(3, 1, seed=2)])
    check("swiglu", [X, random(2, 3, 4, seed=2)], rtol=1e-4)


def test_large_values_do_not_overflow() -> None:
    x = np.array([-1000, 1000], np.float32)
    for name in ("softplus", "sigmoid", "mish", "swish"):
        assert np.isfinite(_apply(name, Floats(), x)).all()


def _apply(name: str, arith: Arith, *inputs: Array, **attrs: Any) -> Array:
    types = tuple(TensorType("f32", x.shape) for x in inputs)
    call = Run({**OPS[name].attributes, **attrs}, inputs, types, types[:1])
    with np.errstate(all="ignore"):
        return OPS[name].run(call, arith)[0]


def test_equal_functions_are_equal_in_the_field_and_others_are_not() -> None:
    field = PrimeField(PRIME, seed=5)
    x = field.random("x", (50,))
    zero, one = field.const(0.0), field.const(1.0)

    def f(name: str, *inputs: Array, **attrs: Any) -> Array:
        return _apply(name, field, *inputs, **attrs)

    relu = f("relu", x)
    assert np.array_equal(relu, f("max", x, zero))
    assert np.array_equal(f("swish", x), f("mul", x, f("sigmoid", x)))
    assert np.array_equal(f("sigmoid", x), f("reciprocal", f("add", one, f("exp", f("neg", x)))))
    assert np.array_equal(f("hard_swish", x), f("mul", x, f("hard_sigmoid", x, alpha=1 / 6, beta=0.5)))
    assert np.array_equal(f("mish", x), f("mul", x, f("tanh", f("softplus", x))))
    assert np.array_equal(f("prelu", x, field.const(np.float32(0.01))), f("leaky_relu", x))
    assert not np.array_equal(relu, f("min", x, zero))
    assert not np.array_equal(f("gelu", x), f("gelu", x, approximate="tanh"))
    assert not np.array_equal(f("leaky_relu", x), f("leaky_relu", x, alpha=0.02))
