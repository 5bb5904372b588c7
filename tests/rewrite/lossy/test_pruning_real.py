"""Channel groups of real networks, as exporters write them."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from test_dependency import blinded

from tensmith.frontend.onnx import read_onnx
from tensmith.ir import Program, interpret
from tensmith.rewrite.lossy.dependency import find_group, groups, without_channels
from tensmith.rewrite.trail import simplify

# Groups by size: of ResNet-20 the streams are 16 + 16 + 32 channels, since each widens the one before.
EXPECTED = {
    "resnet20_cifar10": [16, 16, 16, 16, 32, 16, 32, 32, 64, 32, 64, 64],
    "resnet8_cifar10": [16, 16, 32, 32, 64, 64],
    "squeezenet1_1_imagenet": [64, *(c * m for c in (16, 32, 48, 64) for m in (1, 4, 4) * 2)],
    "mobilenetv2_imagenet": None,
}


def small_image(program: Program) -> Program:
    """The program on images of 64 x 64, to run quickly."""
    (name,) = program.inputs
    batch, channels, *_ = program.inputs[name].dims
    return replace(program, inputs={name: program.inputs[name].with_shape((batch, channels, 64, 64))})


@pytest.mark.data
@pytest.mark.parametrize("name", EXPECTED)
def test_channels_that_nobody_reads_may_go_from_real_networks(name: str, data_dir: Path) -> None:
    program = simplify(read_onnx(data_dir / "models" / f"{name}.onnx")).program
    if "imagenet" in name:
        program = small_image(program)
    found = groups(program)
    if EXPECTED[name]:
        assert [group.size for group in found] == EXPECTED[name]
    random = np.random.default_rng(0)
    removed = {
        group.id: np.sort(random.choice(group.size, group.size // 3, replace=False)) for group in found
    }
    before = program
    for group in found:
        before = blinded(before, group, removed[group.id])
    after = before
    for identity, numbers in removed.items():
        after = without_channels(after, find_group(after, identity), numbers)
    (name_in,) = program.inputs
    size = int(program.inputs[name_in].dims[-1])  # type: ignore[arg-type]
    x = random.normal(size=(1, 3, size, size)).astype(np.float32)
    expected, pruned = (interpret(own, {name_in: x})[own.outputs[0]] for own in (before, after))
    np.testing.assert_allclose(pruned, expected, rtol=1e-3, atol=1e-3 * float(np.abs(expected).max()))
    sizes = [sum(array.nbytes for array in own.constants.values()) for own in (after, before)]
    assert sizes[0] < 0.65 * sizes[1]
