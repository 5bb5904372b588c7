"""Every exact rule on many programs with numbers: none may compute something else after it.

    python -m benchmarks.rules.on_programs [--count 100] [--seed 0]

Programs are the left sides of every claim of every rule at `count` assignments of sizes (0, 1 and odd ones
among them) and the samples of tests/rewrite/exact/rule_instances.py; each is run before and after the rule
by the interpreter in 64 bits, and one in ten by ONNX Runtime.
"""

from __future__ import annotations

import sys

from rule_instances import applied, difference, instances, runtime_difference

from benchmarks import parts
from tensmith.rewrite.rule import EXACT, Rule


def compared(rule: Rule, count: int, seed: int) -> parts.Found:
    """Instances of a rule, and what differs after it."""
    used, wrong = 0, list[str]()
    for number, instance in enumerate(instances(rule, count, seed)):
        after = applied(rule, instance)
        if after is None:
            continue
        used += 1
        reason = difference(instance.program, after, instance.inputs)
        if not reason and number % 10 == 0:
            reason = runtime_difference(instance.program, after, instance.inputs)
        wrong += [f"{rule.name}: {reason}: {instance.origin}"] if reason else []
    wrong += [] if used else [f"{rule.name}: it applies to none of its programs"]
    return parts.Found({"instances": used}, tuple(wrong), {"instances": used})


def main() -> int:
    """1 where something differs, or a rule applies to nothing."""
    parser = parts.arguments(__doc__)
    parser.add_argument("--count", type=int, default=100)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    settings = {"bench": "rules_on_programs", "count": options.count, "seed": options.seed}
    return parts.main(dict(EXACT), compared, options.output, settings, count=options.count, seed=options.seed)


if __name__ == "__main__":
    sys.exit(main())
