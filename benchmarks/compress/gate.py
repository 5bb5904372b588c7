"""How many points that a search called accepted are lost at the held-out gate: twenty runs of six models.

    python -m benchmarks.compress.gate [--runs 20] [--time-budget 5m] [--folder build/gate]

stood    lossy points that surely held the budget by the search, and were judged on held-out data
lost     those of them that broke it there
unsure   lossy points that might hold it, and were judged there; held: those of them that did
tried    candidates; samples: that half of those judged took at most
More than ASKED of all points lost is a failure. Runs stay in FOLDER/MODEL-SEED.
"""

from __future__ import annotations

import sys
from argparse import Namespace
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any

from benchmarks import ROOT, parts
from benchmarks.compress.fronts import compress_case
from benchmarks.compress.stock.cases import CASES
from tensmith.report.stored import read_report
from tensmith.search.candidate import Candidate
from tensmith.search.checkpoint import Checkpoint

ASKED = 0.05


def through_the_gate(tried: list[Candidate], ended: Mapping[str, tuple[str, str]]) -> dict[str, int]:
    """What became of lossy candidates that held the budget; ended: last status and reason by id."""
    counts = dict.fromkeys(("stood", "lost", "unsure", "held"), 0)
    for candidate in tried:
        status, reason = ended.get(candidate.id, ("", ""))
        broke = reason.endswith("on held-out data")
        if candidate.plan.is_exact or not candidate.holds or not (broke or status == "front"):
            continue
        stood, result = ("stood", broke) if candidate.status == "accepted" else ("unsure", not broke)
        counts[stood] += 1
        counts["lost" if stood == "stood" else "held"] += result
    return counts


def kept(stood: int, lost: int, runs: int) -> bool:
    """Whether no more was lost than is promised, and something stood, as it need not in one run."""
    return lost <= ASKED * stood and (stood > 0 or runs == 1)


def measured(part: tuple[str, int], options: Namespace) -> parts.Found:
    """One run: what stood before the gate, and what came of it."""
    name, seed = part
    folder = options.folder / f"{name}-{seed}"
    seconds = compress_case(CASES[name], folder, options, "--seed", str(seed))
    checkpoint = Checkpoint(folder / "run.sqlite")
    tried = list(checkpoint.candidates())
    checkpoint.close()
    report: Any = read_report(folder)
    ended = {each["id"]: (each["status"], each["reason"]) for each in report["tried"]}
    counts = through_the_gate(tried, ended)
    samples = median(each.samples for each in tried if each.samples)
    return parts.Found(counts, row={**counts, "tried": len(tried), "samples": samples, "seconds": seconds})


def main() -> int:
    """1 where a run failed, or what is promised does not show."""
    parser = parts.arguments_at_once(__doc__)
    parser.add_argument("--runs", type=int, default=20)
    parser.add_argument("--models", nargs="+", choices=CASES, default=list(CASES), metavar="NAME")
    parser.add_argument("--folder", type=Path, default=ROOT / "build" / "gate", help="of the runs")
    parser.add_argument("--time-budget", default="5m", help="a short one leaves few held-out samples")
    parser.add_argument("--engines", help="as compress takes them, where not its default")
    options = parser.parse_args()
    runs = [(options.models[n % len(options.models)], n // len(options.models)) for n in range(options.runs)]
    settings = {"bench": "gate", "time_budget": options.time_budget, "engines": options.engines}
    work = partial(measured, options=options)
    every = {f"{name}-{seed}": (name, seed) for name, seed in runs}
    document = parts.run(every, work, options.output, settings, options.at_once, pinned=True)
    stood, lost = (document["counts"].get(name, 0) for name in ("stood", "lost"))
    status = parts.ended(document)
    print(f"{lost} of {stood} points were lost at the gate")
    return status or int(not kept(stood, lost, options.runs))


if __name__ == "__main__":
    sys.exit(main())
