"""The searches by name at equal time budgets: what area each front covers, in size and latency.

    python -m benchmarks.compress.searches --models resnet20_cifar10 --time-budget 10m --output searches.json

A part is one run of `tensmith compress`: MODEL/SEARCH/SEED, alone on the machine. Its figure is the
hypervolume of the held-out front below the original's size and the baseline's latency, 1 is all. The table
has the mean over the seeds with its 95% bootstrap interval.
"""

from __future__ import annotations

import json
import sys
from argparse import Namespace
from collections.abc import Sequence
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks import ROOT, parts
from benchmarks.compress.fronts import compress
from benchmarks.compress.stock.cases import CASES
from tensmith.search.front import hypervolume
from tensmith.search.strategy import STRATEGIES

Part = tuple[str, str, int]


def area(front: dict[str, Any]) -> float:
    """Hypervolume of a front.json in size and latency, each against the original."""
    metrics = [point["metrics"] for point in front["points"]]
    return hypervolume([(1 / m["size_ratio"]["value"], 1 / m["speedup"]["value"]) for m in metrics], (1, 1))


def measured(part: Part, options: Namespace) -> parts.Found:
    """One run: its area, how many points its front has and how many plans were tried."""
    model, search, seed = part
    folder = options.folder / model / search / str(seed)
    seconds = compress(CASES[model], folder, options, "--search", search, "--seed", str(seed))
    front = json.loads((folder / "front.json").read_text())
    tried = json.loads((folder / "report.json").read_text())["tried"]
    row = {"area": area(front), "points": len(front["points"]), "tried": len(tried), "seconds": seconds}
    return parts.Found(row=row)


def mean_with_interval(values: Sequence[float]) -> tuple[float, float, float]:
    """The mean and its 95% bootstrap interval."""
    drawn = np.random.default_rng(0).choice(values, (10_000, len(values))).mean(axis=1)
    low, high = np.percentile(drawn, (2.5, 97.5))
    return float(np.mean(values)), float(low), float(high)


def table(rows: dict[str, Any], models: Sequence[str], searches: Sequence[str]) -> list[str]:
    """A line for each model and search, as far as it was measured."""
    lines = []
    for model, search in product(models, searches):
        found = [row["area"] for name, row in rows.items() if name.startswith(f"{model}/{search}/")]
        if found:
            mean, low, high = mean_with_interval(found)
            lines.append(f"{model:24} {search:12} {mean:.4f} ({low:.4f} to {high:.4f}, {len(found)} seeds)")
    return lines


def main() -> int:
    """1 where a run failed."""
    parser = parts.arguments(__doc__)
    parser.add_argument("--models", nargs="+", choices=CASES, default=list(CASES), metavar="NAME")
    parser.add_argument("--searches", nargs="+", choices=tuple(STRATEGIES), default=list(STRATEGIES))
    parser.add_argument("--seeds", type=int, default=5, help="how many")
    parser.add_argument("--folder", type=Path, default=ROOT / "build" / "searches", help="of the runs")
    parser.add_argument("--time-budget", default="10m")
    parser.add_argument("--engines", help="as compress takes them, where not its default")
    options = parser.parse_args()
    asked = product(options.models, range(options.seeds), options.searches)
    cases: dict[str, Part] = {
        f"{model}/{search}/{seed}": (model, search, seed) for model, seed, search in asked
    }
    settings = {"bench": "searches", "time_budget": options.time_budget, "engines": options.engines}
    document = parts.run(cases, partial(measured, options=options), options.output, settings)
    print("\n".join(table(document["rows"], options.models, options.searches)))
    return parts.ended(document)


if __name__ == "__main__":
    sys.exit(main())
