"""The search beyond the drop budget: what a little more loss would buy, for the front to show."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import replace

from tensmith.search.beam import Try, beam_search
from tensmith.search.candidate import Candidate
from tensmith.search.objective import Objective
from tensmith.search.plan import Plan
from tensmith.search.space import Space


def search_beyond(
    space: Space,
    attempt: Try,
    objective: Objective,
    original_bytes: float,
    time_left: Callable[[], bool],
    tried: Collection[Candidate],
) -> list[Candidate]:
    """What the beam finds beyond the drop budget, up to the objective's reach, with what was `tried` given.

    The way there is that of a search whose budget is the reach; candidates stand as they were attempted.
    """
    wide, known = objective.widened(), {candidate.plan.key: candidate for candidate in tried}
    found: list[Candidate] = []

    def seen_wide(plan: Plan) -> Candidate:
        if plan.key not in known:
            known[plan.key] = attempt(plan)
            found.append(known[plan.key])
        candidate = known[plan.key]
        if candidate.status == "failed":
            return candidate
        status, reason = wide.standing(
            candidate.metrics, candidate.drop, candidate.samples, candidate.at_most
        )
        return replace(candidate, status=status, reason=reason)

    beam_search(space, seen_wide, wide, original_bytes, time_left)
    return found
