"""Mutants of every exact rule: refuted with a counterexample, or shown to be equal after all.

    python -m benchmarks.rules.mutants [--only NAME,...] [--all]

A mutant (tests/rewrite/exact/rule_mutants.py) that is no program is refused. One that the prover accepts is
run again, at sizes and numbers that it has not seen; if it differs, something wrong was proved, which is
printed and makes the exit status 1. `--all` shows each mutant with its counterexample.
"""

from __future__ import annotations

import sys
from collections import Counter
from dataclasses import replace
from functools import partial

from rule_mutants import mutants

from benchmarks import parts
from tensmith.rewrite.judge import judge
from tensmith.rewrite.rule import EXACT, Rule
from tensmith.rewrite.trials import run_instances

AGAIN = 5


def judged(rule: Rule, tell: bool) -> parts.Found:
    """What became of a rule's mutants."""
    counts: Counter[str] = Counter()
    wrong: list[str] = []
    for mutant in mutants(rule):
        claim = mutant.claim
        if claim is None:
            counts["no program"] += 1
            continue
        found = judge(claim, attempts=20)
        counts[found.verdict] += 1
        if tell or found.verdict != "refuted":
            print(f"{found.verdict}: {claim.name}: {found.how.splitlines()[0][:160]}", flush=True)
        if found.verdict == "proved":
            again = (run_instances(replace(claim, name=f"{claim.name} {n}")) for n in range(AGAIN))
            wrong += [claim.name] if any(trial.witness for trial in again) else []
    return parts.Found(counts, tuple(wrong))


def main() -> int:
    """1 if a mutant that is wrong was proved."""
    parser = parts.arguments(__doc__)
    parser.add_argument("--only", type=parts.names, default=[*EXACT], help="rules, as A,B")
    parser.add_argument("--all", action="store_true", help="show every mutant and its counterexample")
    options = parser.parse_args()
    rules = {name: EXACT[name] for name in options.only}
    document = parts.run(rules, partial(judged, tell=options.all), options.output, {"bench": "rule_mutants"})
    counts = document["counts"]
    unequal = sum(counts.values()) - counts.get("proved", 0)
    refuted = counts.get("refuted", 0) + counts.get("no program", 0)
    print(f"refuted: {refuted} of {unequal} that are not equal ({refuted / max(1, unequal):.1%})")
    return parts.ended(document)


if __name__ == "__main__":
    sys.exit(main())
