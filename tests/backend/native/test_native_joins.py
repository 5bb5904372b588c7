"""Parts of a concatenation keep zeros around them for those who read a border; parts of images, repeats."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from native_programs import Net, answers

from tensmith.backend.native.plan import make_plan
from tensmith.ir import Program
from tensmith.kernel.algorithm import Kernel
from tensmith.kernel.isa import host_isa
from tensmith.kernel.routines.copy import Copy
from tensmith.kernel.routines.pick_channels import PickChannels
from tensmith.kernel.routines.repeat import Repeat
from tensmith.kernel.routines.strided import Strided


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


def shuffled(net: Net, parts: int) -> str:
    """Channels that go past convolutions, in units that shuffle them."""
    x = net.conv("x", 4, 24)
    for _ in range(2):
        starts = [net.constant(values=np.array([n])) for n in range(parts)]
        ends, one, step = (net.constant(values=np.array([n])) for n in (1 << 40, 1, parts))
        cut = [net.add("slice", x, start, ends, one, step) for start in starts]
        size = 24 // parts
        x = net.add("concat", *cut[1:], net.add("relu", net.conv(cut[0], size, size)), axis=1)
    return net.conv(x, 24, 10, 1)


@pytest.mark.parametrize("parts", [2, 3, 8])
def test_channels_are_picked_where_they_lie(parts: int, tmp_path: Path) -> None:
    """Of blocks that hold all of a vector, or some lanes of it, or one."""
    net = Net(2, 4, 5, 6)
    program = net.program(shuffled(net, parts))
    works = [action.work for action in make_plan(program, host_isa()).actions]
    assert sum(isinstance(work, PickChannels) for work in works) == 2 * parts
    assert not any(isinstance(work, Strided) for work in works)
    found, expected = answers(program, tmp_path)
    for name, array in expected.items():
        np.testing.assert_allclose(found[name], array, rtol=1e-4, atol=1e-4)


def test_slices_that_leave_channels_and_columns_out_are_tensors(tmp_path: Path) -> None:
    net = Net(1, 8, 4, 6)
    bounds = (net.constant(values=np.array([n, n])) for n in (0, 1 << 40))
    cut = net.add("slice", net.conv("x", 8, 16), *bounds, *(
        net.constant(values=np.array(pair)) for pair in ([1, 3], [2, 2])))  # fmt: skip
    found, expected = answers(net.program(net.conv(cut, 8, 8)), tmp_path)
    for name, array in expected.items():
        np.testing.assert_allclose(found[name], array, rtol=1e-4, atol=1e-4)


def test_images_are_enlarged_in_blocks(tmp_path: Path) -> None:
    net = Net(2, 4, 3, 5)
    scales = net.constant(values=np.array([1, 1, 3, 2], np.float32))
    large = net.add("resize", net.conv("x", 4, 12), "", scales)
    program = net.program(net.conv(net.add("relu", large), 12, 9))
    works = [action.work for action in make_plan(program, host_isa()).actions]
    assert any(isinstance(work, Repeat) for work in works)
    found, expected = answers(program, tmp_path)
    for name, array in expected.items():
        np.testing.assert_allclose(found[name], array, rtol=1e-4, atol=1e-4)


def close(program: Program, folder: Path) -> None:
    """The compiled program answers as the interpreter does; no sum is of more than 600 terms near 1."""
    found, expected = answers(program, folder)
    for name, array in expected.items():
        np.testing.assert_allclose(found[name], array, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("axis", [2, 3])
def test_zeros_around_a_joined_part_are_put_there_alone(axis: int, tmp_path: Path) -> None:
    net = Net(1, 32, 6, 6)
    first = net.conv("x", 32, 32)
    pads = np.zeros(8, np.int64)
    pads[[axis, axis + 4]] = 1, 2
    padded = net.add("pad", net.conv("x", 32, 32), net.constant(values=pads))
    program = net.program(net.conv(net.add("concat", first, padded, axis=axis), 32, 8))
    plan = make_plan(program, host_isa())
    filled = [action.writes for action in plan.actions if isinstance(action.work, Copy) and action.work.fill]
    assert filled and set(filled) <= set(plan.layout.windows)
    close(program, tmp_path)


@pytest.mark.parametrize("axis", [2, 3])
def test_a_joined_part_that_is_read_later_has_a_border_of_its_own(axis: int, tmp_path: Path) -> None:
    net = Net(1, 32, 6, 6)
    first, second = net.conv("x", 32, 32), net.conv("x", 32, 32)
    whole = net.add("concat", first, second, axis=axis)
    close(net.program(net.conv(whole, 32, 8), net.conv(first, 32, 8), net.conv(second, 32, 8)), tmp_path)


def test_channels_that_are_joined_and_then_joined_as_rows(tmp_path: Path) -> None:
    net = Net(2, 32, 6, 6)
    first = net.conv("x", 32, 32)
    wide = net.add("concat", first, net.conv(first, 32, 32, 1), axis=1)
    close(net.program(net.conv(net.add("concat", net.conv("x", 32, 64), wide, axis=2), 64, 8)), tmp_path)


@pytest.mark.parametrize("rows", [1, 5])
def test_a_part_of_an_input_is_seen_under_another_shape(rows: int, tmp_path: Path) -> None:
    net = Net(2, 4, 8, 6)
    bounds = (net.constant(values=np.array(ends)) for ends in ([2, 3], [2 + rows, 3 + min(rows, 2)], [2, 3]))
    cut = net.add("slice", "x", *bounds)
    close(net.program(net.conv(cut, 4, 8), net.add("flatten", cut)), tmp_path)


def test_a_part_of_a_sound_is_copied_as_it_lies(tmp_path: Path) -> None:
    net = Net(1, 1, 1, 50)
    bounds = (net.constant(values=np.array([end])) for end in (0, 48, 2))
    column = net.add("reshape", "x", net.constant(values=np.array([1, 1, 50, 1])))
    sound = net.add("slice", column, *bounds)
    turned = net.add(
        "transpose", net.add("reshape", sound, net.constant(values=np.array([1, 6, 8]))), perm=(0, 2, 1)
    )
    image = net.add("reshape", turned, net.constant(values=np.array([1, 8, 1, 6])))
    program = net.program(net.conv(image, 8, 4, 1))
    layout = make_plan(program, host_isa()).layout
    assert layout.block[sound] == 1
    close(program, tmp_path)


def test_a_slice_backward_from_before_the_first_row_is_that_row(tmp_path: Path) -> None:
    net = Net(2, 4, 8, 6)
    bounds = (net.constant(values=np.array([value])) for value in (-20, -30, 2, -1))
    cut = net.add("slice", "x", *bounds)
    close(net.program(net.add("relu", cut)), tmp_path)
