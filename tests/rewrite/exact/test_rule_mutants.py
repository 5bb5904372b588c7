"""Slips of the pen in right sides are refuted, or equal after all; a sample of benchmarks/rules."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import pytest
from rule_mutants import mutants, sample

from tensmith.rewrite.judge import judge
from tensmith.rewrite.rule import EXACT
from tensmith.rewrite.trials import run_instances

# Of five rules each is one here.
_SOME = list(EXACT)[2::5]


def test_a_rule_has_mutants_of_many_kinds() -> None:
    changes = " ".join(mutant.change for name in _SOME for mutant in mutants(EXACT[name]))
    for kind in ("add to sub", "alone", "swapped", "off by one", "no neg", "any w", "+ 1"):
        assert kind in changes


@pytest.mark.parametrize("part", range(4))
def test_mutants_are_refuted_and_none_that_is_wrong_is_proved(part: int) -> None:
    verdicts = Counter[str]()
    for name in _SOME[part::4]:
        for mutant in sample(EXACT[name], 3, seed=part):
            if mutant.claim is None:
                verdicts["refuted"] += 1
                continue
            found = judge(mutant.claim, attempts=20)
            verdicts[found.verdict] += 1
            assert (
                found.verdict != "refuted" or "differs at" in found.how or "differs as programs" in found.how
            )
            if found.verdict == "proved":
                assert not run_instances(replace(mutant.claim, name=f"{mutant.claim.name} again")).witness
    assert verdicts["refuted"] >= 0.95 * (verdicts["refuted"] + verdicts["open"])
