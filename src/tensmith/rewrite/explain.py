"""Why rules that nearly fire do not."""

from __future__ import annotations

from dataclasses import dataclass

from tensmith.ir import Program
from tensmith.rewrite.rule import EXACT


@dataclass(frozen=True)
class NearMiss:
    """A node at which a rule would apply but for one reason."""

    site: str
    rule: str
    reason: str


def near_misses(program: Program) -> list[NearMiss]:
    """Every near miss in a program, in the order of its nodes."""
    rules = list(EXACT.values())
    return [
        NearMiss(node.output, rule.name, reason)
        for node in program.nodes
        for rule in rules
        if (reason := rule.why_not(program, node)) is not None
    ]
