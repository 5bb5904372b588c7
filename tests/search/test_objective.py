"""Each budget is broken by its own figure, and by no figure that was not measured."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tensmith.report.metric import Metric, exact
from tensmith.rewrite.rule import Step
from tensmith.search.candidate import Candidate
from tensmith.search.objective import Objective, expected_drop
from tensmith.search.plan import Plan

LOSSY = Plan.of([Step("int8", kind="lossy")])
METRICS = {
    "packed_bytes": exact(2000, "bytes"),
    "latency_ms": exact(3, "ms"),
    "peak_bytes": exact(5e6, "bytes"),
    "energy_mj": exact(7, "mJ"),
}


@pytest.mark.parametrize(
    ("tight", "loose", "said"),
    [
        (Objective(max_bytes=1999), Objective(max_bytes=2000), "ships 2000 bytes, more than 1999"),
        (Objective(max_latency_ms=2.5), Objective(max_latency_ms=3), "takes 3 ms, more than 2.5"),
        (Objective(max_memory=4_000_000), Objective(max_memory=5_000_000), "5000000 bytes of memory"),
        (Objective(max_energy_mj=6.5), Objective(max_energy_mj=7), "takes 7 mJ, more than 6.5"),
    ],
)
def test_a_budget_is_broken_by_its_figure(tight: Objective, loose: Objective, said: str) -> None:
    assert said in (tight.over_budget(METRICS) or "")
    assert loose.over_budget(METRICS) is None
    assert tight.over_budget({}) is None


def test_no_rounding_hides_what_is_over_a_budget() -> None:
    objective = Objective(max_drop=0.5, max_latency_ms=2)
    assert objective.standing({}, exact(0.504, "pt"))[1] == "loses 0.504 pt, more than 0.5"
    assert objective.standing({}, exact(0.3, "pt"), 64, 0.5001)[1].endswith("at most 0.5001 with 99%")
    assert objective.over_budget({"latency_ms": exact(2.0003, "ms")}) == "takes 2.0003 ms, more than 2"
    assert (
        Objective(max_drop=0.1234567).standing({}, exact(0.1234568, "pt"))[1].endswith("more than 0.1234567")
    )


def test_a_drop_over_its_budget_is_beyond_it_up_to_the_reach() -> None:
    objective = Objective(max_drop=0.5, max_bytes=2000)
    standing = [objective.standing(METRICS, exact(lost, "pt"))[0] for lost in (-1.0, 0.5, 0.51, 2.0, 2.01)]
    assert standing == ["accepted", "accepted", "beyond", "beyond", "rejected"]
    assert objective.standing(METRICS, exact(0.6, "pt"))[1] == "loses 0.60 pt, more than 0.5"
    too_large = replace(objective, max_bytes=1000)
    assert too_large.standing(METRICS, exact(0.6, "pt"))[0] == "rejected", "other budgets have no reach"
    assert objective.widened().standing(METRICS, exact(2.0, "pt")) == ("accepted", "")


def test_a_drop_is_accepted_when_it_surely_holds_and_else_unsure() -> None:
    objective, lost = Objective(max_drop=0.5), exact(0.3, "pt")
    assert objective.standing(METRICS, lost, 1600, 0.5) == ("accepted", "")
    said = "loses 0.30 pt on 1,600 samples, at most 0.52 with 99%"
    assert objective.standing(METRICS, lost, 1600, 0.52) == ("unsure", said)
    assert objective.standing(METRICS, exact(0.6, "pt"), 64, 3.0)[0] == "beyond"
    assert objective.widened().standing(METRICS, lost, 1600, 0.52)[0] == "accepted"


def test_many_changed_answers_count_though_as_many_became_right_by_chance() -> None:
    objective, lost = Objective(max_drop=1.0), Metric(0.2, -4.2, 4.6, "pt", "measured")
    assert objective.standing(METRICS, lost, 443, 3.0, 4.0)[0] == "unsure"
    status, said = objective.standing(METRICS, lost, 443, 6.0, 22.0)
    assert status == "beyond"
    assert said == (
        "loses 0.20 pt on 443 samples, but changes 22.0% of the answers: expected are 1.22, more than 1"
    )
    figures = {"packed_bytes": exact(1e5, "bytes"), "speedup": exact(2.0, "x")}
    lucky, steady = (
        Candidate("c", LOSSY, "unsure", metrics=figures, drop=drop, changed=changed)
        for drop, changed in ((lost, 22.0), (Metric(0.5, -1.4, 2.4, "pt", "measured"), 4.0))
    )
    assert objective.fitness(steady, 1e6) > objective.fitness(lucky, 1e6)


@given(st.floats(-1, 4), st.floats(0.01, 3), st.floats(0, 40))
def test_the_surer_a_drop_is_the_more_it_counts(value: float, half: float, changed: float) -> None:
    def expected(half: float) -> float:
        return expected_drop(Metric(value, value - half, value + half, "pt", "measured"), changed)

    assert expected(0) == pytest.approx(value)
    assert value <= expected(half) + 1e-9 and expected(half) <= expected(2 * half) + 1e-9
    assert expected(half) <= max(value, changed / 8) + 1e-9
    assert expected_drop(exact(value, "pt"), None) == value


def test_a_drop_is_settled_on_either_side_of_its_budget() -> None:
    def settled(least: float, most: float) -> bool:
        return Objective(0.5).settles(Metric((least + most) / 2, least, most, "pt", "measured"))

    assert settled(-0.2, 0.5) and settled(0.51, 3.0)
    assert not settled(-0.2, 0.6) and not settled(0.5, 0.6)


def test_without_a_drop_budget_a_point_is_looked_at() -> None:
    assert Objective(max_drop=0.0).reach == 1.0


def test_without_a_drop_budget_whatever_is_lost_counts_as_all_of_it() -> None:
    figures = {"packed_bytes": exact(1e5, "bytes"), "speedup": exact(2.0, "x")}
    kept, lossy = (
        Objective(max_drop=0.0).fitness(Candidate("c", Plan(), "unsure", metrics=figures, drop=drop), 1e6)
        for drop in (exact(0.0, "pt"), exact(0.1, "pt"))
    )
    assert kept == lossy + 1.0


def test_what_is_proved_equal_keeps_all_of_its_accuracy_though_roundings_change_answers() -> None:
    figures = {"packed_bytes": exact(1e5, "bytes"), "speedup": exact(2.0, "x")}
    drop = Metric(0.0, -0.2, 0.2, "pt", "measured")
    kept, changing, lossy = (
        Objective(max_drop=0.0).fitness(
            Candidate("c", plan, "accepted", metrics=figures, drop=drop, changed=changed), 1e6
        )
        for plan, changed in ((Plan(), 0.0), (Plan(), 0.4), (LOSSY, 0.4))
    )
    assert kept == changing == lossy + 1.0
