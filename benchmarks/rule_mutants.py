"""Mutants of every exact rule: refuted with a counterexample, or shown to be equal after all.

    python benchmarks/rule_mutants.py [--rule NAME] [--all]

A mutant (tests/rewrite/exact/rule_mutants.py) that is no program is refused. One that the prover accepts is
run again, at sizes and numbers that it has not seen; if it differs, something wrong was proved, which is
printed and makes the exit status 1. `--all` shows each mutant with its counterexample.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections import Counter
from dataclasses import replace
from pathlib import Path

sys.path[0] = str(Path(__file__).resolve().parents[1] / "tests" / "rewrite" / "exact")

from rule_mutants import mutants  # noqa: E402

from tensmith.rewrite.rule import EXACT  # noqa: E402
from tensmith.verify.instances import run_instances  # noqa: E402
from tensmith.verify.rules import judge  # noqa: E402

AGAIN = 5


def main() -> int:
    """Prints what became of the mutants; 1 if one that is wrong was proved."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rule", help="only this rule's mutants")
    parser.add_argument("--all", action="store_true", help="show every mutant and its counterexample")
    options = parser.parse_args()
    started, counts, wrong = time.perf_counter(), Counter[str](), []
    for name, rule in EXACT.items():
        if options.rule not in (None, name):
            continue
        for mutant in mutants(rule):
            claim = mutant.claim
            if claim is None:
                counts["no program"] += 1
                continue
            found = judge(claim, attempts=20)
            counts[found.verdict] += 1
            if options.all or found.verdict != "refuted":
                print(f"{found.verdict}: {claim.name}: {found.how.splitlines()[0][:160]}", flush=True)
            if found.verdict == "proved":
                again = (run_instances(replace(claim, name=f"{claim.name} {n}")) for n in range(AGAIN))
                wrong += [claim.name] if any(trial.witness for trial in again) else []
    total = sum(counts.values())
    refuted = counts["refuted"] + counts["no program"]
    print(f"{total} mutants in {time.perf_counter() - started:.0f} s: {dict(counts)}")
    share = refuted / max(1, total - counts["proved"])
    print(f"refuted: {refuted} of {total - counts['proved']} that are not equal ({share:.1%})")
    print(f"wrong accepted: {len(wrong)}")
    print("\n".join(wrong))
    return 1 if wrong else 0


if __name__ == "__main__":
    raise SystemExit(main())
