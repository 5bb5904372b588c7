"""Every exact rule on many programs with numbers: none may compute something else after it.

    python benchmarks/rules_on_programs.py [--count 100] [--seed 0]

Programs are the left sides of every claim of every rule at `count` assignments of sizes (0, 1 and odd ones
among them) and the samples of tests/rewrite/exact/rule_instances.py; each is run before and after the rule
by the interpreter in 64 bits, and one in ten by ONNX Runtime.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests" / "rewrite" / "exact"))

from rule_instances import applied, difference, instances, runtime_difference

from tensmith.rewrite.rule import EXACT


def main() -> None:
    """Prints a line a rule, and what differs."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--count", type=int, default=100)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    total, wrong = 0, 0
    for name, rule in EXACT.items():
        used = 0
        for number, instance in enumerate(instances(rule, options.count, options.seed)):
            after = applied(rule, instance)
            if after is None:
                continue
            used += 1
            reason = difference(instance.program, after, instance.inputs)
            if not reason and number % 10 == 0:
                reason = runtime_difference(instance.program, after, instance.inputs)
            if reason:
                wrong += 1
                print(f"{name}: {reason}: {instance.origin}", flush=True)
        total += used
        print(f"{name:32} {used:6} instances", flush=True)
    print(f"{total} instances, {wrong} wrong")
    sys.exit(1 if wrong else 0)


if __name__ == "__main__":
    main()
