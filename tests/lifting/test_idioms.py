"""What everybody writes: each function of kernels/idioms lifts, and what is emitted agrees with it."""

from __future__ import annotations

import functools
import re
import tempfile
from pathlib import Path
from typing import Any

import harness
import pytest
from corpus import KERNELS
from harness_targets import Numpy

from tensmith.lifting.result import LiftResult
from tensmith.lifting.road import lift_file

FILES = sorted(path for path in (KERNELS / "idioms").iterdir() if path.is_file())
FUNCTION = re.compile(r"^(?:def|[\w:<>]+) (\w+)\(", re.MULTILINE)  # types are written as one word
FOLDERS: list[tempfile.TemporaryDirectory[str]] = []


@functools.cache
def lifted(path: Path) -> tuple[dict[str, LiftResult], Path, Any]:
    """Results by name, the folder with what is emitted for NumPy, the compiled source."""
    FOLDERS.append(tempfile.TemporaryDirectory(prefix="tensmith-idioms-"))
    folder = Path(FOLDERS[-1].name)
    results = {result.name: result for result in lift_file(path, None, ["numpy"], folder)}
    proved = [result.name for result in results.values() if result.status == "proved"]
    library = None if path.suffix == ".py" else harness.build(path, proved, folder)
    return results, folder, library


@pytest.mark.parametrize(
    ("path", "name"),
    [pytest.param(p, f, id=f"{p.name}/{f}") for p in FILES for f in FUNCTION.findall(p.read_text())],
)
def test_lifts_and_agrees(path: Path, name: str) -> None:
    if path.suffix != ".py" and not harness.compilers():
        pytest.skip("gcc and g++ are not installed")
    results, folder, library = lifted(path)
    assert results[name].status == "proved", results[name].reason
    work = results[name].work.lifted
    assert work is not None
    source = harness.source_of(path, work.function, library)
    (verdict,) = harness.judge(work, source, {"numpy": Numpy(work, folder)}, 200).values()
    assert not verdict.wrong, verdict.wrong[0]
    assert verdict.compared > 100
