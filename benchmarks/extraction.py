"""Acyclic optima of published e-graphs, the time to prove them, and the greedy choice beside it.

    python benchmarks/extraction.py [--seconds 60] [GRAPH.json.xz ...]

Without graphs: those of $TENSMITH_DATA/egraphs/tensat (Tensat's rewritten BERT, ResNet-50 and VGG). One
thread. "optimal" stands only where the bound meets the cost; CPU is what this process spent.
"""

from __future__ import annotations

import argparse
import os
import time
from pathlib import Path

from tensmith.egraph.extract import extract
from tensmith.egraph.graph import read_egraph
from tensmith.egraph.greedy import greedy
from tensmith.egraph.reduce import selection_of


def main() -> None:
    """Prints a row for each graph."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("graphs", nargs="*", type=Path)
    parser.add_argument("--seconds", type=float, default=60.0, help="limit for each graph")
    options = parser.parse_args()
    graphs = options.graphs or sorted(_folder().glob("*.json*"))
    print("| graph | nodes | classes | greedy | cost | bound | gap | | s | CPU s |")
    print("| --- | ---: | ---: | ---: | ---: | ---: | ---: | --- | ---: | ---: |")
    for path in graphs:
        graph = read_egraph(path)
        at_once = graph.cost(greedy(selection_of(graph)))
        started = time.process_time()
        found = extract(graph, options.seconds)
        cpu = time.process_time() - started
        print(
            f"| {path.name.partition('.')[0]} | {graph.nodes} | {len(graph.classes)} | {at_once:.6f} "
            f"| {found.cost:.6f} | {found.bound:.6f} | {100 * found.gap:.3f}% "
            f"| {'optimal' if found.optimal else 'not proved'} | {found.seconds:.1f} | {cpu:.1f} |",
            flush=True,
        )


def _folder() -> Path:
    data = os.environ.get("TENSMITH_DATA")
    if data is None:
        raise SystemExit("give graphs, or set TENSMITH_DATA to the folder that has egraphs/tensat")
    return Path(data) / "egraphs" / "tensat"


if __name__ == "__main__":
    main()
