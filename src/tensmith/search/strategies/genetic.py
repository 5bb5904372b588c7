"""Evolution: plans crossed and mutated, the fittest and the least crowded kept."""

from __future__ import annotations

from tensmith.search.candidate import Candidate
from tensmith.search.genetic import genetic_search
from tensmith.search.strategy import Quest, strategy


@strategy("genetic")
def genetic(quest: Quest) -> list[Candidate]:
    """Genetic search over plans."""
    tried = genetic_search(
        quest.space, quest.attempt, quest.objective, quest.original_bytes, quest.time_left, quest.seed
    )
    quest.tell(f"genetic search, seed {quest.seed}: {len(tried)} plans were tried")
    return tried
