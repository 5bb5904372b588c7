"""Search from scratch on the 69 kernels, with each of its three optimizations left out in turn.

    python benchmarks/lifting_ablation.py [--limit SECONDS] [--kernel NAME] [--json FILE]

A kernel is solved when the term that was found is proved for all inputs and sizes. Seconds are of processor
time; candidates are terms that were evaluated on examples.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
from dataclasses import asdict, dataclass
from pathlib import Path

from tensmith.lifting.loops import Function
from tensmith.lifting.source.c import read_c
from tensmith.lifting.synthesis import Effort, SynthesisSettings, synthesise

KERNELS = Path(__file__).resolve().parents[1] / "tests" / "lifting" / "kernels" / "cpp"
VARIANTS: dict[str, dict[str, bool]] = {
    "full": {},
    "without types": {"types": False},
    "without growth": {"growth": False},
    "without trees": {"trees": False},
    "without trees and growth": {"trees": False, "growth": False},
}


@dataclass(frozen=True)
class Trial:
    """One kernel under one variant."""

    variant: str
    kernel: str
    solved: bool
    seconds: float
    candidates: int
    proofs: int


def trial(variant: str, kernel: str, function: Function, limit: float) -> Trial:
    """Searches once."""
    search = SynthesisSettings(seconds=limit, **VARIANTS[variant])
    effort = Effort.within(limit)
    found = synthesise(function, search, effort)
    return Trial(variant, kernel, found is not None, limit - effort.left, effort.tried, effort.proofs)


def table(trials: list[Trial]) -> str:
    """A row a variant."""
    rows = [
        "| variant | solved | median seconds | candidates tried | proofs |",
        "| --- | --- | --- | --- | --- |",
    ]
    for variant in VARIANTS:
        mine = [trial for trial in trials if trial.variant == variant]
        solved = sum(trial.solved for trial in mine)
        seconds = statistics.median(trial.seconds for trial in mine)
        tried, proofs = sum(trial.candidates for trial in mine), sum(trial.proofs for trial in mine)
        rows.append(f"| {variant} | {solved} of {len(mine)} | {seconds:.2f} | {tried:,} | {proofs} |")
    return "\n".join(rows)


def main() -> int:
    """Runs every kernel under every variant."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--limit", type=float, default=10.0, help="seconds for one kernel")
    parser.add_argument("--kernel", help="only kernels whose suite/name contains this")
    parser.add_argument("--variant", choices=VARIANTS, help="only this variant")
    parser.add_argument("--json", type=Path, help="write all trials to this file")
    given = parser.parse_args()
    found = [(f"{path.stem}/{f.name}", f) for path in sorted(KERNELS.glob("*.cpp")) for f in read_c(path)]
    chosen = [(name, f) for name, f in found if isinstance(f, Function) and (given.kernel or "") in name]
    trials: list[Trial] = []
    for variant in [given.variant] if given.variant else VARIANTS:
        for name, function in chosen:
            trials.append(trial(variant, name, function, given.limit))
            last = trials[-1]
            print(
                f"{variant:24} {name:30} {'solved' if last.solved else '-':7} {last.seconds:6.2f} s "
                f"{last.candidates:9,} candidates, {last.proofs} proofs",
                file=sys.stderr,
            )
    if not given.variant:
        print(table(trials))
    if given.json:
        given.json.write_text(json.dumps([asdict(entry) for entry in trials], indent=1) + "\n")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
