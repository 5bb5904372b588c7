"""Networks compressed with training: `tensmith compress --recover`, an hour each.

    python -m benchmarks.compress.recovered [--models resnet20_cifar10] [--time-budget 8m] [--recover 48m]

A row has the original's accuracy (a language model: its loss), what was asked for, and the points within the
budget and beyond it, on held-out samples; one that was trained has the lossy step "recover". Runs stay in
FOLDER/MODEL.
"""

from __future__ import annotations

import sys
from argparse import Namespace
from pathlib import Path

from benchmarks import DATA, ROOT, parts
from benchmarks.compress.asked import Asked, compressed_as_asked
from benchmarks.compress.stock.cases import CASES

ASKED = {
    "resnet20_cifar10": Asked(budget=0.5, faster=9, smaller=20),
    "resnet56_cifar10": Asked(budget=0.5, faster=10, smaller=20),
    "resnet8_wide_cifar10": Asked(budget=0.5, faster=6, smaller=20),
    "stories260k": Asked(budget=1.0, faster=1.5, smaller=7),
}


# Of a text in one part half is to be trained on.
SAMPLES = {"stories260k": ("--search-samples", "500", "--held-out-samples", "660")}


def measured(name: str, options: Namespace) -> parts.Found:
    """What its front holds."""
    case, asked, out = CASES[name], ASKED[name], options.folder / name
    words = (options.time_budget, asked, "--measure", case.measure, "--recover", options.recover)
    words += SAMPLES.get(name, ())
    return compressed_as_asked(case.model(DATA), case.spec(DATA), out, *words)


def main() -> int:
    """1 where a run failed, or no point is as asked."""
    parser = parts.arguments_at_once(__doc__)
    parser.add_argument("--models", nargs="+", choices=ASKED, default=list(ASKED), metavar="NAME")
    parser.add_argument("--folder", type=Path, default=ROOT / "build" / "recovered", help="of the runs")
    parser.add_argument("--time-budget", default="8m")
    parser.add_argument("--recover", default="48m")
    options = parser.parse_args()
    settings = {"bench": "recovered", "time_budget": options.time_budget, "recover": options.recover}
    models, at_once = options.models, options.at_once
    return parts.main(models, measured, options.output, settings, at_once, pinned=True, options=options)


if __name__ == "__main__":
    sys.exit(main())
