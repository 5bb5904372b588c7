"""Evolution: plans crossed and mutated, the fittest and the least crowded kept."""

from __future__ import annotations

from tensmith.search.candidate import Candidate
from tensmith.search.genetic import genetic_search
from tensmith.search.strategies.distance import told
from tensmith.search.strategies.explored import saturated
from tensmith.search.strategy import BOUNDING, Quest, strategy


@strategy("genetic")
def genetic(quest: Quest) -> list[Candidate]:
    """Genetic search over plans."""
    found = saturated(quest, BOUNDING)
    tried = genetic_search(quest)
    return told(f"genetic search, seed {quest.seed}, {len(tried)} plans", quest, found, tried)
