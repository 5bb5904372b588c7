"""Every kernel of the corpus lifts, proved, and what is emitted computes what its source computes.

The sources are compiled as they stand (or imported, where they are Python); see `harness`.
"""

from __future__ import annotations

import functools
import tempfile
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import harness
import pytest
from corpus import ALL, ASKED, GROUPS, Kernel
from harness_targets import TARGETS, Loaded

from tensmith.lifting.pipeline import lift_file
from tensmith.lifting.result import LiftResult

# How many inputs targets are compared on here, and how many in a row have sizes and scalars in common: two
# that go through plain calls, one through what is called again. What code does otherwise depends on those
# more than on elements, of which an array holds many; `benchmarks/lifting/differential.py` goes through all
# kernels and targets with thousands.
INPUTS, ALIKE = 120, 3
TARGETS_OF_ALL = ("numpy", "c", "torch", "onnx", "mlx")
# Those that compile for every size get few sizes, on some of the kernels.
TRACING = ("tensorflow", "jax")
FEW: dict[str, Any] = {"sizes": (0, 1, 3), "slack": (0,), "repeat": 12}
TRACED = {("c", "blend"), ("python", "llama"), ("own", "convolution")}

needs_compilers = pytest.mark.skipif(not harness.compilers(), reason="gcc and g++ are not installed")
FOLDERS: list[tempfile.TemporaryDirectory[str]] = []


@dataclass(frozen=True)
class File:
    """What lifting a source file gave."""

    path: Path
    folder: Path
    results: dict[str, LiftResult]
    library: Any


@functools.cache
def lifted(path: Path) -> File:
    """A file lifted to every target that is installed here, its source compiled."""
    FOLDERS.append(tempfile.TemporaryDirectory(prefix="tensmith-corpus-"))
    folder = Path(FOLDERS[-1].name)
    results = {result.name: result for result in lift_file(path, targets=(), run=False)}
    library = None if path.suffix == ".py" else harness.build(path, list(results), folder)
    return File(path, folder, results, library)


@functools.cache
def written(path: Path, target: str) -> Path:
    """The folder with what a target's emitter writes for the functions of a file."""
    from tensmith.lifting.emit import EMITTERS

    file = lifted(path)
    folder = file.folder / target
    folder.mkdir()
    for result in file.results.values():
        if result.proved:
            for name, content in EMITTERS[target].emit(result.work.lifted).files.items():
                (folder / name).write_bytes(content)
    TARGETS[target].prepare(list(file.results), folder)
    return folder


@pytest.fixture(scope="module", autouse=True)
def cleared() -> Iterator[None]:
    yield
    while FOLDERS:
        FOLDERS.pop().cleanup()


def result_of(kernel: Kernel) -> LiftResult:
    return lifted(kernel.path).results[kernel.function]


def loaded(kernel: Kernel, target: str) -> Loaded:
    """The emitted function."""
    return TARGETS[target](result_of(kernel).work.lifted, written(kernel.path, target))


def each(kernels: tuple[Kernel, ...]) -> list[Any]:
    """Kernels as parameters; those of one file stay in one process, and so do those of files that are traced,
    for one process takes seconds to import what traces them."""
    groups = {k: "traced" if (k.group, k.path.stem) in TRACED else str(k.path) for k in kernels}
    return [pytest.param(k, id=str(k), marks=pytest.mark.xdist_group(groups[k])) for k in kernels]


@pytest.mark.parametrize("kernel", each(ALL))
@needs_compilers
def test_lifts_and_agrees(kernel: Kernel) -> None:
    result = result_of(kernel)
    assert result.proved, f"{result.line}:{result.column}: {result.reason}"
    assert result.obligations > 0 and result.work.lifted is not None
    source = harness.source_of(kernel.path, result.work.lifted.function, lifted(kernel.path).library)
    agrees(kernel, source, TARGETS_OF_ALL, repeat=ALIKE)


def agrees(kernel: Kernel, source: Any, targets: Sequence[str], **draws: Any) -> None:
    result = result_of(kernel)
    assert result.work.lifted is not None
    there = {target: loaded(kernel, target) for target in targets if not TARGETS[target].missing()}
    seed = zlib.crc32(result.name.encode())
    for target, verdict in harness.judge(result.work.lifted, source, there, INPUTS, seed, **draws).items():
        assert not verdict.wrong, f"{target}: {verdict.wrong[0]}"
        assert verdict.compared >= INPUTS // 8, f"{target}: {verdict}"


@pytest.mark.parametrize("target", TRACING)
@pytest.mark.parametrize("kernel", each(tuple(k for k in ALL if (k.group, k.path.stem) in TRACED)))
@needs_compilers
def test_agrees_where_sizes_are_compiled(kernel: Kernel, target: str) -> None:
    if TARGETS[target].missing():
        pytest.skip(f"{TARGETS[target].needs} is not installed")
    lifted_function = result_of(kernel).work.lifted
    assert lifted_function is not None
    source = harness.source_of(kernel.path, lifted_function.function, lifted(kernel.path).library)
    agrees(kernel, source, (target,), **FEW)


@pytest.mark.parametrize("group", GROUPS)
def test_as_many_kernels_as_are_asked_for_are_there(group: str) -> None:
    assert len(GROUPS[group]) >= ASKED[group]
