"""Sums lie where their residuals lay, unless somebody still reads those."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from native_programs import Net, answers

from tensmith.backend.native.plan import NativePlan, make_plan
from tensmith.ir import Program
from tensmith.kernel import Kernel, host_isa


def pruned(net: Net, x: str, size: int = 3, left: float = 0.1) -> str:
    """A convolution of 32 channels of whose weights so many are left."""
    y = net.conv(x, 32, 32, size)
    weights = net.constants[net.nodes[-1].inputs[1]]
    weights[net.random.random(weights.shape) > left] = 0
    return y


def chain(*, seen: bool = False, left: float = 0.1) -> Program:
    """Residual blocks one after the other; the first sum is an output, too, if it is `seen`."""
    net = Net(2, 32, 21, 17)
    x = first = net.add("relu", pruned(net, "x", left=left))
    for index in range(3):
        body = pruned(net, net.add("relu", pruned(net, x, left=left)), 1, left)
        x = net.add("relu", net.add("add", body, x))
        first = x if index == 0 else first
    return net.program(pruned(net, x, left=left), *([first] if seen else []))


def sums(plan: NativePlan) -> list[tuple[str, str]]:
    """(residual, sum) of each kernel that adds one."""
    found = [action for action in plan.kernels if len(action.reads) == 2]
    assert all(isinstance(action.work, Kernel) and action.work.adds_in_place for action in found)
    return [(action.reads[1], action.writes) for action in found]


@pytest.mark.parametrize("left", [0.1, 1.0])
@pytest.mark.parametrize("threads", [1, 2])
def test_chains_of_sums_share_memory(threads: int, left: float, tmp_path: Path) -> None:
    program = chain(left=left)
    plan = make_plan(program, host_isa(), threads=threads)
    assert all(plan.places[residual] == plan.places[added] for residual, added in sums(plan))
    assert len({plan.layout.root(added)[0] for _, added in sums(plan)}) == 1
    found, expected = answers(program, tmp_path)
    for name in expected:
        np.testing.assert_allclose(found[name], expected[name], rtol=0, atol=3e-5)


def test_a_residual_that_is_read_later_keeps_its_memory(tmp_path: Path) -> None:
    program = chain(seen=True)
    plan = make_plan(program, host_isa())
    apart = [plan.places[residual] != plan.places[added] for residual, added in sums(plan)]
    assert apart == [False, True, False]
    found, expected = answers(program, tmp_path)
    for name in expected:
        np.testing.assert_allclose(found[name], expected[name], rtol=0, atol=3e-5)


def test_what_a_kernel_reads_is_not_overwritten(tmp_path: Path) -> None:
    net = Net(1, 32, 21, 17)
    stem = net.add("relu", pruned(net, "x"))
    program = net.program(pruned(net, net.add("add", pruned(net, stem), stem)))
    ((residual, added),) = sums(make_plan(program, host_isa()))
    plan = make_plan(program, host_isa())
    assert plan.places[residual] != plan.places[added]
    found, expected = answers(program, tmp_path)
    for name in expected:
        np.testing.assert_allclose(found[name], expected[name], rtol=0, atol=3e-5)
