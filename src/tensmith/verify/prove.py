"""All exact rules proved again, family by family."""

from __future__ import annotations

import inspect
import json
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from tensmith.files import write_text
from tensmith.rewrite.proved import TABLE, rule_digest, table
from tensmith.rewrite.rule import EXACT, Rule
from tensmith.verify.rules import judged


@dataclass(frozen=True)
class Proved:
    """One rule: cases and twins, what is wrong with it if anything is, and the seconds it took."""

    name: str
    family: str
    structural: bool
    cases: int
    proved: int
    twins: int
    refuted: int
    seconds: float
    problems: tuple[str, ...]


def prove_all() -> Iterator[Proved]:
    """Every exact rule, by family and name."""
    for rule in sorted(EXACT.unproved().values(), key=lambda rule: (family(rule), rule.name)):
        started = time.perf_counter()
        found = judged(rule)
        proved = sum(j.verdict == "proved" for j in found.claims)
        refuted = sum(j.verdict == "refuted" for j in found.twins)
        cases, twins, seconds = len(found.claims), len(found.twins), time.perf_counter() - started
        yield Proved(
            rule.name, family(rule), bool(rule.structural), cases, proved, twins, refuted, seconds,
            found.problems,
        )  # fmt: skip


def family(rule: Rule) -> str:
    """The file that declares a rule."""
    return EXACT.homes[rule.name].stem


def update(found: list[Proved]) -> None:
    """Writes the table that ships: what was proved, by the hash of all that its proof rests on."""
    rows = {
        row.name: {
            "hash": rule_digest(row.name, EXACT.homes[row.name]), "cases": row.cases, "twins": row.twins,
        }
        for row in found if not row.problems
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
