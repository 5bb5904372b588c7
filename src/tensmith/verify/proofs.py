"""What is known of each exact rule by itself: proved for all sizes, or sound by its structure."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from typing import Literal

from tensmith.rewrite.rule import EXACT, Step
from tensmith.verify.rules import judged


@dataclass(frozen=True)
class RuleProof:
    """`structural` rules change no formula; `how` says why, or by what their obligations were proved."""

    rule: str
    verdict: Literal["proved", "structural", "not proved"]
    obligations: int
    how: str


@cache
def prove_rule(name: str) -> RuleProof:
    """The proof of a registered rule, made once a process."""
    rule = EXACT[name]
    found = judged(rule, twins=False)
    if found.problems:
        return RuleProof(name, "not proved", len(found.claims), found.problems[0])
    if not found.claims:
        return RuleProof(name, "structural", 0, rule.structural)
    return RuleProof(name, "proved", len(found.claims), "; ".join(sorted({j.how for j in found.claims})))


def prove_rules(trail: Iterable[Step]) -> list[RuleProof]:
    """The proofs of all exact rules of a trail, by name."""
    return [prove_rule(name) for name in sorted({step.rule for step in trail if step.kind == "exact"})]
