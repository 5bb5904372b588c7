"""What everybody writes: each function of kernels/idioms and of the examples lifts, and its files agree."""

from __future__ import annotations

import functools
import re
import tempfile
from pathlib import Path
from typing import Any

import harness
import numpy as np
import pytest
from corpus import KERNELS
from harness_targets import TARGETS
from loops_interpreter import Machine

from tensmith.formula.expr import SourcePosition
from tensmith.lifting.loops import Array, Function
from tensmith.lifting.pipeline import emitter_of, lift_file
from tensmith.lifting.refusal import Refusal
from tensmith.lifting.result import LiftResult
from tensmith.lifting.second.values import dtype

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


TRIANGLES = (
    "distances_above_the_diagonal",
    "distances_below_the_diagonal",
    "upper_column_by_column",
    "both_halves",
    "below_the_other_diagonal",
)
NEIGHBOURS = "both_neighbours", "those_two_away"
AROUND = "sum_of_neighbours", "laplace_repeating_rows"
STRICT, CONVOLVED = ("", "strict_"), ("valid", "guarded")
CLIPPED = "by_macros", "by_choices", "by_branches", "by_either", "as_long_as_both"
# Calls that must be answered, whatever a lift requires: parameters in order, arrays by their lengths.
ORDINARY = [
    *(("borders.c", "edge_padded", (n + 2 * r, n, n, r)) for n in (1, 2, 5) for r in (0, 1, 2, 7)),
    ("borders.c", "edge_padded", (3, 5, 5, -1)),
    *(("borders.c", f"with_{name}", (n, n, n)) for name in NEIGHBOURS for n in range(6)),
    *(("planes.c", name, (h * w, h * w, h, w)) for name in AROUND for h in range(4) for w in range(4)),
    *(("two_results.py", "mean_and_deviations", (n,)) for n in (1, 2, 5)),
    *(("two_results.py", "sum_and_count", (5, n)) for n in (0, 1, 5)),
    *(("borders.c", "sum_with_edges", (n, n)) for n in (1, 2, 5)),
    ("borders.c", "clamped_between", (5, 3, 5, 0, 2)),
    ("borders.c", "clamped_between", (5, 5, 5, 1, 4)),
    *(("borders.c", "there_and_back", (2 * n, n, n)) for n in (0, 1, 5)),
    *(("borders.c", "rotated_in_one_turn", (5, 5, 5, s)) for s in (0, 2, 5)),
    *(("borders.c", "next_of_the_first", (n, n, n, m)) for n in (1, 5) for m in (-1, 0, 2, 5, 9)),
    *(("borders.c", name, (5, 5, 5)) for name in ("blur_by_helper", "difference", "mirrored_by_abs")),
    *(("borders.c", "box_of_radius", (5, 5, 5, r)) for r in (0, 1, 7)),
    *(("borders.c", name, (6, 6, 2, 3)) for name in ("sobel_x", "box_blur_8", "wrapped_around")),
    ("borders.c", "rows_there_and_back", (12, 6, 2, 3)),
    *(("borders.c", "back_by_three", (5, m, 5, m)) for m in (1, 2, 5)),
    *(("borders.c", "back_by_three_upper_first", (5, m, 5, m)) for m in (1, 2, 5)),
    *(("borders.c", "clamped_upper_first", (5, 4, 5, lo, 3)) for lo in (0, 1, 3)),
    *(("triangles.c", "upper_of_products", (2 * n, n * n, n, 2)) for n in (0, 1, 2, 5)),
    *(("triangles.c", name, (n, n * n, n)) for name in TRIANGLES for n in (0, 1, 2, 5)),
    *(("triangles.c", "zeros_above_the_diagonal", (n * n, n)) for n in (0, 1, 2, 5)),
    *(("triangles.c", "ones_on_the_diagonal", (n * n, n)) for n in (0, 1, 2, 5)),
    *(
        ("triangles.c", "upper_of_a_rectangle", (h * w, h * w, h, w))
        for h in (0, 1, 2, 5)
        for w in (0, 1, 2, 5)
    ),
    *(("triangles.c", "upper_of_each", (3 * n, 3 * n * n, 3, n)) for n in (0, 1, 2, 5)),
    *(("triangles.c", "upper_turned", (n * n, n * n, n)) for n in (0, 1, 2, 5)),
    *(
        ("triangles.c", f"{kind}upper_times_vector", (n * n, n, n, n))
        for kind in STRICT
        for n in (0, 1, 2, 5)
    ),
    *(("triangles.c", "upper_with_rows_of_their_own", (7 * n, 7 * n, n, 7)) for n in (0, 1, 2, 5)),
    *(
        ("planes.c", f"{kind}_convolution", (5 * 4, k * k, (6 - k) * (5 - k), 5, 4, k))
        for kind in CONVOLVED
        for k in (1, 2, 4)
    ),
    ("planes.c", "guarded_convolution", (1, 4, 0, 1, 1, 2)),
    *(
        ("planes.c", "half_as_large", (h * w, (h // 2) * (w // 2), w, h))
        for h in (0, 1, 2, 5)
        for w in (0, 1, 2, 5)
    ),
    *(
        ("planes.c", "from_twice_as_large", (4 * h * w, h * w, w, h))
        for h in (0, 1, 2, 5)
        for w in (0, 1, 2, 5)
    ),
    *(("joins.c", "one_after_the_other", (n, m, n + m, n, m)) for n in (0, 1, 5) for m in (0, 1, 5)),
    *(("joins.c", "framed_by_zeros", (n, n + 2 * p, n, p)) for n in (0, 1, 5) for p in (0, 1, 2)),
    *(("joins.c", "plane_framed_by_zeros", (6, (2 + 2 * p) * (3 + 2 * p), 2, 3, p)) for p in (0, 1, 2)),
    ("joins.c", "put_into_zeros", (6, 20, 2, 3)),
    *(("strides.c", "every_so_many", (n, n // s, n, s)) for n in (0, 1, 6) for s in (1, 2, 3)),
    *(("strides.c", "strided_convolution", (7, 3, 4 // s + 1, 7, 3, s)) for s in (1, 2, 5)),
    ("strides.c", "strided_convolution_of_planes", (35, 9, 6, 5, 7, 3, 2)),
    ("strides.c", "convolution_at_every_other", (35, 9, 6, 5, 7)),
    ("strides.c", "largest_of_windows", (35, 6, 5, 7, 3, 2)),
    ("strides.c", "quantized_by_groups", (12, 12, 3, 12, 4)),
    *(("tiles.c", "each_pixel_four_times", (h * w, 4 * h * w, h, w)) for h in (0, 1, 3) for w in (0, 1, 2)),
    *(("tiles.c", "enlarged", (6, 6 * s * s, 2, 3, s)) for s in (1, 2, 3)),
    *(("tiles.c", "nearest", (6, 20, 2, 3, rows, 4)) for rows in (1, 2, 5)),
    ("tiles.c", "both_rolled", (6, 6, 2, 3, 7, 4)),
    *(("tiles.c", "rolled_either_way", (5, 5, 5, s)) for s in (0, 2, 7)),
    *(
        ("windows.c", "convolved_at_every_other", (h, w, h * w, 9, ((h + 1) // 2) * ((w + 1) // 2)))
        for h in (1, 2, 5)
        for w in (1, 4)
    ),
    ("windows.c", "layer_at_every_other", (2, 3, 5, 4, 40, 54, 3, 18)),
    *(("windows.c", "filtered_at_every_third", (n, n, 5, n // 3)) for n in (0, 1, 3, 5, 9)),
    *(("clipped.c", name, (n, n, n)) for name in CLIPPED for n in (0, 1, 2, 5)),
    *(("clipped.c", "rows_and_columns", (h, w, h * w, h * w)) for h in (0, 1, 4) for w in (0, 1, 3)),
    *(("clipped.c", "full_convolution", (n, m, n, m, n + m - 1)) for n in (0, 1, 5) for m in (1, 2, 7)),
    *(("clipped.py", "full_convolution", (n, m)) for n in (0, 1, 5) for m in (1, 2, 7)),
    *(("clipped.py", "last_k", (5, k)) for k in (1, 2, 9)),
    *(("clipped.py", name, (5, k)) for name in ("within_k", "next_k", "how_many_within") for k in (0, 2, 9)),
    *(("clipped.c", "sums_of_the_next", (5, k, 5, 5)) for k in (0, 2, 9)),
    *(("windows.c", "weighted_by_the_next", (5, k, 5, k, 5)) for k in (0, 2, 9)),
    *(("borders.py", "clamped_by", (5, lo, 4)) for lo in (-1, 0, 4)),
    *(("borders.py", "next_within", (5, m)) for m in (1, 3, 5)),
    *(("borders.py", "next_as_in", (5, m)) for m in (1, 3, 5)),
]


@pytest.mark.parametrize(("file", "name", "given"), ORDINARY)
def test_answers_ordinary_calls(file: str, name: str, given: tuple[int, ...]) -> None:
    if not harness.compilers():
        pytest.skip("gcc or g++ is not installed")
    path = KERNELS / "idioms" / file
    work = lifted(path)[name].work.lifted
    assert work is not None, lifted(path)[name].reason
    arguments = dict[str, Any]()
    for (parameter, kind), size in zip(work.function.fields, given, strict=True):
        arguments[parameter] = (
            np.arange(1, size + 1, dtype=dtype(kind.element)) if isinstance(kind, Array) else size
        )
    source = harness.source_of(path, work.function, library(path))
    expected = harness.Trial(work, source).outputs(source(arguments))
    found = TARGETS["numpy"](work, written(path, "numpy"))(arguments)
    for want, got in zip(expected, found, strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-6)


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


class Touching(Machine):
    """Runs a function on arrays without ends, and notes how far each is read or written."""

    def __init__(self, function: Function, scalars: dict[str, int]) -> None:
        super().__init__(function, 100_000)
        self.touched = dict.fromkeys(function.arrays, 0)
        for name, kind in function.fields:
            self.bind(name, kind, [1] if isinstance(kind, Array) else scalars[name])
            if isinstance(kind, Array):
                self.arrays[name].data *= 2_000
        self.block(function.body)

    def find(self, name: str, place: list[int], position: SourcePosition) -> tuple[list[Any], int]:
        self.touched[name] = max(self.touched[name], place[0] + 1)
        return super().find(name, place, position)


# What is read of masked elements beyond the last one that counts, said to be more than the source needs.
READS_ON = {"strict_upper_times_vector": "u"}
# Which sizes are those of whole rows, where not all are.
WHOLE_ROWS = {
    "upper_with_rows_of_their_own": lambda n, stride: n <= stride,
    "upper_of_a_rectangle": lambda h, w: h <= w,
}
TOUCHED = [(path, name) for path, name in CASES if path.name in ("triangles.c", "planes.c")]


@pytest.mark.parametrize(("path", "name"), TOUCHED, ids=[name for _, name in TOUCHED])
def test_answers_calls_with_arrays_as_long_as_they_are_touched(path: Path, name: str) -> None:
    """Wherever every array is touched at all."""
    if not harness.compilers():
        pytest.skip("gcc or g++ is not installed")
    result = lifted(path)[name]
    work = result.work.lifted
    assert work is not None, result.reason
    more = READS_ON.get(name, "")
    assert any("more than the source needs" in each for each in result.requires) == bool(more)
    source, called = harness.source_of(path, work.function, library(path)), written(path, "numpy")
    trial, loaded = harness.Trial(work, source), TARGETS["numpy"](work, called)
    names = [parameter for parameter, kind in work.function.fields if not isinstance(kind, Array)]
    reach = functools.cache(lambda *given: Touching(work.function, dict(zip(names, given))).touched)
    rng, answered = np.random.default_rng(0), 0
    for _ in range(300):
        scalars = {name: int(rng.integers(0, 7)) for name in names}
        touched = reach(*scalars.values())
        if not all(touched.values()) or not WHOLE_ROWS.get(name, lambda **_: True)(**scalars):
            continue
        arguments: dict[str, Any] = dict(scalars)
        for array, length in touched.items():
            end = length + (scalars["n"] if array == more else 0)
            arguments[array] = rng.integers(0, 100, end).astype(dtype(work.function.arrays[array].element))
        arguments = {parameter: arguments[parameter] for parameter, _ in work.function.fields}
        expected = trial.outputs(source(arguments))
        for want, got in zip(expected, loaded(arguments), strict=True):
            np.testing.assert_allclose(got, want, rtol=1e-5)
        answered += 1
    assert answered > 30
