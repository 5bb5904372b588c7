"""Divisions as multiplications, bounds from corners, and gradients through what PyTorch overwrites."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lifting.emit.samples import Draft, N, flat
from tensmith.formula.types import F32, I32
from tensmith.ir import Program, TensorType
from tensmith.ir.onnx_schema import ELEMENT_CODES
from tensmith.ir.program import make_node
from tensmith.lifting.emit import EMITTERS
from tensmith.lifting.emit.factor import factor
from tensmith.lifting.lifted import Output
from tensmith.lifting.loops import Array
from tensmith.lifting.ranges import Interval, ranges


@given(st.integers(1, 4000), st.integers(-70000, 0), st.integers(0, 70000))
def test_a_factor_gives_every_quotient(divisor, low, high):
    found = factor(Interval(low, high), divisor)
    dividends = np.arange(low, high + 1)
    if found is not None:
        quotients = np.trunc(dividends.astype(np.float32) * found)
        np.testing.assert_array_equal(quotients, np.sign(dividends) * (np.abs(dividends) // divisor))


def test_the_divisor_of_bytes_has_a_factor():
    assert factor(Interval(0, 255 * 255), 255) is not None
    assert factor(Interval(0, 2**31), 255) is None
    assert factor(Interval(0, 9), 0) is None


def test_what_is_linear_in_each_variable_has_its_extremes_at_corners():
    row = TensorType("u8", (N,))
    nodes = [make_node("cast", (name,), (f"{name}32",), {"to": ELEMENT_CODES["i32"]}) for name in "tab"]
    nodes += [
        make_node("sub", ("whole", "t32"), ("rest",), {}),
        make_node("mul", ("t32", "a32"), ("left",), {}),
        make_node("mul", ("rest", "b32"), ("right",), {}),
        make_node("add", ("left", "right"), ("sum",), {}),
        make_node("sub", ("a32", "a32"), ("none",), {}),
    ]
    constants = {"whole": np.asarray(255, "i4")}
    types = {"t": TensorType("u8", ()), "a": row, "b": row}
    found = ranges(Program("blend", types, ("sum", "none"), tuple(nodes), constants))
    assert found["sum"] == Interval(0, 255 * 255)
    assert found["none"] == Interval(0, 0)


def test_gradients_pass_through_temporaries():
    torch = pytest.importorskip("torch", reason="torch is an extra and not installed")
    names = ("x", "y", "out")
    d = Draft("f", [*((name, Array(F32)) for name in names), ("n", I32)], {"n": N})
    x, y, one = d.view("x", flat("x", N), F32), d.view("y", flat("y", N), F32), d.const(1, "f4")
    bell = d.op("exp", d.op("neg", d.op("mul", x, x)))
    scaled = d.op("mul", d.op("div", one, d.op("add", bell, one)), y)
    lifted = d.done(Output(d.op("add", x, scaled), F32, flat("out", N), whole=True))
    (text,) = EMITTERS["torch"].emit(lifted).files.values()
    space: dict = {}
    exec(compile(text, "f.py", "exec"), space)
    given_x, given_y = (torch.linspace(-1, 1, 5, requires_grad=True) for _ in range(2))
    assert b".exp_()" in text
    space["f"](given_x, given_y, None, 5).sum().backward()
    u, v = (torch.linspace(-1, 1, 5, requires_grad=True) for _ in range(2))
    (u + v / (1 + torch.exp(-u * u))).sum().backward()
    torch.testing.assert_close((given_x.grad, given_y.grad), (u.grad, v.grad))
