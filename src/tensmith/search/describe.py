"""Candidates and plans in words, for progress lines and previews."""

from __future__ import annotations

from tensmith.search.candidate import Candidate
from tensmith.search.plan import UNTOUCHED, Plan

# Words as long are hashes, which say nothing to people.
_HASH = 64


def describe(candidate: Candidate) -> str:
    """One line about a candidate: what it is, what it reached, what stands against it."""
    words = [f"{candidate.id} {candidate.status}"]
    if "speedup" in candidate.metrics:
        words.append(f"{candidate.metrics['speedup'].value:.2f}x its speed on {candidate.engine}")
    if "packed_bytes" in candidate.metrics:
        words.append(f"{candidate.metrics['packed_bytes'].value:.0f} bytes")
    if candidate.drop is not None:
        words.append(f"drop {candidate.drop.value:.2f} {candidate.drop.unit}")
    return f"{'; '.join(words)} [{describe_plan(candidate.plan)}]" + (
        f": {candidate.reason}" if candidate.reason else ""
    )


def describe_plan(plan: Plan) -> str:
    """The methods of a plan, and the settings it is meant for."""
    if plan == UNTOUCHED:
        return "the model as it came"
    methods = [
        " ".join([step.rule, *(v for v in step.params.values() if isinstance(v, str) and len(v) < _HASH)])
        for step in plan.steps
    ]
    return ", ".join([*methods, *plan.settings.values()]) or "exact rewrites alone"
