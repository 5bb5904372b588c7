"""Beam search over plans (the synthesis loop): seed, measure, keep the best few, extend them, again.

Each round extends at most `width` ideas, chosen by fitness (alpha * accuracy retention + beta * gain) among
those not extended yet, so that exploring one family never starves the others of their first move.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

from tensmith.search.candidate import Candidate
from tensmith.search.objective import Objective
from tensmith.search.plan import Plan
from tensmith.search.space import Idea, Space

Try = Callable[[Plan], Candidate]


@dataclass(frozen=True)
class Found:
    """An idea and what became of it."""

    idea: Idea
    candidate: Candidate


def beam_search(
    space: Space,
    attempt: Try,
    objective: Objective,
    original_bytes: float,
    deadline: float,
    width: int = 4,
) -> list[Candidate]:
    """Candidates in the order they were tried, until `deadline` (time.monotonic) or nothing is left to try.

    The seeds are always tried, whatever the time: the first two are the model itself and its exact rewrite.
    """
    tried: dict[str, Candidate] = {}
    open_ideas: list[Found] = []

    def measure(idea: Idea) -> None:
        if idea.plan.key not in tried:
            tried[idea.plan.key] = attempt(idea.plan)
            open_ideas.append(Found(idea, tried[idea.plan.key]))

    for number, idea in enumerate(space.seeds()):
        if number < 3 or time.monotonic() < deadline:
            measure(idea)
    while open_ideas and time.monotonic() < deadline:
        chosen = _widest(open_ideas, objective, original_bytes, width)
        for found in chosen:
            open_ideas.remove(found)
            for idea in space.moves(found.idea, found.candidate):
                if time.monotonic() < deadline:
                    measure(idea)
    return list(tried.values())


def _widest(found: list[Found], objective: Objective, original_bytes: float, width: int) -> list[Found]:
    """The best idea of each family first, then the best of all, `width` in total."""

    def rank(item: Found) -> float:
        complete = "speedup" in item.candidate.metrics and "packed_bytes" in item.candidate.metrics
        return objective.fitness(item.candidate, original_bytes) if complete else float("-inf")

    ordered = sorted(found, key=rank, reverse=True)
    leaders = list({item.idea.family: item for item in reversed(ordered)}.values())
    leaders.sort(key=rank, reverse=True)
    rest = [item for item in ordered if item not in leaders]
    return (leaders + rest)[:width]
