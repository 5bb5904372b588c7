"""Where nobody says how: all equal programs if they are few, the beam, and evolution where time is left.

The beam knows where to look, and is ahead as long as few plans can be measured; where many can, evolution
passes it, from its own seeds: begun with what the beam found, it stays there.
"""

from __future__ import annotations

from dataclasses import replace

from tensmith.egraph.explore import Reach, enumerate_all
from tensmith.search.beam import beam_search
from tensmith.search.candidate import Candidate
from tensmith.search.genetic import genetic_search
from tensmith.search.plan import Plan
from tensmith.search.strategies.distance import told
from tensmith.search.strategies.explored import beginning_with, saturated
from tensmith.search.strategy import BOUNDING, Quest, strategy

# Plans that the beam may try, and equal programs that are measured before it: each takes a plan's time, as
# looking for them takes that of several, and engines are hardly ever faster by them.
_OF_BEAM, _EQUAL = 40, 1


@strategy("auto")
def auto(quest: Quest) -> list[Candidate]:
    """Every equal program where they are seen at once, else an e-graph of them; the beam; then evolution."""
    found = enumerate_all(quest.space.program, quest.space.cost, Reach(seconds=BOUNDING * quest.seconds))
    if found.ended:
        found = saturated(quest, BOUNDING)
    tried: dict[str, Candidate] = {}

    def attempt(plan: Plan) -> Candidate:
        if plan.key not in tried:
            tried[plan.key] = quest.attempt(plan)
        return tried[plan.key]

    estimate = quest.space.regions.estimate
    cheaper = [form for form in found.cheapest if estimate(form) < found.start_cost]
    begun = replace(beginning_with(quest, cheaper[:_EQUAL]), attempt=attempt)
    beam_search(replace(begun, time_left=lambda: len(tried) < _OF_BEAM and quest.time_left()))
    of_beam = len(tried)
    genetic_search(begun)
    ways = "exhaustive" if found.size is None else "saturation"
    more = f", then evolution for {len(tried) - of_beam} more" if len(tried) > of_beam else ""
    return told(f"auto: {ways}, a beam of {of_beam} plans{more}", quest, found, list(tried.values()))
