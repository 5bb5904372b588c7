"""Maxima of planes: pools stay in the layout of what they read, and answer as the interpreter does."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from native_programs import Net, answers

from tensmith.backend.native.plan import make_plan
from tensmith.ir import Program
from tensmith.kernel import host_isa
from tensmith.kernel.routines.pool import PoolRoutine

WINDOWS = [
    {"kernel_shape": (3, 3), "strides": (2, 2), "pads": (1, 1, 1, 1)},
    {"kernel_shape": (2, 2), "strides": (2, 2), "ceil_mode": 1},
    {"kernel_shape": (5, 3), "pads": (2, 1, 2, 1)},
    {"kernel_shape": (3, 2), "strides": (3, 1), "pads": (1, 0, 0, 1), "dilations": (2, 3)},
    {"kernel_shape": (2, 3), "strides": (1, 2), "dilations": (3, 2)},
]


def pooled(attrs: dict[str, object], width: int) -> Program:
    net = Net(2, 5, 19, width)
    return net.program(net.add("max_pool", "x", **attrs))


@pytest.mark.parametrize("width", [37, 47])
@pytest.mark.parametrize("attrs", WINDOWS, ids=str)
def test_windows_of_planes(attrs: dict[str, object], width: int, tmp_path: Path) -> None:
    program = pooled(attrs, width)
    (pool,) = (
        action for action in make_plan(program, host_isa()).actions if isinstance(action.work, PoolRoutine)
    )
    assert make_plan(program, host_isa()).layout.block[pool.writes] == 1
    found, expected = answers(program, tmp_path)
    np.testing.assert_array_equal(found[program.outputs[0]], expected[program.outputs[0]])


def test_what_planes_do_not_suit_is_pooled_in_blocks(tmp_path: Path) -> None:
    lanes = host_isa().lanes
    for attrs, width in (({"kernel_shape": (2, 2), "strides": (3, 3)}, 64), (WINDOWS[0], 2 * lanes - 2)):
        program = pooled(attrs, width)
        layout = make_plan(program, host_isa()).layout
        assert layout.block[program.outputs[0]] == lanes
        found, expected = answers(program, tmp_path / str(width))
        np.testing.assert_array_equal(found[program.outputs[0]], expected[program.outputs[0]])
