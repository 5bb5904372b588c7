"""Ops without a kernel of their own run by their formulas, and mean what the interpreter says."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from native_programs import Net, answers, compile_folder

from tensmith.backend.native.loader import Model
from tensmith.ir import Program, interpret


def ints(net: Net, *values: int) -> str:
    return net.constant(values=np.array(values, np.int64))


def everything(net: Net) -> list[str]:
    """x: [batch, 6, 5, 7]."""
    weights = net.constant(values=np.linspace(0.5, 1.5, 6).astype(np.float32))
    flat = net.add("reshape", "x", ints(net, 0, 6, 35))
    square = net.add("matmul", flat, net.add("transpose", flat, perm=(0, 2, 1)))
    tall = net.add("concat", "x", "x", axis=1)
    return [
        net.add("log_softmax", "x", axis=1),
        net.add("log_softmax", "x", axis=-1),
        net.add("softmax", "x", axis=2),
        net.add("instance_normalization", "x", weights, weights, epsilon=1e-3),
        net.add("group_normalization", "x", weights, weights, num_groups=3),
        net.add("lp_normalization", "x", axis=1, p=2),
        net.add("mean_variance_normalization", "x"),
        net.add("lrn", "x", size=3),
        net.add("reduce_l2", "x", ints(net, 1, 3), keepdims=0),
        net.add("reduce_prod", "x", ints(net, 2)),
        net.add("reduce_log_sum_exp", "x", ints(net, -1)),
        net.add("reduce_max", "x", ints(net, 0, 2)),
        net.add("cum_sum", "x", net.constant(values=np.int64(2)), reverse=1),
        net.add("depth_to_space", net.add("concat", "x", "x", axis=1), blocksize=2),
        net.add("space_to_depth", net.add("slice", "x", ints(net, 0, 1), ints(net, 4, 7), ints(net, 2, 3)),
                blocksize=2),
        net.add("trilu", square, upper=0),
        net.add("einsum", flat, square, equation="bij,bki->bkj"),
        net.add("pad", "x", ints(net, 0, 0, 2, 1, 0, 0, 1, 3), mode="reflect"),
        net.add("pad", "x", ints(net, 0, 1, 1, 1, 0, 0, 1, 1), mode="edge"),
        net.add("tile", tall, ints(net, 1, 1, 2, 1)),
        net.add("max_pool", flat, kernel_shape=(3,), pads=(1, 1), strides=(2,)),
        net.add("average_pool", flat, kernel_shape=(4,), pads=(1, 2)),
        net.add("lp_pool", "x", kernel_shape=(2, 3)),
        net.add("mish", net.add("softplus", net.add("atan", "x"))),
        net.add("mod", "x", net.constant(values=np.float32(0.7)), fmod=1),
    ]  # fmt: skip


@pytest.mark.parametrize("batch", [1, 3])
def test_formulas_as_loops(batch: int, tmp_path: Path) -> None:
    net = Net(batch, 6, 5, 7)
    outputs = everything(net)
    found, expected = answers(net.program(*outputs), tmp_path)
    for node, name in zip((next(n for n in net.nodes if n.output == o) for o in outputs), outputs):
        scale = abs(expected[name]).max()
        assert np.allclose(found[name], expected[name], rtol=2e-5, atol=2e-5 * scale), node.op


def test_what_is_not_finite_passes_through(tmp_path: Path) -> None:
    net = Net(2, 6, 5, 7)
    outputs = [
        net.add("log_softmax", "x", axis=1),
        net.add("reduce_max", "x", ints(net, 1)),
        net.add("depth_to_space", net.add("concat", "x", "x", axis=1), blocksize=2),
        net.add("pad", "x", ints(net, 0, 0, 2, 1, 0, 0, 1, 3), mode="reflect"),
        net.add("reduce_prod", "x", ints(net, 3)),
    ]
    program = net.program(*outputs)
    x = np.random.default_rng(3).standard_normal((2, 6, 5, 7)).astype(np.float32)
    x[0, 1, 2, 3], x[1, 2, 3, 4], x[1, 5, 0, 0] = np.nan, np.inf, -np.inf
    found: dict[str, Any] = Model(compile_folder(program, tmp_path))(x=x)
    with np.errstate(all="ignore"):
        expected = interpret(program, {"x": x})
    for name in outputs:
        np.testing.assert_allclose(found[name], expected[name], rtol=2e-5, atol=2e-5)


def test_integers_stay_integers(tmp_path: Path) -> None:
    net = Net(2, 3, 4)
    whole = net.add("cast", net.add("mul", "x", net.constant(values=np.float32(1e3))), to=7)
    big = net.add("add", whole, net.constant(values=np.int64(1 << 40)))
    outputs = [
        net.add("reduce_max", big, ints(net, 1)),
        net.add("reduce_sum", big, ints(net, 0)),
        net.add("bitwise_and", big, net.constant(values=np.int64(0xFFFF0000FFFF))),
        net.add("mod", big, net.constant(values=np.int64(-7))),
        net.add("trilu", big),
    ]
    program: Program = net.program(*outputs)
    found, expected = answers(program, tmp_path)
    for name in outputs:
        assert np.array_equal(found[name], expected[name])
