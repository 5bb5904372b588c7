"""What everybody writes: each function of kernels/idioms and of the examples lifts, and its files agree."""

from __future__ import annotations

import functools
import re
import tempfile
from pathlib import Path
from typing import Any

import harness
import pytest
from corpus import KERNELS
from harness_targets import TARGETS

from tensmith.lifting.pipeline import emitter_of, lift_file
from tensmith.lifting.refusal import Refusal
from tensmith.lifting.result import LiftResult

# What is lifted once serves all of them.
pytestmark = pytest.mark.xdist_group(__name__)

INPUTS = {"numpy": 200, "c": 60, "torch": 30}
EXAMPLES = Path(__file__).resolve().parents[2] / "examples" / "lifting"
FILES = [*sorted(path for path in (KERNELS / "idioms").iterdir() if path.is_file()), *EXAMPLES.glob("*.c")]
FUNCTION = re.compile(r"^(?:def|[\w:<>]+) (\w+)\(", re.MULTILINE)  # types are written as one word
CASES = [(path, name) for path in FILES for name in FUNCTION.findall(path.read_text())]
FOLDERS: list[tempfile.TemporaryDirectory[str]] = []


def folder() -> Path:
    FOLDERS.append(tempfile.TemporaryDirectory(prefix="tensmith-idioms-"))
    return Path(FOLDERS[-1].name)


@functools.cache
def lifted(path: Path) -> dict[str, LiftResult]:
    return {result.name: result for result in lift_file(path, targets=(), run=False)}


@functools.cache
def library(path: Path) -> Any:
    """The compiled source."""
    return None if path.suffix == ".py" else harness.build(path, list(lifted(path)), folder())


@functools.cache
def written(path: Path, target: str) -> Path:
    """A folder with what a target makes of all functions of a file."""
    found = folder()
    for result in lifted(path).values():
        if result.work.lifted is not None:
            try:
                files = emitter_of(target).emit(result.work.lifted).files
            except Refusal:
                continue
            for name, content in files.items():
                (found / name).write_bytes(content)
    TARGETS[target].prepare(list(lifted(path)), found)
    return found


@pytest.mark.parametrize("target", INPUTS)
@pytest.mark.parametrize(("path", "name"), CASES, ids=[f"{path.name}/{name}" for path, name in CASES])
def test_lifts_and_agrees(path: Path, name: str, target: str) -> None:
    if not harness.compilers() or TARGETS[target].missing():
        pytest.skip(f"gcc, g++ or {TARGETS[target].needs} are not installed")
    result = lifted(path)[name]
    assert result.status == "proved", result.reason
    work = result.work.lifted
    assert work is not None
    if not list(written(path, target).glob(f"{name}.*")):
        pytest.skip(f"{target} refuses it")
    source = harness.source_of(path, work.function, library(path))
    loaded = TARGETS[target](work, written(path, target))
    verdict = harness.judge(work, source, {target: loaded}, INPUTS[target])[target]
    assert not verdict.wrong, verdict.wrong[0]
    assert verdict.compared > INPUTS[target] // 3
