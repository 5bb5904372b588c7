"""Acyclic optima of published e-graphs, the time to prove them, and the greedy choice beside it.

    python -m benchmarks.search.extraction [--seconds 60] [--output FILE] [GRAPH.json.xz ...]

Without graphs: those of $TENSMITH_DATA/egraphs/tensat (Tensat's rewritten BERT, ResNet-50 and VGG). One
thread. "optimal" stands only where the bound meets the cost; CPU is what this process spent.
"""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path

from benchmarks import parts
from benchmarks.search.extraction_gym import read_egraph
from tensmith.egraph.extract import extract
from tensmith.egraph.greedy import greedy
from tensmith.egraph.reduce import selection_of


def measured(path: Path, seconds: float) -> parts.Found:
    """What is found of a graph, with its bound."""
    graph = read_egraph(path)
    at_once = graph.cost(greedy(selection_of(graph)))
    started = time.process_time()
    found = extract(graph, seconds)
    row = {
        "nodes": graph.nodes, "classes": len(graph.classes), "greedy": at_once, "cost": found.cost,
        "bound": found.bound, "gap": found.gap, "optimal": found.optimal, "seconds": found.seconds,
        "cpu seconds": time.process_time() - started,
    }  # fmt: skip
    wrong = () if found.optimal else (f"{path.name}: not proved in {seconds:g} s, gap {found.gap:.3%}",)
    return parts.Found({"optimal": int(found.optimal)}, wrong, row)


def main() -> int:
    """A row for each graph; 1 where one is not proved."""
    parser = parts.arguments(__doc__)
    parser.add_argument("graphs", nargs="*", type=Path)
    parser.add_argument("--seconds", type=float, default=60.0, help="limit for each graph")
    options = parser.parse_args()
    folder = Path(os.environ.get("TENSMITH_DATA", "../shared/data")) / "egraphs" / "tensat"
    graphs = {path.name.partition(".")[0]: path for path in options.graphs or sorted(folder.glob("*.json*"))}
    if not graphs:
        sys.exit(f"{folder} has no graphs; give some, or set TENSMITH_DATA")
    settings = {"bench": "extraction", "seconds": options.seconds}
    return parts.main(graphs, measured, options.output, settings, seconds=options.seconds)


if __name__ == "__main__":
    sys.exit(main())
