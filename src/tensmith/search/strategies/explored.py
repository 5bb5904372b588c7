"""Equal programs first, by estimate and with a bound; then a search over plans that begins with the cheapest.

An estimate proposes and never claims: the model as it came and its simplified form are measured beside it.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Sequence
from dataclasses import replace

from tensmith.egraph.explore import SAME, Explored, Reach, enumerate_all, saturate
from tensmith.rewrite.rule import Step
from tensmith.search.candidate import Candidate
from tensmith.search.plan import UNTOUCHED, Plan
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
    forms = tuple(filter(None, cheapest[:_MEASURED]))
    return replace(quest, space=replace(quest.space, equal_forms=forms))


def told(name: str, quest: Quest, found: Explored, tried: Sequence[Candidate]) -> list[Candidate]:
    """What was tried; says how far its cheapest exact program is from the optimum, and what was measured."""
    regions = quest.space.regions
    forms = {
        Plan.of(exact).key: exact
        for candidate in tried
        if candidate.plan != UNTOUCHED and "latency_ms" in candidate.metrics
        if (exact := [step for step in candidate.plan.steps if step.kind == "exact"])
    }
    reached = min([found.start_cost, *map(regions.estimate, forms.values())])
    quest.tell(f"{name}: {distance(found, quest.model, reached)}")
    _tell_measured(quest, found, tried)
    return list(tried)


def distance(found: Explored, model: str, cost: float) -> str:
    """How far a program that costs so much is from the optimum: of which space, and under which cost model."""
    seen = f"{found.rules} exact rules, {found.programs} programs"
    if found.size is not None:
        seen += f" in an e-graph of {found.size[0]} nodes and {found.size[1]} classes"
    seen += f", {'ended by ' + found.ended if found.ended else 'complete'}"
    gap = "no bound is known of this space"
    if (share := found.gap_of(cost)) is not None:
        near = "the optimum" if share <= SAME else f"within {100 * share:.2g}% of the optimum"
        gap = f"{near} of this space under this cost model"
    faster = found.start_cost / cost if cost else 1.0
    return f"{gap} ({seen}; {model}): estimated {faster:.3g}x faster than simplified alone"


def _tell_measured(quest: Quest, found: Explored, tried: Sequence[Candidate]) -> None:
    """The measured counterpart, where all programs of the space were measured."""
    measured = {candidate.plan.key: candidate for candidate in tried if "latency_ms" in candidate.metrics}
    latencies = [measured[key].latency for form in found.cheapest if (key := Plan.of(form).key) in measured]
    if found.size is None and not found.ended and len(latencies) == found.programs:
        loss = 100 * (latencies[0] / min(latencies) - 1)
        quest.tell(
            f"all {found.programs} programs of this space were measured: the cheapest by estimate takes "
            f"{loss:.2g}% longer than the fastest"
        )
