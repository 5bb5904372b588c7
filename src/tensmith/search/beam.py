"""Beam search over plans (the synthesis loop): seed, measure, keep the best few, extend them, again.

Each round extends a few ideas not extended yet: first those that no accepted candidate clearly
beats in size and latency, by fitness (alpha * accuracy retention + beta * gain); the others when time is
left. A line of ever fewer bits is followed to its end at once: its last accepted point is worth more than
the first steps of many others.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from tensmith.search.candidate import Candidate
from tensmith.search.space import Idea
from tensmith.search.strategy import Quest, TriedIdea

# Latency is noisy: within two hundredths is the same, a tenth is a difference.
_EQUAL, _CLEARLY = 1.02, 0.9
# Ideas that a round extends.
_WIDTH = 2


def beam_search(quest: Quest) -> list[Candidate]:
    """Candidates in the order they were tried, as long as there is time left and anything to try."""
    tried: dict[str, Candidate] = {}
    open_ideas: list[TriedIdea] = []

    def measure(idea: Idea) -> Candidate:
        if idea.plan.key not in tried:
            tried[idea.plan.key] = quest.attempt(idea.plan)
            open_ideas.append(TriedIdea(idea, tried[idea.plan.key]))
        return tried[idea.plan.key]

    def follow(first: Idea) -> None:
        idea: Idea | None = first
        while idea is not None and quest.time_left():
            idea = quest.space.further(idea, measure(idea))

    def follow_all(ideas: Sequence[Idea]) -> None:
        quest.prepare([idea.plan for idea in ideas])
        for idea in ideas:
            follow(idea)

    for seed, outcome in [(seed, measure(seed)) for seed in quest.seeds()]:
        follow_all(list(quest.space.variants(seed, outcome)))
    while open_ideas and quest.time_left():
        for found in _widest(open_ideas, tried.values(), quest):
            open_ideas.remove(found)
            follow_all(list(quest.space.moves(found.idea, found.candidate)))
    return list(tried.values())


def _widest(found: list[TriedIdea], tried: Collection[Candidate], quest: Quest) -> list[TriedIdea]:
    """The few ideas to extend: those that nobody beats before the others, then by fitness.

    A rejected idea is beaten by what is as fast and as small and was accepted: its way back may still cross
    the front, so it counts as it is.
    """

    def rank(item: TriedIdea) -> tuple[bool, float]:
        mine = item.candidate
        if not {"speedup", "packed_bytes"} <= mine.metrics.keys():
            return False, float("-inf")
        beaten = any(
            other.holds
            and other.plan != mine.plan
            and max(other.bytes / mine.bytes, other.latency / mine.latency) <= _EQUAL
            and min(other.bytes / mine.bytes, other.latency / mine.latency) <= _CLEARLY
            for other in tried
        )
        return not beaten, quest.objective.fitness(mine, quest.original_bytes)

    return sorted(found, key=rank, reverse=True)[:_WIDTH]
