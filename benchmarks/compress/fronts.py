"""Runs `tensmith compress` on the six models and says what each front holds, figure by figure.

    python -m benchmarks.compress.fronts --folder build/fronts --time-budget 10m --models resnet20_cifar10

Each run starts anew in FOLDER/MODEL, and stays there. Accuracy is on held-out data that the search never saw;
figures are those of front.json. The front of one model is drawn beside OUTPUT.
"""

from __future__ import annotations

import json
import sys
import tempfile
import time
from argparse import Namespace
from pathlib import Path
from typing import Any

from benchmarks import DATA, ROOT, parts
from benchmarks.compress.command import compress, within_budget
from benchmarks.compress.stock.cases import CASES, Case
from tensmith.report.figure import save_figure
from tensmith.report.stored import read_report

DRAWN = "resnet20_cifar10"  # the model whose front README shows


def compress_case(case: Case, folder: Path, options: Namespace, *more: str) -> float:
    """One run of the command line, with more options; its seconds.

    Its cache is its own: what was tuned on this machine before counts for nothing.
    """
    words = ["--max-drop", str(case.budget), "--measure", case.measure, "--time-budget", options.time_budget]
    words += ["--engines", options.engines] if options.engines else []
    with tempfile.TemporaryDirectory() as cache:
        began = time.monotonic()
        compress(case.model(DATA), case.spec(DATA), folder, *words, *more, XDG_CACHE_HOME=cache)
        return time.monotonic() - began


def verdicts(case: Case, front: dict[str, Any]) -> dict[str, str]:
    """What was reached by goal within the budget, "NOT MET" before it where it is not."""
    points = [point["metrics"] for point in within_budget(front)]
    found = {}
    for speed, size in case.goals:
        fitting = [m for m in points if m["speedup"]["value"] >= speed and m["size_ratio"]["value"] >= size]
        pool = fitting or points
        key = "speedup" if size == 0 else "size_ratio"
        reached = max(pool, key=lambda m: m[key]["value"])
        text = f"{reached['speedup']['value']:.2f}x and {reached['size_ratio']['value']:.2f}x"
        wanted = " and ".join(
            words for words, goal in ((f">= {speed}x faster", speed), (f">= {size}x smaller", size)) if goal
        )
        found[wanted] = text if fitting else f"NOT MET: {text}"
    return found


def measured(case: Case, options: Namespace) -> parts.Found:
    """One model: goals and seconds, and of its front the figures of every point."""
    folder = options.folder / case.name
    seconds = compress_case(case, folder, options)
    front = json.loads((folder / "front.json").read_text())
    if options.output is not None and case.name == DRAWN:
        save_figure(read_report(folder), options.output.with_suffix(".png"))
    told = ("id", "within_budget", "engine", "metrics")
    points = [{key: point[key] for key in told} for point in front["points"]]
    row = {
        **verdicts(case, front),
        "seconds": seconds,
        "budget": case.budget,
        "measure": case.measure,
        "chosen": json.loads((folder / "report.json").read_text())["context"]["chosen"],
        "front": {**front, "points": points},
    }
    return parts.Found(row=row)


def main() -> int:
    """1 where a run failed."""
    parser = parts.arguments_at_once(__doc__)
    parser.add_argument("--models", nargs="+", choices=CASES, default=list(CASES), metavar="NAME")
    parser.add_argument("--folder", type=Path, default=ROOT / "build" / "fronts", help="of the runs")
    parser.add_argument("--time-budget", default="10m")
    parser.add_argument("--engines", help="as compress takes them, where not its default")
    options = parser.parse_args()
    cases = {name: CASES[name] for name in options.models}
    settings = {"bench": "fronts", "time_budget": options.time_budget, "engines": options.engines}
    return parts.main(
        cases, measured, options.output, settings, options.at_once, pinned=True, options=options
    )


if __name__ == "__main__":
    sys.exit(main())
