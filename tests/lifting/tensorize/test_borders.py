"""Windows that reach behind an array's ends: slices of the array with a border, on every target."""

from __future__ import annotations

import functools
from dataclasses import replace
from pathlib import Path

import harness
import numpy as np
import pytest
from corpus import KERNELS
from harness_targets import TARGETS

from tensmith.errors import ProgramError
from tensmith.lifting.conditions.programs import program_goals
from tensmith.lifting.conditions.world import Malformed
from tensmith.lifting.pipeline import emitter_of, lift_file
from tensmith.lifting.result import LiftResult
from tensmith.verify.solve import discharge

WINDOWS = KERNELS / "idioms" / "windows.py"
NAMES = ("same_convolution", "life", "causal_filter", "three_channels", "life_by_lists", "heat")
STRIDED = KERNELS / "idioms" / "windows.c"
STRIDES = ("convolved_at_every_other", "largest_around_every_other", "sums_at_as_many_as_asked")


@functools.cache
def lifted(path: Path) -> dict[str, LiftResult]:
    return {result.name: result for result in lift_file(path, targets=(), run=False)}


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("target", TARGETS)
def test_every_target_puts_a_border_around(target: str, name: str, tmp_path: Path) -> None:
    work = lifted(WINDOWS)[name].work.lifted
    assert work is not None
    assert {"pad", "slice"} <= {node.op for node in work.program.nodes}
    assert check(target, WINDOWS, name, tmp_path, 30) > 10


@pytest.mark.parametrize("name", STRIDES)
@pytest.mark.parametrize("target", TARGETS)
def test_every_target_takes_a_border_with_a_stride(target: str, name: str, tmp_path: Path) -> None:
    assert check(target, STRIDED, name, tmp_path, 8) > 3


def check(target: str, path: Path, name: str, folder: Path, calls: int) -> int:
    """On how many of so many calls what a target makes of a function was compared with it."""
    if TARGETS[target].missing():
        pytest.skip(f"{TARGETS[target].needs} are not installed")
    work = lifted(path)[name].work.lifted
    assert work is not None
    for file, content in emitter_of(target).emit(work).files.items():
        (folder / file).write_bytes(content)
    TARGETS[target].prepare([name], folder)
    library = None if path.suffix == ".py" else harness.build(path, list(lifted(path)), folder)
    source = harness.source_of(path, work.function, library)
    verdict = harness.judge(work, source, {target: TARGETS[target](work, folder)}, calls)[target]
    assert not verdict.wrong, verdict.wrong[0]
    return verdict.compared


def test_an_image_narrower_than_its_window_has_all_its_elements(tmp_path: Path) -> None:
    work = lifted(WINDOWS)["same_convolution"].work.lifted
    assert work is not None
    for file, content in emitter_of("numpy").emit(work).files.items():
        (tmp_path / file).write_bytes(content)
    found = TARGETS["numpy"](work, tmp_path)
    for h, w in ((1, 1), (1, 2), (2, 1), (1, 0)):
        x, k = np.arange(1.0, h * w + 1).reshape(h, w), np.arange(9.0).reshape(3, 3)
        padded = np.pad(x, 1)
        want = [[(padded[i : i + 3, j : j + 3] * k).sum() for j in range(w)] for i in range(h)]
        (y,) = found({"x": x, "k": k})
        np.testing.assert_allclose(y, np.reshape(want, (h, w)))


def test_a_slice_that_ends_elsewhere_is_a_failed_proof() -> None:
    """Its type has another size, which types alone would let meet the right one."""
    work = lifted(WINDOWS)["same_convolution"].work
    assert work.lifted is not None and work.summary is not None
    program = work.lifted.program
    bounds = {name for node in program.nodes if node.op == "slice" for name in node.inputs[1:]}
    for name in sorted(bounds):
        for place in range(2):
            changed = program.constants[name].copy()
            changed[place] = changed[place] + 1 if changed[place] < 2**62 else -1
            constants = {**program.constants, name: changed}
            try:
                other = replace(work.lifted, program=replace(program, constants=constants))
                goals = program_goals(other, work.summary)
            except (Malformed, ProgramError):
                continue
            assert any(verdict.status != "proved" for verdict in discharge(goals, timeout=1.0)), (name, place)
