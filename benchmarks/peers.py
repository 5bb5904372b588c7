"""tensmith's fronts beside the stock tools: `python benchmarks/peers.py --help`.

For each model, every file runs on its own engine, one thread, batch 1, in processes that take turns, against
ONNX Runtime fp32 on the delivered file. Peers get the same calibration samples as tensmith; accuracy is on
samples that nobody saw. Their files are kept in the output folder, so that a second run only measures.
"""

from __future__ import annotations

import argparse
import importlib.metadata
import json
import os
from pathlib import Path

from rich.console import Console
from rich.table import Table
from stock.cases import CASES, Case
from stock.entries import TENSMITH, front, made, originals
from stock.measure import measure
from stock.table import COLUMNS, Row, cells, document, markdown, verdict

from tensmith.files import write_text
from tensmith.hardware import detect_cpu

ROOT = Path(__file__).resolve().parent.parent
DATA = Path(os.environ.get("TENSMITH_DATA") or ROOT.parent / "shared" / "data")
TOOLS = ("onnxruntime", "openvino", "nncf")
QUICK_SECONDS, QUICK_SAMPLES = 6.0, 1000


def compared(case: Case, options: argparse.Namespace, console: Console) -> list[Row]:
    """Makes what is missing, measures everything, returns a row a file."""
    folder, model = options.output / case.name, case.model(options.data)
    entries = originals(model)
    console.log(f"{case.name}: making the peers' files (kept in {folder})")
    entries += made(case, options.data, folder, options.limit)
    if options.fronts and (options.fronts / case.name / "front.json").exists():
        entries += front(options.fronts / case.name)
    views = case.views(options.data)
    view = views.held_out.take(QUICK_SAMPLES) if options.quick else views.held_out
    example, _ = next(case.singles(views.search, model))
    cache = options.output / "answers"
    return measure(case, entries, view, example, cache, options.seconds, options.seed, console.log)


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


def parse() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(
        description=(__doc__ or "").partition("\n")[0],
        epilog="example: python benchmarks/peers.py --fronts runs --output peers --models resnet20_cifar10",
    )
    parser.add_argument("--models", nargs="+", choices=CASES, default=list(CASES), metavar="NAME")
    parser.add_argument("--fronts", type=Path, help="folder of finished runs: FRONTS/MODEL/front.json")
    parser.add_argument("--output", type=Path, default=ROOT / "build" / "peers", help="files, table, JSON")
    parser.add_argument("--data", type=Path, default=DATA, help="evaluation data; default $TENSMITH_DATA")
    parser.add_argument("--seconds", type=float, default=None, help="timing a model, default 60")
    parser.add_argument("--limit", type=float, default=1200.0, help="seconds a peer may take for a file")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument(
        "--quick", action="store_true", help=f"{QUICK_SAMPLES} test samples, {QUICK_SECONDS:g} s"
    )
    options = parser.parse_args()
    options.seconds = options.seconds or (QUICK_SECONDS if options.quick else 60.0)
    return options


def main() -> None:
    """Measures, prints, and rewrites peers.md and peers.json after every model."""
    options = parse()
    console = Console(width=None if Console().is_terminal else 180)
    versions = ", ".join(f"{tool} {importlib.metadata.version(tool)}" for tool in TOOLS)
    sections, results = (
        [f"# tensmith beside its peers\n\n{detect_cpu().model}; {versions}; 1 thread, batch 1\n"],
        {},
    )
    for name in options.models:
        case = CASES[name]
        rows = compared(case, options, console)
        title, lines = describe(case, rows), verdict(rows, TENSMITH, case)
        show(console, title, rows, lines)
        sections.append(markdown(title, rows, lines))
        results[name] = document(rows)
        write_text(options.output / "peers.md", "\n".join(sections))
        write_text(
            options.output / "peers.json", json.dumps({"versions": versions, "models": results}, indent=1)
        )


if __name__ == "__main__":
    main()
