"""Activations and reductions of numbers around and far beyond those whose exp fits into 32 bits."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from nets import Array, Net
from tensmith.ir import OPS, Program, interpret
from tensmith.ir.ops import activation, reduction, softmax

# exp(88.8) is beyond the largest float, exp(-88.8) below the least normal one. The squares fit: those of
# numbers beyond 2**64 do not, and reduce_l2 of them is infinite in the interpreter's 32 bits too.
ALONE = (0, 1e-3, 0.5, 20, 87, 88.8, 300)
ROWS = np.array(
    [
        [300] * 5,
        [-300] * 5,
        [88.8] * 5,
        [-88.8] * 5,
        [0] * 5,
        [300, -300, 0, 88.8, -88.8],
        [-300, 300, 1, 2, 3],
    ],
    np.float32,
)


def activations(*shape: int) -> tuple[Program, Array]:
    """Every activation, on both signs of ALONE in a tensor of 14 elements; a second input is -x."""
    x = np.array([[sign * value for value in ALONE] for sign in (1, -1)], np.float32).reshape(shape)
    net = Net(*x.shape)
    flipped = net.add("neg", "x")
    ops = [op for op in OPS.values() if op.__module__ == activation.__name__]
    outputs = [net.add(op.name, *("x", flipped)[: 2 if op.name in ("prelu", "swiglu") else 1]) for op in ops]
    return net.program(*outputs, net.add("gelu", "x", approximate="tanh")), x


def reductions() -> tuple[Program, Array]:
    """Every reduction of floats to floats, of ROWS and over both axes, and softmax with its logarithm."""
    net = Net(*ROWS.shape)
    last = net.constant(values=np.array([1], np.int64))
    ops = [op for op in OPS.values() if isinstance(op, reduction.Reduction)]
    outputs = [net.add(op.name, "x", last, keepdims=0) for op in ops]
    # The product of all is 0 or NaN, as the order has it.
    outputs += [net.add(op.name, "x") for op in ops if op.name != "reduce_prod"]
    along = [op for op in OPS.values() if isinstance(op, softmax.AlongAxis)]
    return net.program(*outputs, *(net.add(op.name, "x", axis=axis) for op in along for axis in (0, 1))), ROWS


def check(program: Program, x: Array, found: Mapping[str, Array]) -> None:
    """What was found for x is what the interpreter says, infinities and NaN included."""
    with np.errstate(all="ignore"):
        expected = interpret(program, {"x": x})
    for node in program.nodes:
        # gelu is x (1 + erf(...)) / 2, and native erf is off by 2e-7 and two roundings of 1.
        near = 1.6e-7 * np.abs(x).max() if node.op == "gelu" else 1e-6
        for name in {node.output} & expected.keys():
            np.testing.assert_allclose(found[name], expected[name], 2e-5, near, err_msg=node.op)
