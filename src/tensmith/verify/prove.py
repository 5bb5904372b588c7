"""The proofs of exact rules, made again: of all of them, and of those of a trail."""

from __future__ import annotations

import inspect
import json
import time
from collections.abc import Iterable, Iterator
from functools import cache
from typing import Any

from tensmith.files import write_text
from tensmith.rewrite.judge import RuleProof, judged
from tensmith.rewrite.proved import TABLE, rule_digest, table
from tensmith.rewrite.rule import EXACT, Rule, Step


def prove_all() -> Iterator[dict[str, Any]]:
    """Every exact rule, by family and name: its cases and twins, what is wrong, the seconds that it took."""
    for rule in sorted(EXACT.unproved().values(), key=lambda rule: (family(rule), rule.name)):
        started = time.perf_counter()
        found = judged(rule)
        yield {
            "name": rule.name,
            "family": family(rule),
            "structural": bool(rule.structural),
            "cases": len(found.claims),
            "proved": sum(j.verdict == "proved" for j in found.claims),
            "twins": len(found.twins),
            "refuted": sum(j.verdict == "refuted" for j in found.twins),
            "seconds": time.perf_counter() - started,
            "problems": found.problems,
        }


@cache
def prove_rule(name: str) -> RuleProof:
    """The proof of a registered rule, without its twins, made once a process."""
    return judged(EXACT[name], twins=False)


def prove_rules(trail: Iterable[Step]) -> list[RuleProof]:
    """The proofs of all exact rules of a trail, by name."""
    return [prove_rule(name) for name in sorted({step.rule for step in trail if step.kind == "exact"})]


def family(rule: Rule) -> str:
    """The file that declares a rule."""
    return EXACT.homes[rule.name].stem


def update(found: list[dict[str, Any]]) -> None:
    """Writes the table that ships: what was proved, by the hash of all that its proof rests on."""
    rows = {
        (name := row["name"]): {
            "hash": rule_digest(name, EXACT.homes[name]), "cases": row["cases"], "twins": row["twins"],
        }
        for row in found if not row["problems"]
    }  # fmt: skip
    lines = ",\n".join(f"{json.dumps(name)}: {json.dumps(rows[name])}" for name in sorted(rows))
    write_text(TABLE, f"{{\n{lines}\n}}\n")


def listed() -> list[dict[str, Any]]:
    """Every exact rule with what it says, when, and why it is known to hold."""
    return [_described(rule) for rule in EXACT.values()]


def _described(rule: Rule) -> dict[str, Any]:
    known = table().get(rule.name, {})
    says = (inspect.getdoc(rule) or "").partition("\n\n")[0].replace("\n", " ")
    evidence: dict[str, Any] = {"kind": "structural", "because": rule.structural}
    if not rule.structural:
        cases = known.get("cases") or len(list(rule.obligations()))
        evidence = {"kind": "proved", "cases": cases, "twins": known.get("twins") or len(list(rule.twins()))}
    return {
        "name": rule.name,
        "family": family(rule),
        "phase": rule.phase,
        "statement": getattr(rule, "statement", "") or says,
        "says": says,
        "conditions": getattr(rule, "conditions", []),
        "evidence": evidence,
        "found": rule.found,
    }
