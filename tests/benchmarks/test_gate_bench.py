"""What the bench of the held-out gate counts: lossy points that stood before it, by what the search said."""

from __future__ import annotations

from benchmarks.compress.gate import kept, through_the_gate

from tensmith.rewrite.rule import Step
from tensmith.search.candidate import Candidate, Status
from tensmith.search.plan import Plan


def test_points_are_counted_by_what_the_search_said_and_what_the_gate_did() -> None:
    def candidate(name: str, status: Status, kind: str = "lossy") -> Candidate:
        return Candidate(name, Plan((Step(name, kind=kind),)), status)  # type: ignore[arg-type]

    tried = [
        candidate("kept", "accepted"),
        candidate("fallen", "accepted"),
        candidate("hope", "unsure"),
        candidate("lost hope", "unsure"),
        candidate("hidden", "accepted"),
        candidate("exact", "accepted", "exact"),
        candidate("further", "beyond"),
    ]
    broke = "loses 0.70 pt, more than 0.5, on held-out data"
    ended = {
        "kept": ("front", ""),
        "fallen": ("beyond", broke),
        "hope": ("front", ""),
        "lost hope": ("rejected", broke),
        "hidden": ("dominated", "others are as good in everything, or nearly"),
        "exact": ("front", ""),
        "further": ("beyond", "loses 0.60 pt, more than 0.5"),
    }
    assert through_the_gate(tried, ended) == {"stood": 2, "lost": 1, "unsure": 2, "held": 1}


def test_a_promise_is_kept_only_where_something_stood() -> None:
    assert kept(24, 0, 20) and kept(20, 1, 20) and not kept(20, 2, 20)
    assert kept(0, 0, 1) and not kept(0, 0, 20)
