"""What is not a number stays none, and reaches as far as in the interpreter."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from native_programs import Net, compile_folder

from tensmith.backend.native.emit.loader import Model
from tensmith.ir import interpret
from tensmith.kernel import host_isa, isa_named


@pytest.mark.parametrize("isa", ["host", "generic"])
@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_pools_extremes_and_activations(tmp_path: Path, value: float, isa: str) -> None:
    net = Net(1, 20, 9, 8)
    pooled = net.add("max_pool", "x", kernel_shape=(3, 3), pads=(1, 1, 1, 1))
    mean = net.add("average_pool", "x", kernel_shape=(2, 2))
    highest, middle = net.add("global_max_pool", "x"), net.add("global_average_pool", "x")
    shifted = net.add("add", "x", net.constant(values=np.float32(0.25)))
    extremes = [net.add(op, *pair) for op in ("max", "min") for pair in (("x", shifted), (shifted, "x"))]
    activated = [net.add(op, "x") for op in ("relu", "sigmoid", "tanh", "hard_swish")]
    program = net.program(pooled, mean, highest, middle, *extremes, *activated)
    x = np.random.default_rng(3).standard_normal((1, 20, 9, 8)).astype(np.float32)
    for place in ((0, 3, 0, 0), (0, 17, 4, 5), (0, 19, 8, 7)):
        x[place] = value
    found = Model(compile_folder(program, tmp_path, host_isa() if isa == "host" else isa_named(isa)))(x=x)
    expected = interpret(program, {"x": x})
    for name in program.outputs:
        for test in (np.isnan, np.isposinf, np.isneginf):
            assert np.array_equal(test(found[name]), test(expected[name])), (name, test)
