"""How far what a search reached is from the optimum of the space that it saw, by estimate and measured."""

from __future__ import annotations

from collections.abc import Sequence

from tensmith.egraph.explore import Explored
from tensmith.egraph.extract import SAME
from tensmith.search.candidate import Candidate
from tensmith.search.plan import UNTOUCHED, Plan
from tensmith.search.strategy import Quest


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
    """How far a program of some cost is from the optimum: of which space, and under which cost model."""
    seen = f"{found.rules} exact rules, {found.programs} programs"
    if found.size is not None:
        seen += f" in an e-graph of {found.size[0]} nodes and {found.size[1]} classes"
    seen += f", {'ended by ' + found.ended if found.ended else 'complete'}"
    gap = "no bound is known of this space"
    if found.bound > 0:
        share = cost / found.bound - 1
        near = "the optimum" if share <= SAME else f"within {100 * share:.2g}% of the optimum"
        if share < -SAME:  # it is none of the space
            near = "cheaper than all"
        gap = f"{near} of this space under this cost model"
    faster = found.start_cost / cost if cost else 1.0
    gained = f"{faster:.3g}x faster than" if faster >= 1.005 else "as fast as"
    return f"{gap} ({seen}; {model}): estimated {gained} simplified alone"


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
