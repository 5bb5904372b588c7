"""Equal programs first, by estimate and with a bound; then the beam, which begins with the cheapest of them.

An estimate proposes and never claims: the model as it came and its simplified form are measured beside it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from tensmith.egraph.explore import Explored, Reach, enumerate_all, saturate
from tensmith.egraph.programs import Cost
from tensmith.ir import Program
from tensmith.search.candidate import Candidate
from tensmith.search.plan import Plan
from tensmith.search.strategies.beam import beam
from tensmith.search.strategy import Quest, strategy

# Programs that are measured, the cheapest by estimate first.
_MEASURED = 16


@strategy("saturation", needs="highspy")
def saturation(quest: Quest) -> list[Candidate]:
    """An e-graph of all that exact rules make of the model."""
    return _explored("saturation", saturate, quest)


@strategy("exhaustive")
def exhaustive(quest: Quest) -> list[Candidate]:
    """Every program that exact rules make of the model, as far as time and memory go."""
    return _explored("exhaustive search", enumerate_all, quest)


def _explored(
    name: str, explore: Callable[[Program, Cost, Reach], Explored], quest: Quest
) -> list[Candidate]:
    found = explore(quest.space.program, quest.cost, Reach(seconds=quest.seconds))
    quest.tell(f"{name}: {found.sentence(quest.model)}")
    forms = found.cheapest[:_MEASURED]
    tried = beam.run(replace(quest, space=replace(quest.space, equal_forms=tuple(filter(None, forms)))))
    measured = {candidate.plan.key: candidate for candidate in tried if "latency_ms" in candidate.metrics}
    latencies = [measured[key].latency for form in forms if (key := Plan.of(form).key) in measured]
    if found.size is None and not found.ended and len(latencies) == found.programs:
        loss = 100 * (latencies[0] / min(latencies) - 1)
        quest.tell(
            f"all {found.programs} programs of this space were measured: the cheapest by estimate takes "
            f"{loss:.2g}% longer than the fastest"
        )
    return tried
