"""Long chains and huge sizes: text and time grow with the chain, and what cannot be is refused at once."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from native_programs import answers

from nets import Net
from tensmith.backend.native.emit.source import print_c
from tensmith.backend.native.plan import make_plan
from tensmith.errors import EngineError
from tensmith.ir import Program
from tensmith.kernel import host_isa

Link = Callable[[Net, str], str]

# From a value to the next one, of the same shape.
LINKS: dict[str, Link] = {
    "twice": lambda net, value: net.add("add", value, value),
    "square": lambda net, value: net.add("mul", value, value),
    "sigmoid": lambda net, value: net.add("sigmoid", value),
    "both": lambda net, value: net.add("add", net.add("tanh", value), value),
    "maximum": lambda net, value: net.add("max", net.add("neg", value), net.constant(1)),
    "join": lambda net, value: net.add("max_pool", value, kernel_shape=(1, 1)),
    "conv": lambda net, value: net.conv(value, 4, 4, 1),
}
SHAPES = {"image": (1, 4, 3, 3), "rows": (2, 3, 4)}


def chain(link: Link, shape: tuple[int, ...], count: int) -> Program:
    net, value = Net(*shape), "x"
    for _ in range(count):
        value = link(net, value)
    return net.program(value)


def text(program: Program) -> str:
    return print_c(make_plan(program, host_isa()))


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("name", LINKS)
def test_text_grows_no_faster_than_a_chain(name: str, shape: str) -> None:
    if shape == "rows" and name in ("join", "conv"):
        return
    short, long = (len(text(chain(LINKS[name], SHAPES[shape], count))) for count in (200, 400))
    assert long < 2.2 * short


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("name", ["twice", "sigmoid", "both"])
def test_a_chain_is_computed(name: str, shape: str, tmp_path: Path) -> None:
    count = 20 if name == "twice" else 150
    found, expected = answers(chain(LINKS[name], SHAPES[shape], count), tmp_path)
    for value, truth in expected.items():
        np.testing.assert_allclose(found[value], truth, rtol=1e-4)


@pytest.mark.parametrize("strides", [1, 2_000_001])
def test_pads_beyond_all_memory_are_refused_at_once(strides: int) -> None:
    net = Net(1, 1, 8, 8)
    pads = {"pads": (1_000_000,) * 4, "strides": (strides, strides)}
    program = net.program(net.conv("x", 1, 1, **pads))
    with pytest.raises(EngineError, match=r"takes up to 2\^31|takes tensors up to 2\^31"):
        make_plan(program, host_isa())
