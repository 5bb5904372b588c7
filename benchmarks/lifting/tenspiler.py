"""Tenspiler's figures 8 to 11 from our results, theirs beside ours.

    python -m benchmarks.lifting.tenspiler [--results FOLDER] [--output FOLDER]

Reads what benchmarks.lifting.coverage, .speed and .ablation wrote (lifting_coverage.json and so on). Writes
tenspiler.html, .md and .tex, and two pictures where matplotlib is installed. Theirs are in tenspiler.toml,
with their source.
"""

from __future__ import annotations

import itertools
import sys
import tomllib
from argparse import ArgumentParser
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import geometric_mean, median
from typing import Any

from benchmarks import ROOT, parts, timing
from tensmith.errors import MissingExtra
from tensmith.report.metric import exact
from tensmith.study.tables import StudyCurve, StudyFigure, StudyTable, draw, write_as

NAME = "tenspiler"
SOURCE = "gcc -O3"
# Their targets in the order of their legends, and ours beside: the package, and where it ran.
TARGETS = {
    "tensorflow": "TensorFlow (theirs on a V100)",
    "torch": "PyTorch (theirs on a V100)",
    "mlx": "MLX (theirs on an Apple M1)",
    "numpy": "NumPy",
    "tpc": "TPC-C on a Gaudi 2",
    "gemmini": "Gemmini",
    "c": "C (ours alone)",
}
# Kernels below which no interval of their mean is told.
_FEWEST = 4
_NO_DEVICE = (
    "there is no such accelerator; what is emitted is checked on a functional model, which has no time"
)
_NO_DATA = "10,000 images of ImageNet and the weights of Vicuna, whose loading is in it, are not here"

Documents = Mapping[str, parts.Document]


def published() -> dict[str, Any]:
    """What their artifact says."""
    return tomllib.loads((Path(__file__).parent / f"{NAME}.toml").read_text(encoding="utf-8"))


def read(folder: Path) -> Documents:
    """The results that are there, by bench."""
    names = ("lifting_coverage", "lifting_speed", "lifting_ablation")
    return {name: parts.read(path) for name in names if (path := folder / f"{name}.json").exists()}


def tables(found: Documents) -> tuple[StudyTable, ...]:
    """The four figures as tables: a line a suite; every cell measured, published, or with its reason."""
    theirs = published()
    return (
        _synthesis(found, theirs),
        _speed(9, "Speed-up of kernels (their figure 9)", found, theirs, "kernel"),
        _speed(10, "Speed-up end to end (their figure 10)", found, theirs, "end_to_end"),
        _ablation(found, theirs),
    )


def _missing(bench: str) -> str:
    return f"not measured yet: python -m benchmarks.lifting.{bench}"


def _synthesis(found: Documents, theirs: Mapping[str, Any]) -> StudyTable:
    rows = []
    measured = found["lifting_coverage"]["rows"] if "lifting_coverage" in found else {}
    for suite, count in theirs["kernels"].items():
        row = measured.get(f"c++/{suite}")
        ours = (
            f"{row['median']:.3f} s (measured, {len(row['seconds'])} kernels)"
            if row
            else _missing("coverage")
        )
        seconds = theirs["synthesis_seconds"][suite]
        rows.append((suite, str(count), ours, f"{seconds:g} s (published)"))
    note = "Median seconds to find and prove a kernel; theirs to find it, on their machine."
    return StudyTable(
        8, "Time of synthesis (their figure 8)", ("suite", "kernels", "ours", "theirs"), tuple(rows), note
    )


def speedups(found: Documents) -> dict[str, dict[str, list[float]]]:
    """Our speed-ups over the compiled source by suite and target, a number a kernel."""
    by_suite: dict[str, dict[str, list[float]]] = {}
    for row in found["lifting_speed"]["rows"].values() if "lifting_speed" in found else ():
        for kernel, times in row["seconds"].items():
            suite = by_suite.setdefault(kernel.partition("/")[0], {})
            for target, seconds in times.items():
                suite.setdefault(target, []).append(times[SOURCE] / seconds)
    return by_suite


