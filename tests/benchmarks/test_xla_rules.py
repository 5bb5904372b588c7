"""XLA's rules: each has a verdict, and what is said to be proved is."""

from __future__ import annotations

import csv
from pathlib import Path

import pytest
from benchmarks.rules.xla import ENTRIES

from tensmith.rewrite.judge import judge
from tensmith.rewrite.rule import EXACT


@pytest.mark.parametrize("name", list(ENTRIES))
def test_a_rule_of_xla_is_proved_or_says_why_not(name: str) -> None:
    entry = ENTRIES[name]
    assert sum(map(bool, (entry.rule, entry.claims, entry.reason))) == 1
    if entry.rule:
        assert entry.rule in EXACT
    for claim in entry.claims:
        assert [j.how for o in claim.obligations() if (j := judge(o)).verdict != "proved"] == []
        assert [j.how for o in claim.twins() if (j := judge(o)).verdict != "refuted"] == []


def test_all_but_two_are_proved() -> None:
    assert [e.name for e in ENTRIES.values() if e.reason] == ["conv/rule02", "slice/rule04"]


@pytest.mark.data
def test_none_is_missing(data_dir: Path) -> None:
    with (data_dir / "xla_rules.csv").open(encoding="utf-8") as file:
        assert {f"{row['family']}/{row['rule']}" for row in csv.DictReader(file)} == ENTRIES.keys()
