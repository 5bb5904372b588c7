"""Windows that reach far over the image, and how many of their elements a mean counts."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from native_programs import Net, answers

WINDOWS = [
    {"kernel_shape": (3, 4), "strides": (2, 3), "pads": (1, 2, 2, 1)},
    {"kernel_shape": (2, 3), "dilations": (3, 2), "pads": (1, 2, 1, 0)},
    {"kernel_shape": (9, 11), "strides": (3, 2), "pads": (8, 10, 8, 10)},
    {"kernel_shape": (40, 40), "strides": (40, 40), "pads": (20, 18, 20, 18), "ceil_mode": 1},
    {"kernel_shape": (3, 3), "strides": (5, 5), "pads": (2, 2, 2, 2), "ceil_mode": 1},
    # A mean over all positions as some exporters write it: a window as large as there are channels.
    {"kernel_shape": (400, 400), "strides": (400, 400), "pads": (0, 0, 390, 387)},
]


@pytest.mark.parametrize("attrs", WINDOWS, ids=str)
def test_windows_over_the_border(attrs: dict[str, object], tmp_path: Path) -> None:
    net = Net(2, 19, 10, 13)
    whole = net.add("average_pool", "x", count_include_pad=1, **attrs)
    program = net.program(net.add("average_pool", "x", **attrs), whole, net.add("max_pool", "x", **attrs))
    found, expected = answers(program, tmp_path)
    for name in program.outputs:
        np.testing.assert_allclose(found[name], expected[name], rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("to", [2, 3])
def test_whole_numbers_that_stand_for_nothing_else(to: int, tmp_path: Path) -> None:
    net = Net(1, 3, 6, 5)
    whole = net.add("cast", net.add("abs", net.add("mul", "x", net.constant(values=np.float32(20)))), to=to)
    pooled = net.add("max_pool", whole, kernel_shape=(3, 3), pads=(1, 1, 1, 1))
    output = net.add("cast", net.add("concat", pooled, whole, axis=1), to=1)
    found, expected = answers(net.program(output), tmp_path)
    np.testing.assert_array_equal(found[output], expected[output])