def _speed(number: int, title: str, found: Documents, theirs: Mapping[str, Any], kind: str) -> StudyTable:
    ours = speedups(found)
    rows = []
    for suite, count in theirs["kernels"].items():
        cells: list[str] = [suite, str(count)]
        for target in TARGETS:
            cells.append(_our_speed(ours, suite, target, kind, cells))
            if target in theirs[kind]:
                cells.append(f"{theirs[kind][target][suite]:g}x (published)")
        rows.append(tuple(cells))
    heads = ((name, "theirs") if target in theirs[kind] else (name,) for target, name in TARGETS.items())
    note = (
        "Geometric means over gcc -O3 on the sequential source, ours on one thread of a CPU. Theirs of "
        "Gemmini are not repeated: their file sets them beside times of another host."
    )
    return StudyTable(number, title, ("suite", "kernels", *itertools.chain(*heads)), tuple(rows), note)


def _our_speed(
    ours: Mapping[str, Mapping[str, list[float]]], suite: str, target: str, kind: str, told: Sequence[str]
) -> str:
    """A cell of ours; a reason that is `told` in the line already is not said again."""
    reason = _NO_DEVICE if target in ("tpc", "gemmini") else _NO_DATA if kind == "end_to_end" else ""
    if not reason and suite not in ours:
        return _missing("speed")
    if not reason and target not in ours[suite]:
        reason = f"{target} is not installed, or none of them is emitted for it"
    if reason:
        text = f"not possible here, because {reason}"
        return "not possible here, as said" if text in told else text
    values = ours[suite][target]
    (mean, low, high), among = timing.geometric(values), f"measured, {len(values)} kernels"
    if len(values) < _FEWEST:
        return f"{mean:.3g}x ({among})"
    return f"{mean:.3g}x ({low:.3g} to {high:.3g}, {among})"


def _ablation(found: Documents, theirs: Mapping[str, Any]) -> StudyTable:
    rows = []
    total = sum(theirs["kernels"].values())
    measured = [*found["lifting_ablation"]["rows"].values()] if "lifting_ablation" in found else []
    for variant in dict.fromkeys(row["variant"] for row in measured):
        mine = [row for row in measured if row["variant"] == variant]
        solved, seconds = sum(row["solved"] for row in mine), median(row["seconds"] for row in mine)
        rows.append((f"ours, {variant}", f"{solved} of {len(mine)}", f"{seconds:.2f} s (measured)"))
    rows += [] if measured else [("ours", _missing("ablation"), "")]
    without = sum(theirs["without_sketches"].values())
    rows.append(("theirs, with sketches", f"{total} of {total} (published)", "table 8"))
    rows.append(("theirs, without", f"{without} of {total} (published)", "not given where time ran out"))
    note = "Kernels found by search from nothing, which ours falls back on where it cannot derive a program."
    return StudyTable(
        11,
        "Ablation of the search (their figure 11)",
        ("search", "kernels found", "median"),
        tuple(rows),
        note,
    )


def pictures(found: Documents) -> tuple[StudyFigure, ...]:
    """Speed-ups of kernels, ours and theirs, as bars."""
    theirs, ours = published(), speedups(found)
    known = {
        target: {suite: geometric_mean(found_[target]) for suite, found_ in ours.items() if target in found_}
        for target in TARGETS
    }
    sets = {"ours": known, "theirs": theirs["kernel"]}
    made = []
    for title, values in sets.items():
        bars = tuple(
            StudyCurve(
                TARGETS[target], tuple(by_suite), tuple(exact(times, "x") for times in by_suite.values())
            )
            for target, by_suite in values.items()
            if by_suite
        )
        made.append(StudyFigure(9, f"Speed-up of kernels, {title}", "suite", "times gcc -O3", True, bars))
    return tuple(made)


def main() -> int:
    """Writes all of it."""
    parser = ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--results", type=Path, default=ROOT / "benchmarks" / "results")
    parser.add_argument("--output", type=Path, default=ROOT / "build" / NAME)
    options = parser.parse_args()
    found = read(options.results)
    options.output.mkdir(parents=True, exist_ok=True)
    write_as(tables(found), NAME, options.output)
    try:
        for name, picture in zip(("ours", "theirs"), pictures(found)):
            if picture.curves:
                draw(picture, options.output / f"figure-9-{name}.png")
    except MissingExtra as error:
        print(error)
    print(f"{options.output / NAME}.html, .md and .tex")
    return 0


if __name__ == "__main__":
    sys.exit(main())
