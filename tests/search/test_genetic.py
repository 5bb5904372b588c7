"""Evolved plans: the same walk every time, nothing twice, and the best is never lost."""

from __future__ import annotations

import pytest
from test_beam import SENSITIVITY, simulated, two_layers

from tensmith.report.metric import exact
from tensmith.rewrite.rule import Kind, Step
from tensmith.search.candidate import Candidate
from tensmith.search.genetic import _other_layers, genetic_search, survivors
from tensmith.search.objective import Objective
from tensmith.search.plan import UNTOUCHED, Plan
from tensmith.search.space import Idea, Space
from tensmith.search.strategy import ALWAYS_TRIED, STRATEGIES, Quest, TriedIdea


def space() -> Space:
    """A fresh one: it remembers where its lines ended."""
    return Space(two_layers(), ("onnxruntime",), sensitivity=lambda: SENSITIVITY)


def run(trials: int, seed: int = 0, known: dict[str, Candidate] | None = None) -> list[Candidate]:
    """A search that ends after so many trials; `known` is the checkpoint of one that was broken off."""
    store = {} if known is None else known
    left = iter(range(trials))

    def attempt(plan: Plan) -> Candidate:
        return store.setdefault(plan.key, simulated(plan))

    def in_time() -> bool:
        return next(left, None) is not None

    return genetic_search(Quest(space(), attempt, Objective(0.5), 32000.0, in_time, seed=seed))


def keys(tried: list[Candidate]) -> list[str]:
    return [candidate.plan.key for candidate in tried]


def test_the_walk_is_that_of_its_seed_and_no_plan_is_tried_twice() -> None:
    first = keys(run(60))
    assert first == keys(run(60))
    assert len(set(first)) == len(first)
    assert first != keys(run(60, seed=1))


def test_a_search_that_was_broken_off_walks_the_same_way() -> None:
    known: dict[str, Candidate] = {}
    part = keys(run(25, known=known))
    assert keys(run(60, known=known))[: len(part)] == part == keys(run(60))[: len(part)]


def test_without_time_only_the_first_seeds_are_tried() -> None:
    tried = run(0)
    assert len(tried) == ALWAYS_TRIED
    assert [candidate.plan for candidate in tried[:2]] == [UNTOUCHED, Plan()]


def test_it_finds_bits_by_layer_up_to_the_budget() -> None:
    tried = run(120)
    assert min(c.bytes for c in tried if c.status == "accepted") <= 5500
    assert any(c.status == "rejected" for c in tried)


def test_layers_mutate_into_each_way_of_sparing_them_and_back() -> None:
    params = {"calibration": "minmax", "default_bits": 8, "weight_only": ["h"]}
    step = Step("int8", params=params, kind="lossy")
    idea = Idea(Plan.of((step,)), "int8")
    others = [other.plan.steps[0].params for other in _other_layers(space(), idea, step)]
    assert {**params, "weight_only": ["h", "y"]} in others and {**params, "skip": ["h"]} in others
    assert {"calibration": "minmax", "default_bits": 8} in others


def test_a_space_where_everything_fails_ends() -> None:
    def attempt(plan: Plan) -> Candidate:
        return Candidate(plan.id, plan, "failed")

    tried = genetic_search(Quest(space(), attempt, Objective(), 1.0, lambda: True))
    assert len(tried) == len({idea.plan.key for idea in space().seeds()})


def test_a_search_may_be_asked_for_by_name() -> None:
    assert STRATEGIES["genetic"].name == "genetic"


def found(
    name: str, lost: float, size: float, latency: float, status: str = "accepted", kind: Kind = "exact"
) -> TriedIdea:
    metrics = {
        "packed_bytes": exact(size, "bytes"), "latency_ms": exact(latency, "ms"),
        "speedup": exact(1 / latency, "x"),
    }  # fmt: skip
    plan = Plan((Step(name, kind=kind),))
    return TriedIdea(Idea(plan, ""), Candidate(name, plan, status, metrics=metrics, drop=exact(lost, "pt")))  # type: ignore[arg-type]


def names(kept: list[TriedIdea]) -> list[str]:
    return [each.candidate.id for each in kept]


@pytest.mark.parametrize("elite", [0, 1])
def test_the_fittest_stays_in_a_crowd_because_of_the_elite(elite: int) -> None:
    ends = [found("small", 0.4, 1, 900), found("fast", 0.45, 900, 1), found("safe", 0.0, 800, 800)]
    crowd = [found(f"near{i}", 0.3, 10 + i, 10 - i / 2) for i in (-1, 1)]
    fittest = found("fittest", 0.3, 10, 9.9)
    kept = names(survivors([*ends, *crowd, fittest], Objective(0.5), 1000.0, most=3, elite=elite))
    assert ("small" in kept, "fast" in kept) == (True, True)
    assert (kept[0] in ("fittest", "near1", "near-1")) == bool(elite)


def test_what_is_little_beyond_the_budget_breeds_and_what_is_far_comes_last() -> None:
    good, near = found("good", 0.4, 10, 10), found("near", 0.9, 5, 5, "rejected")
    far = found("far", 50.0, 1, 1, "rejected")
    unmeasured = TriedIdea(Idea(Plan((Step("no"),)), ""), Candidate("no", Plan(), "failed"))
    assert names(survivors([far, unmeasured, near, good], Objective(0.5), 100.0)) == ["good", "near", "far"]


def test_what_was_trained_does_not_breed() -> None:
    both = [found("recover", 0.1, 10, 1, kind="lossy"), found("plain", 0.2, 60, 10)]
    assert names(survivors(both, Objective(0.5), 100.0)) == ["plain"]
