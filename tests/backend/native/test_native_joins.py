"""Parts of a concatenation keep zeros around them for those who read a border; slices of channels."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from native_programs import Net, answers

from tensmith.backend.native.plan import make_plan
from tensmith.ir import Program
from tensmith.kernel.algorithm import Kernel
from tensmith.kernel.isa import host_isa


def skip_connection(seen: bool) -> Program:
    """A value read by a padded convolution and joined with what comes of it; the whole `seen` as rows."""
    net = Net(1, 32, 12, 10)
    skipped = net.conv("x", 32, 32, 1)
    whole = net.add("concat", skipped, net.conv(skipped, 32, 32), axis=1)
    outputs = [net.conv(whole, 64, 8, 1 if seen else 3)]
    if seen:
        rows = net.add("reshape", whole, net.constant(values=np.array([1, 4, 1920])))
        outputs.append(net.add("layer_normalization", rows, net.constant(1920), axis=-1, epsilon=1e-5))
    return net.program(*outputs)


@pytest.mark.parametrize("seen", [False, True])
def test_borders_are_zeros_where_kernels_read_them(seen: bool, tmp_path: Path) -> None:
    program = skip_connection(seen)
    plan = make_plan(program, host_isa())
    for action in plan.actions:
        if isinstance(action.work, Kernel):
            there = plan.layout.buffer(action.reads[0]).halo
            assert there == there.union(action.work.source.halo)
    found, expected = answers(program, tmp_path)
    for name, array in expected.items():
        # No sum is of more than 600 terms near 1.
        np.testing.assert_allclose(found[name], array, rtol=1e-4, atol=1e-4)


def test_slices_of_channels_along_one_axis(tmp_path: Path) -> None:
    """Of rank 3 behind a convolution, as the boxes of a detector are taken apart."""
    net = Net(1, 16, 4, 50)
    rows = net.add("reshape", net.conv("x", 16, 1, 1), net.constant(values=np.array([1, 4, 50])))
    low, high = (
        net.add("slice", rows, *(net.constant(values=np.array([n])) for n in (i, i + 2, 1))) for i in (0, 2)
    )
    found, expected = answers(net.program(net.add("sub", high, low)), tmp_path)
    for name, array in expected.items():
        np.testing.assert_allclose(found[name], array, rtol=1e-5, atol=1e-5)
