"""Search from scratch on the 69 kernels, with each of its three optimizations left out in turn.

    python -m benchmarks.lifting.ablation [--limit SECONDS] [--variant NAME]

A kernel is solved when the term that was found is proved for all inputs and sizes. Seconds are of processor
time; candidates are terms that were evaluated on examples.
"""

from __future__ import annotations

import statistics
import sys
from functools import partial
from typing import Any

from benchmarks import ROOT, parts
from benchmarks.lifting.scratch.search import SynthesisSettings, synthesise
from tensmith.lifting.loops import Function
from tensmith.lifting.source.c.read import read_c
from tensmith.lifting.synthesis.enumerate import Effort

KERNELS = ROOT / "tests" / "lifting" / "kernels" / "cpp"
VARIANTS: dict[str, dict[str, bool]] = {
    "full": {},
    "without types": {"types": False},
    "without growth": {"growth": False},
    "without trees": {"trees": False},
    "without trees and growth": {"trees": False, "growth": False},
}


def trial(case: tuple[str, Function], limit: float) -> parts.Found:
    """Searches once, for one kernel under one variant."""
    variant, function = case
    effort = Effort.within(limit)
    found = synthesise(function, SynthesisSettings(seconds=limit, **VARIANTS[variant]), effort)
    row = {"variant": variant, "solved": found is not None, "seconds": limit - effort.left}
    return parts.Found(row=row | {"candidates": effort.tried, "proofs": effort.proofs})


def table(rows: list[dict[str, Any]]) -> str:
    """A line a variant."""
    lines = [
        "| variant | solved | median seconds | candidates tried | proofs |",
        "| --- | --- | --- | --- | --- |",
    ]
    for variant in dict.fromkeys(row["variant"] for row in rows):
        mine = [row for row in rows if row["variant"] == variant]
        solved, tried, proofs = (sum(row[key] for row in mine) for key in ("solved", "candidates", "proofs"))
        seconds = statistics.median(row["seconds"] for row in mine)
        lines.append(f"| {variant} | {solved} of {len(mine)} | {seconds:.2f} | {tried:,} | {proofs} |")
    return "\n".join(lines)


def main() -> int:
    """Runs every kernel under every variant."""
    parser = parts.arguments(__doc__)
    parser.add_argument("--limit", type=float, default=10.0, help="seconds for one kernel")
    parser.add_argument("--variant", choices=VARIANTS, help="only this variant")
    options = parser.parse_args()
    found = {f"{path.stem}/{f.name}": f for path in sorted(KERNELS.glob("*.cpp")) for f in read_c(path)}
    cases = {
        f"{variant} {name}": (variant, function)
        for variant in ([options.variant] if options.variant else VARIANTS)
        for name, function in found.items()
        if isinstance(function, Function)
    }
    settings = {"bench": "lifting_ablation", "limit": options.limit}
    document = parts.run(cases, partial(trial, limit=options.limit), options.output, settings)
    print(table([*document["rows"].values()]))
    return parts.ended(document)


if __name__ == "__main__":
    sys.exit(main())
