"""Runs `tensmith compress` on the six models and says what each front holds, figure by figure.

    python benchmarks/figures.py --output build/figures --time-budget 10m --models resnet20_cifar10

A finished model is not run again; delete its folder to repeat it. Accuracy is on held-out data that the
search never saw; figures are those of front.json.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table
from stock.cases import CASES, Case

ROOT = Path(__file__).resolve().parent.parent
DATA = Path(os.environ.get("TENSMITH_DATA") or ROOT.parent / "shared" / "data")


def compress(case: Case, options: argparse.Namespace) -> None:
    """One run of the command line, as a user would start it."""
    kind, _, path = case.data.partition(":")
    command = [
        sys.executable, "-m", "tensmith", "compress", str(case.model(options.data)),
        "--data", f"{kind}:{options.data / path}", "--max-drop", str(case.budget),
        "--measure", case.measure, "--time-budget", options.time_budget,
        "--output", str(options.output / case.name),
        *(["--engines", options.engines] if options.engines else []),
    ]  # fmt: skip
    began = time.monotonic()
    subprocess.run(command, check=True)
    (options.output / case.name / "seconds").write_text(f"{time.monotonic() - began:.0f}\n")


def verdicts(case: Case, front: dict[str, Any]) -> list[tuple[str, str, bool]]:
    """(figure, what was reached, whether it is met) for each goal of a model."""
    points = [point["metrics"] for point in front["points"]]
    rows = []
    for speed, size in case.goals:
        fitting = [m for m in points if m["speedup"]["value"] >= speed and m["size_ratio"]["value"] >= size]
        pool = fitting or points
        key = "speedup" if size == 0 else "size_ratio"
        reached = max(pool, key=lambda m: m[key]["value"])
        text = f"{reached['speedup']['value']:.2f}x and {reached['size_ratio']['value']:.2f}x"
        wanted = " and ".join(
            words for words, goal in ((f">= {speed}x faster", speed), (f">= {size}x smaller", size)) if goal
        )
        rows.append((wanted, text, bool(fitting)))
    return rows


def main() -> None:
    """Runs what is missing and prints the table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--models", nargs="+", choices=CASES, default=list(CASES), metavar="NAME")
    parser.add_argument("--output", type=Path, default=ROOT / "build" / "figures")
    parser.add_argument("--data", type=Path, default=DATA)
    parser.add_argument("--time-budget", default="10m")
    parser.add_argument("--engines", help="as compress takes them, where not its default")
    options = parser.parse_args()
    options.output.mkdir(parents=True, exist_ok=True)
    table = Table("model", "figure", "reached", "met", "accuracy of that front", "seconds")
    for name in options.models:
        case, folder = CASES[name], options.output / name
        if not (folder / "front.json").exists():
            compress(case, options)
        front = json.loads((folder / "front.json").read_text())
        worst = min if case.measure != "loss" else max
        before = front["original"]["metrics"]["accuracy"]["value"]
        after = worst(point["metrics"]["accuracy"]["value"] for point in front["points"])
        seconds = (folder / "seconds").read_text().strip() if (folder / "seconds").exists() else "?"
        for wanted, reached, met in verdicts(case, front):
            table.add_row(
                name, wanted, reached, "yes" if met else "NO", f"{before:.2f} to {after:.2f}", seconds
            )
    Console(width=150).print(table)


if __name__ == "__main__":
    main()
