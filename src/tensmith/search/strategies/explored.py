"""Equal programs first, by estimate and with a bound; then a search over plans that begins with the cheapest.

An estimate proposes and never claims: the model as it came and its simplified form are measured beside it.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Sequence
from dataclasses import replace

from tensmith.egraph.explore import Explored, Reach, enumerate_all, saturate
from tensmith.rewrite.rule import Step
from tensmith.search.strategy import Quest

# Programs that are measured, the cheapest by estimate first.
_MEASURED = 16
SOLVER = "highspy"


def saturated(quest: Quest, share: float = 1.0) -> Explored:
    """An e-graph of what exact rules make of the model, within a share of the seconds for estimates.

    Without a solver every program by itself, which has a bound where all were seen.
    """
    explore = saturate if importlib.util.find_spec(SOLVER) else enumerate_all
    return explore(quest.space.program, quest.space.cost, Reach(seconds=share * quest.seconds))


def beginning_with(quest: Quest, cheapest: Sequence[tuple[Step, ...]]) -> Quest:
    """The quest that measures equal programs from the start, the cheapest by estimate."""
    found = [[step.to_json() for step in form] for form in cheapest[:_MEASURED] if form]
    known = quest.settled("equal forms", found)  # how far the walk came was a matter of time
    forms = tuple(tuple(map(Step.from_json, form)) for form in known)
    return replace(quest, space=replace(quest.space, equal_forms=forms))
