"""Networks of which some layers are pruned: sparse and dense kernels, planes and blocks, in one program."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from native_programs import Net, answers

from tensmith.backend.native.emit.source import print_c
from tensmith.backend.native.plan import make_plan
from tensmith.formula.arith import Array
from tensmith.ir import Program
from tensmith.kernel import Kernel, host_isa


def pruned(net: Net, x: str, channels: int, filters: int, size: int = 3, **attrs: Any) -> str:
    """A convolution of whose weights a tenth is left."""
    y = net.conv(x, channels, filters, size, **attrs)
    weights = net.constants[net.nodes[-1].inputs[1]]
    weights[net.random.random(weights.shape) < 0.9] = 0
    return y


def network() -> Program:
    """A dense layer, a pruned residual block of halved size, a pool, a pruned classifier; two images."""
    net = Net(2, 16, 28, 28)
    stem = net.add("relu", net.conv("x", 16, 40))
    body = pruned(net, net.add("relu", pruned(net, stem, 40, 64, strides=(2, 2))), 64, 64)
    joined = net.add("relu", net.add("add", body, pruned(net, stem, 40, 64, 1, strides=(2, 2))))
    pooled = net.add("max_pool", joined, kernel_shape=(3, 3), strides=(2, 2), pads=(1, 1, 1, 1))
    last = net.add("relu", pruned(net, pooled, 64, 96, 1))
    rows = net.add("flatten", net.add("global_average_pool", last))
    matrix = net.constant(50, 96)
    kept: Array = net.random.random((50, 96)) < 0.1
    net.constants[matrix] *= kept
    return net.program(net.add("gemm", rows, matrix, net.constant(50), transB=1), joined)


def test_pruned_layers_get_sparse_kernels_and_the_answer_stays(tmp_path: Path) -> None:
    program = network()
    works = [action.work for action in make_plan(program, host_isa()).kernels]
    sparse = [work for work in works if isinstance(work, Kernel) and work.name == "sparse"]
    assert len(works) == 6
    assert {work.problem.filters for work in sparse} >= {64, 96}
    assert all(work.problem.density < 0.2 for work in sparse)
    found, expected = answers(program, tmp_path)
    for name in expected:
        np.testing.assert_allclose(found[name], expected[name], rtol=0, atol=3e-5)


def functions(*shares: float) -> int:
    """How many convolutions of a chain are written, so many of whose weights are left."""
    net = Net(1, 64, 14, 14)
    value = "x"
    for share in shares:
        convolved = net.conv(value, 64, 64)
        weights = net.constants[net.nodes[-1].inputs[1]]
        weights[net.random.random(weights.shape) >= share] = 0
        value = net.add("relu", convolved)
    return print_c(make_plan(net.program(value), host_isa())).count("\n/* 3x3 convolution of")


def test_layers_that_differ_in_zeros_alone_share_their_code() -> None:
    assert functions(0.1, 0.11, 0.12, 0.13, 0.1) == functions(*[0.1] * 5) < 5
    assert functions(0.9, 0.95, 1.0, 0.47, 0.46) == functions(*[1.0] * 5) < 5
