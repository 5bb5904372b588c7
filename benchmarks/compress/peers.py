"""tensmith's fronts beside the stock tools: `python -m benchmarks.compress.peers --help`.

For each model, every file runs on its own engine, one thread, batch 1, in processes that take turns, against
ONNX Runtime fp32 on the delivered file. Peers get the same calibration samples as tensmith; accuracy is on
samples that nobody saw. Their files are kept in a folder, so that a second run only measures; what other
versions of the tools made, or other code, is not taken.
"""

from __future__ import annotations

import json
import sys
from argparse import Namespace
from pathlib import Path

from rich.console import Console
from rich.table import Table

from benchmarks import DATA, ROOT, made_by, parts, versions
from benchmarks.compress.stock.cases import CASES, Case
from benchmarks.compress.stock.entries import TENSMITH, front, made, originals
from benchmarks.compress.stock.measure import measure
from benchmarks.compress.stock.table import COLUMNS, Row, cells, document, verdict
from tensmith.files import sha256_bytes, sha256_file

# What says how peers' files are made, beside the tools.
_MAKING = (
    "benchmarks/compress/stock/make.py",
    "benchmarks/compress/stock/cases.py",
    "src/tensmith/data/split.py",
)
QUICK_SAMPLES = 1000


def compared(case: Case, options: Namespace, console: Console) -> list[Row]:
    """Makes what is missing, measures everything, returns a row a file."""
    folder, model = options.folder / _makers() / case.name, case.model(DATA)
    entries = originals(model)
    console.log(f"{case.name}: making the peers' files (kept in {folder})")
    entries += made(case, DATA, folder, options.limit)
    if options.fronts and (options.fronts / case.name / "front.json").exists():
        entries += front(options.fronts / case.name)
    views = case.views(DATA)
    view = views.held_out.take(QUICK_SAMPLES) if options.quick else views.held_out
    example, _ = next(case.singles(views.search, model))
    cache = options.folder / "answers" / made_by("data", "engine", "evaluate")
    return measure(case, entries, view, example, cache, options.seconds, console.log)


def _makers() -> str:
    """A hash of what makes the peers' files: tools, and how they are asked."""
    sources = [sha256_file(ROOT / name) for name in _MAKING]
    return sha256_bytes(json.dumps([versions(), sources]).encode())[:16]


def show(console: Console, title: str, rows: list[Row], lines: list[str]) -> None:
    """Prints one model's table."""
    table = Table(*COLUMNS, title=title, title_justify="left")
    for row in rows:
        table.add_row(*cells(row, rows[0].written), style="bold" if row.peer == TENSMITH else "")
    console.print(table, *lines, "", sep="\n")


def describe(case: Case, rows: list[Row]) -> str:
    """The heading of one model's table."""
    latency, unit = rows[0].latency, "%" if case.measure == "loss" else "points"
    assert latency is not None
    return f"{case.name}: {latency.value:.2f} ms, budget {case.budget:g} {unit} of {case.measure}"


def measured(case: Case, options: Namespace) -> parts.Found:
    """One model."""
    console = Console(width=None if Console().is_terminal else 180)
    rows = compared(case, options, console)
    show(console, describe(case, rows), rows, verdict(rows, TENSMITH, case))
    return parts.Found(row=document(rows))


def main() -> int:
    """1 where a model could not be measured."""
    parser = parts.arguments_at_once(__doc__)
    parser.add_argument("--models", nargs="+", choices=CASES, default=list(CASES), metavar="NAME")
    parser.add_argument("--fronts", type=Path, help="folder of finished runs: FRONTS/MODEL/front.json")
    parser.add_argument("--folder", type=Path, default=ROOT / "build" / "peers", help="of the peers' files")
    parser.add_argument("--seconds", type=float, default=60.0, help="timing a model")
    parser.add_argument("--limit", type=float, default=1200.0, help="seconds a peer may take for a file")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--quick", action="store_true", help=f"{QUICK_SAMPLES} test samples")
    options = parser.parse_args()
    given = {name: getattr(options, name) for name in ("seconds", "limit", "seed", "quick")}
    settings = {"bench": "peers", **given, "versions": versions()}
    cases = {name: CASES[name] for name in options.models}
    return parts.main(
        cases, measured, options.output, settings, options.at_once, pinned=True, options=options
    )


if __name__ == "__main__":
    sys.exit(main())
