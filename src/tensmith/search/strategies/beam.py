"""The beam: plans by measurement, the best few extended."""

from __future__ import annotations

from tensmith.search.beam import beam_search
from tensmith.search.candidate import Candidate
from tensmith.search.strategy import Quest, strategy


@strategy("beam")
def beam(quest: Quest) -> list[Candidate]:
    """Beam search over plans."""
    return beam_search(quest.space, quest.attempt, quest.objective, quest.original_bytes, quest.time_left)
