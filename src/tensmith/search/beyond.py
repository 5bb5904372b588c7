"""The search beyond the drop budget: what a little more loss would buy, for the front to show."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

from tensmith.search.beam import beam_search
from tensmith.search.candidate import Candidate
from tensmith.search.plan import Plan
from tensmith.search.strategy import Quest


def search_beyond(quest: Quest, tried: Collection[Candidate]) -> list[Candidate]:
    """What the beam finds beyond the drop budget, up to the objective's reach, with what was `tried` given.

    The way there is that of a search whose budget is the reach; candidates stand as they were attempted.
    """
    wide, attempt = quest.objective.widened(), quest.attempt
    known = {candidate.plan.key: candidate for candidate in tried}
    found: list[Candidate] = []

    def seen_wide(plan: Plan) -> Candidate:
        if plan.key not in known:
            known[plan.key] = attempt(plan)
            found.append(known[plan.key])
        candidate = known[plan.key]
        if candidate.status == "failed":
            return candidate
        status, reason = wide.standing(
            candidate.metrics, candidate.drop, candidate.samples, candidate.at_most, candidate.changed
        )
        return replace(candidate, status=status, reason=reason)

    beam_search(replace(quest, attempt=seen_wide, objective=wide, prepare=lambda _: None))
    return found
