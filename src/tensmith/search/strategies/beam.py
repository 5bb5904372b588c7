"""The beam: plans by measurement, the best few extended; alone, or after a look at equal programs."""

from __future__ import annotations

from tensmith.egraph.explore import Reach, enumerate_all
from tensmith.search.beam import beam_search
from tensmith.search.candidate import Candidate
from tensmith.search.strategies.distance import told
from tensmith.search.strategies.explored import SOLVER, beginning_with, saturated
from tensmith.search.strategy import BOUNDING, Quest, strategy


@strategy("beam")
def beam(quest: Quest) -> list[Candidate]:
    """Beam search over plans."""
    found = saturated(quest, BOUNDING)
    return told("beam search", quest, found, beam_search(quest))


@strategy("saturation", needs=SOLVER)
def saturation(quest: Quest) -> list[Candidate]:
    """An e-graph of all that exact rules make of the model; then the beam."""
    found = saturated(quest)
    return told("saturation", quest, found, beam_search(beginning_with(quest, found.cheapest)))


@strategy("exhaustive")
def exhaustive(quest: Quest) -> list[Candidate]:
    """Every program that exact rules make of the model, as far as time and memory go; then the beam."""
    found = enumerate_all(quest.space.program, quest.space.cost, Reach(seconds=quest.seconds))
    return told("exhaustive search", quest, found, beam_search(beginning_with(quest, found.cheapest)))
