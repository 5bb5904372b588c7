"""The search between the original and what the drop budget bears: less loss for more bytes, for the front."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from tensmith.rewrite.method import LOSSY
from tensmith.search.bits import price
from tensmith.search.candidate import Candidate
from tensmith.search.front import costs
from tensmith.search.plan import Plan
from tensmith.search.strategy import Quest

# Levels of the price of memory that are about a bit of a weight: what it loses is halved twice.
_BIT = 2.0
# Less than that next to the best plan, whose loss a few samples judged: others may say that it breaks the
# budget.
_NEAREST = (0.5, 1.0)


def search_between(quest: Quest, tried: Sequence[Candidate]) -> None:
    """The best plan with a quarter of a bit more a weight, half a bit, about one, two, ..., until more bytes
    buy nothing.

    A line of levels begins close to the budget, and what was `tried` knows little of what lies before that.
    """
    known = {candidate.plan.key: candidate for candidate in tried}
    held = [each for each in tried if each.holds and _eased(each.plan) is not None]
    if not held:
        return
    best = max(held, key=lambda each: quest.objective.fitness(each, quest.original_bytes))
    for levels in _NEAREST:
        near = _eased(best.plan, levels)
        if near is not None and near.key not in known and quest.time_left():
            known[near.key] = quest.attempt(near)
    plan, before = _eased(best.plan), best.bytes
    while plan is not None and quest.time_left():
        found = known.get(plan.key) or quest.attempt(plan)
        if not found.holds or found.bytes == before or any(_as_good(each, found) for each in known.values()):
            return
        known[plan.key], before = found, found.bytes
        plan = _eased(plan)


def _eased(plan: Plan, levels: float = _BIT) -> Plan | None:
    """The plan with its memory so much cheaper that weights take more bits; None where it has no price, or
    another step settles what weights are."""
    settled = any(LOSSY[step.rule].settles_bits for step in plan.steps if step.kind == "lossy")
    priced = next((step for step in plan.steps if "price" in step.params), None)
    if priced is None or settled or plan.is_trained:
        return None
    return plan.having(
        replace(priced, params={**priced.params, "price": priced.params["price"] / price(levels)})
    )


def _as_good(one: Candidate, other: Candidate) -> bool:
    """Whether a candidate is another one that is no larger, no slower and may lose no more."""
    same = one.plan.key == other.plan.key
    near = one.bytes <= other.bytes and one.latency <= other.latency if one.holds else False
    return near and not same and costs(one)[0] <= costs(other)[0]
