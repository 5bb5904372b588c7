"""What is known of each exact rule by itself: proved for all sizes, or sound by its structure."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from typing import Literal

from tensmith.rewrite.rule import EXACT, Step
from tensmith.verify.rules import judge_rule


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
    judgements = list(judge_rule(rule))
    failed = [f"{j.obligation} is {j.verdict}: {j.how}" for j in judgements if j.verdict != "proved"]
    if failed:
        return RuleProof(name, "not proved", len(judgements), failed[0])
    if not judgements:
        verdict: Literal["structural", "not proved"] = "structural" if rule.structural else "not proved"
        return RuleProof(name, verdict, 0, rule.structural or "the rule has no obligations")
    return RuleProof(name, "proved", len(judgements), "; ".join(sorted({j.how for j in judgements})))


def prove_rules(trail: Iterable[Step]) -> list[RuleProof]:
    """The proofs of all exact rules of a trail, by name."""
    return [prove_rule(name) for name in sorted({step.rule for step in trail if step.kind == "exact"})]
