"""Channels that go past layers stay on one grid, which holds the range of all that are joined with them."""

from __future__ import annotations

import numpy as np

from lossy_samples import Interpreted, Net
from tensmith.ir import Program
from tensmith.rewrite.method import apply_lossy
from tensmith.rewrite.rule import EVERYWHERE, Step


def units(louder: float) -> Program:
    """Half of the channels go past each of two layers, the other half through it.

    One is louder, goes past the first layer, and is not heard by the second.
    """
    net = Net()
    x = net.op("relu", net.conv("x", 8))
    for _ in range(2):
        halves = [
            net.op("slice", x, *(net.constant([n], np.int64) for n in (start, 1 << 40, 1, 2)))
            for start in (0, 1)
        ]
        x = net.op("concat", halves[0], net.op("relu", net.conv(halves[1], 4, 1)), axis=1)
    first, _, second = (array for array in net.constants.values() if array.ndim == 4)
    first[2] *= np.float32(louder)
    second[:, 0] = 0
    return net.program(net.op("global_average_pool", net.conv(x, 5)))


def quantized(program: Program) -> Program:
    step = Step("int8", EVERYWHERE, {"calibration": "minmax", "default_bits": 8}, "lossy")
    return apply_lossy(program, step, Interpreted())


def scales(program: Program, ops: tuple[str, ...]) -> list[float]:
    """The scales of what these ops make."""
    made = [node.output for node in program.nodes if node.op in ops]
    found = [node for node in program.nodes if node.op == "quantize_linear" and node.inputs[0] in made]
    return [float(program.constants[node.inputs[1]]) for node in found]


def test_parts_and_wholes_share_a_grid() -> None:
    found = scales(quantized(units(1)), ("concat", "slice"))
    assert len(found) == 6 and len(set(found)) == 1


def test_the_grid_holds_what_went_in_first() -> None:
    """Channels that the second join does not see may be the loudest of the first."""
    program = units(30)
    wholes = [node.output for node in program.nodes if node.op in ("relu", "concat")]
    highest = max(found.high for found in Interpreted().histograms(program, wholes).values())
    assert highest > 1.5 * Interpreted().histograms(program, wholes[-1:])[wholes[-1]].high
    (scale,) = set(scales(quantized(program), ("concat",)))
    assert 255 * scale >= 0.999 * highest


def test_a_whole_that_is_part_of_another_hands_its_range_on() -> None:
    """What a part of it was cut from is on the grid as well, and may be louder than what was cut."""
    net = Net()
    loud = net.op("relu", net.conv("x", 8))
    cut = net.op("slice", loud, *(net.constant([n], np.int64) for n in (4, 8, 1, 1)))
    inner = net.op("concat", cut, net.op("relu", net.conv("x", 4)), axis=1)
    outer = net.op("concat", inner, net.op("relu", net.conv("x", 4)), axis=1)
    next(array for array in net.constants.values() if array.ndim == 4)[:4] *= np.float32(30)
    y = net.op("add", net.conv(outer, 5), net.conv(loud, 5))
    program = net.program(net.op("global_average_pool", y))
    seen = Interpreted().histograms(program, [loud, outer])
    assert seen[loud].high > 5 * seen[outer].high
    (scale,) = set(scales(quantized(program), ("concat", "slice")))
    assert 255 * scale >= 0.999 * seen[loud].high
