"""Ops in other forms mean the same: against the interpreter, before and after compiling."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from native_programs import Net, answers

from tensmith.backend.native.prepare.pipeline import prepared
from tensmith.ir import Program, TensorType, interpret

TRANSPOSED: list[dict[str, Any]] = [
    {"strides": (2, 2), "pads": (1, 1, 1, 1), "output_padding": (1, 1)},
    {"strides": (2, 2), "kernel": (4, 4), "pads": (1, 1, 1, 1)},
    {"strides": (2, 2), "kernel": (2, 2)},
    {"strides": (3, 2), "kernel": (5, 4), "pads": (2, 1, 0, 1)},
    {"strides": (1, 1), "pads": (1, 1, 1, 1)},
    {"strides": (1, 1), "dilations": (2, 1), "pads": (1, 0, 0, 1)},
    {"strides": (2, 2), "group": 2},
    {"strides": (4, 4), "kernel": (3, 3)},
    {"strides": (2, 1), "pads": (0, 2, 1, 1)},
    {"strides": (2, 2), "auto_pad": "SAME_UPPER"},
    {"strides": (2, 2), "output_shape": (9, 12)},
]


def transposed(net: Net, kernel: tuple[int, int] = (3, 3), group: int = 1, **attrs: Any) -> str:
    weights = net.constant(6, 4 // group, *kernel)
    return net.add("conv_transpose", "x", weights, net.constant(4), group=group, **attrs)


def ops(net: Net) -> list[str]:
    """x: [batch, 6, 5, 7]."""
    table = net.constant(values=np.linspace(0.5, 1.5, 6).astype(np.float32))
    ones = net.constant(values=np.ones(6, np.float32))
    zeros = net.constant(values=np.zeros(6, np.float32))
    tall = net.add("concat", "x", "x", "x", "x", axis=1)
    even = net.add("reshape", "x", net.constant(values=np.array([0, 7, 5, 6], np.int64)))
    cut = net.add("pad", even, net.constant(values=np.array([0, 0, 1, 0, 0, 0, 0, 0], np.int64)))
    return [
        *(transposed(net, **case) for case in TRANSPOSED),
        *(net.add("depth_to_space", tall, blocksize=2, mode=mode) for mode in ("DCR", "CRD")),
        *(net.add("space_to_depth", cut, blocksize=2, mode=mode) for mode in ("DCR", "CRD")),
        net.add("softmax", "x", axis=2),
        net.add("softmax", "x", axis=0),
        net.add("instance_normalization", "x", table, table, epsilon=1e-3),
        net.add("instance_normalization", "x", ones, zeros),
        net.add("group_normalization", "x", table, ones, num_groups=2),
    ]


@pytest.mark.parametrize("batch", [1, 3])
def test_the_same_before_planning(batch: int) -> None:
    net = Net(batch, 6, 5, 7)
    outputs = ops(net)
    program = net.program(*outputs)
    other = prepared(program)[0]
    kept = {node.op for node in other.nodes}
    assert kept.isdisjoint({"conv_transpose", "depth_to_space", "space_to_depth", "instance_normalization"})
    x = np.random.default_rng(0).standard_normal((batch, 6, 5, 7))
    wide = {"x": TensorType("f64", (batch, 6, 5, 7))}
    constants = {**program.constants, **other.constants}
    double = {name: c.astype(np.float64) if c.dtype == np.float32 else c for name, c in constants.items()}
    runnable = Program("wide", wide, program.outputs, other.nodes, double)
    before = Program("wide", wide, program.outputs, program.nodes, double)
    found, expected = interpret(runnable, {"x": x}), interpret(before, {"x": x})
    for node, name in zip((program.producers[o] for o in outputs), outputs):
        assert found[name].shape == expected[name].shape
        assert np.allclose(found[name], expected[name], rtol=1e-9, atol=1e-9), (node.op, node.attrs)


@pytest.mark.parametrize("batch", [1, 2])
def test_the_same_when_compiled(batch: int, tmp_path: Path) -> None:
    net = Net(batch, 6, 5, 7)
    outputs = ops(net)
    found, expected = answers(net.program(*outputs), tmp_path)
    for node, name in zip((net.nodes[int(o[1:])] for o in outputs), outputs):
        assert np.allclose(found[name], expected[name], rtol=1e-5, atol=3e-5), (node.op, node.attrs)


def test_a_generator(tmp_path: Path) -> None:
    """Images from a vector, as GANs make them: transposed convolutions with activations between."""
    net = Net(2, 20, 1, 1)
    x = net.add("conv_transpose", "x", net.constant(20, 32, 4, 4))
    for channels, filters in ((32, 16), (16, 9), (9, 3)):
        weights = net.constant(channels, filters, 4, 4)
        x = net.add("relu", x)
        x = net.add("conv_transpose", x, weights, net.constant(filters), strides=(2, 2), pads=(1, 1, 1, 1))
    found, expected = answers(net.program(net.add("tanh", x)), tmp_path)
    (name,) = expected
    assert expected[name].shape == (2, 3, 32, 32)
    assert np.allclose(found[name], expected[name], atol=2e-5)


@pytest.mark.parametrize("batch", [1, 2])
def test_a_u_net(batch: int, tmp_path: Path) -> None:
    """Down by pools, up by a transposed convolution and by resizing, with the skipped parts joined."""
    net = Net(batch, 3, 20, 28)
    first = net.add("relu", net.conv("x", 3, 12))
    second = net.add(
        "relu", net.conv(net.add("max_pool", first, kernel_shape=(2, 2), strides=(2, 2)), 12, 20)
    )
    deep = net.add("relu", net.conv(net.add("max_pool", second, kernel_shape=(2, 2), strides=(2, 2)), 20, 33))
    up = net.add("conv_transpose", deep, net.constant(33, 20, 2, 2), net.constant(20), strides=(2, 2))
    up = net.add("relu", net.conv(net.add("concat", up, second, axis=1), 40, 16))
    scales = net.constant(values=np.array([1, 1, 2, 2], np.float32))
    up = net.add("resize", up, "", scales, mode="linear")
    up = net.add("concat", net.conv(up, 16, 12, 1), first, axis=1)
    program = net.program(net.add("sigmoid", net.conv(up, 24, 2, 1)))
    found, expected = answers(program, tmp_path)
    (name,) = expected
    assert np.allclose(found[name], expected[name], atol=1e-5)
