"""Judging on held-out data ends in time, and what it leaves out is named."""

from __future__ import annotations

import math
import time
from collections.abc import Collection, Sequence
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from tensmith.data import Subset
from tensmith.deploy.finalize import (
    CROWDED,
    LATE,
    Finalized,
    Hearing,
    Point,
    _is_plain_int8,
    _judged_peers,
    _through_the_gate,
    finalists,
    shown_and_not,
)
from tensmith.deploy.write import _tried
from tensmith.errors import EngineError
from tensmith.evaluate.contender import Contender
from tensmith.evaluate.outcome import Classification
from tensmith.evaluate.task import Task
from tensmith.report.metric import exact
from tensmith.rewrite.rule import Step
from tensmith.search.candidate import Candidate
from tensmith.search.front import MOST_POINTS
from tensmith.search.objective import Objective
from tensmith.search.plan import UNTOUCHED, Plan


def point(name: str, megabytes: float, milliseconds: float) -> Candidate:
    metrics = {"packed_bytes": exact(1e6 * megabytes, "bytes"), "latency_ms": exact(milliseconds, "ms")}
    return Candidate(name, Plan((Step(name, kind="lossy"),)), "accepted", "", "e", metrics)


SMALL, BALANCED, FAST = FRONT = [point("small", 1, 10), point("balanced", 2, 3), point("fast", 5, 2)]


def gate(
    points: list[Candidate],
    breaking: Collection[str] = (),
    seconds: float = -1.0,
    by: float = 9.0,
    elsewhere: Collection[str] = (),
    each: float = 0.0,
    dying: Collection[str] = (),
    unbuilt: Collection[str] = (),
) -> Any:
    """What is (kept, lost) of points, some of which lose so much, judged for so many seconds, less those that
    measuring takes of `each`; a worker built the ones `elsewhere`, and otherwise than this machine, the ones
    `unbuilt` cannot be built here, and what is `dying` does not answer all."""

    def answers(contender: Contender, _: Any) -> Any:
        if contender.path.name in dying:
            raise EngineError("its loss is not finite")
        lost = by if contender.path.name in breaking else 0.0
        return SimpleNamespace(drop=lambda _: exact(lost, "points"))

    def named(plan: Plan) -> str:
        return str(plan.steps[0].rule)

    def confirmed(plan: Plan) -> bool:
        if named(plan) in unbuilt:
            raise EngineError("there is no memory to calibrate it")
        return named(plan) not in elsewhere

    builder: Any = SimpleNamespace(file=lambda plan: Path(named(plan)), confirmed=confirmed)
    task = SimpleNamespace(judged=lambda found, _: found)
    judge: Any = SimpleNamespace(answers=answers, task=task)
    whole: Any = SimpleNamespace(take=lambda _: None)
    hearing = Hearing(judge, whole, 100, Contender("e", Path("original")))
    start = time.monotonic()

    def until(points: Sequence[Candidate]) -> float:
        return start + seconds - each * len(points)

    kept, lost = _through_the_gate(builder, hearing, points, Objective(0.5), lambda _: None, until)
    return [candidate.id for candidate in kept if candidate.status == "accepted"], lost


def test_late_the_best_product_is_judged() -> None:
    assert gate(FRONT)[0] == ["balanced"]


def test_as_many_are_judged_as_can_be_measured() -> None:
    kept, lost = gate(FRONT, seconds=50, each=20)
    assert len(kept) == 2 and [point.reason for point in lost] == [LATE]


def test_late_judging_goes_on_until_a_point_is_kept() -> None:
    assert gate(FRONT, {"balanced"})[0] in (["small"], ["fast"])


def test_what_is_not_judged_is_not_said_to_be_dominated() -> None:
    _, lost = gate([*FRONT, point("beaten", 6, 6)])
    nothing: Any = None
    kept = Point(BALANCED, nothing, None)
    finalized = Finalized([kept], lost, {"file_bytes": exact(1e7, "bytes")}, {})
    rows = {row["id"]: row for row in (_tried(each, finalized) for each in [*FRONT, point("beaten", 6, 6)])}
    assert {name: row["status"] for name, row in rows.items()} == {
        "small": "not judged", "balanced": "front", "fast": "not judged", "beaten": "dominated",
    }  # fmt: skip
    assert rows["fast"]["reason"] == LATE


def test_more_points_than_are_judged_are_not_dominated_either() -> None:
    many = [point(f"p{number}", 1 + number, 20 - number) for number in range(MOST_POINTS + 2)]
    kept, lost = gate(many, seconds=60)
    assert len(kept) == MOST_POINTS
    assert [(each.status, each.reason == LATE) for each in lost] == 2 * [("not judged", False)]


def test_of_a_crowded_front_it_is_said_why_a_point_is_not_shown() -> None:
    many = [point(f"p{number}", 1 + number, 20 - number) for number in range(MOST_POINTS + 2)]
    best, others = shown_and_not([*many, point("beaten", 30, 30)])
    assert len(best) == MOST_POINTS
    finalized = Finalized([], others, {"file_bytes": exact(1e7, "bytes")}, {})
    rows = [_tried(each, finalized) for each in others]
    assert [row["status"] for row in rows] == ["not shown", "not shown", "dominated"]
    assert [row["reason"] == CROWDED for row in rows] == [True, True, False]


def test_in_time_all_points_are_judged() -> None:
    kept, lost = gate(FRONT, {"fast"}, seconds=60)
    assert sorted(kept) == ["balanced", "small"]
    assert [(each.id, each.status) for each in lost] == [("fast", "rejected")]


def test_what_a_worker_built_otherwise_is_no_point() -> None:
    kept, lost = gate(FRONT, seconds=60, elsewhere={"fast"})
    assert sorted(kept) == ["balanced", "small"]
    assert [(each.id, each.status) for each in lost] == [("fast", "rejected")]
    assert "another file" in lost[0].reason


def test_what_a_worker_built_and_this_machine_cannot_costs_the_run_one_point() -> None:
    kept, lost = gate(FRONT, seconds=60, unbuilt={"fast"})
    assert sorted(kept) == ["balanced", "small"]
    assert [(each.id, each.status) for each in lost] == [("fast", "rejected")]
    assert "no memory" in lost[0].reason


def test_a_peer_that_cannot_be_built_costs_nothing() -> None:
    def file(plan: Plan) -> Path:
        raise EngineError("there is no memory to calibrate it")

    plain = replace(point("int8", 1, 1), plan=Plan((Step("int8", "*", {"calibration": "minmax"}, "lossy"),)))
    run: Any = SimpleNamespace(engines=("onnxruntime",))
    builder: Any = SimpleNamespace(file=file)
    hearing: Any = SimpleNamespace(heard={})
    assert _judged_peers(run, builder, hearing, [plain], lambda _: None, math.inf) == []


def test_what_fails_on_held_out_data_costs_the_run_one_point() -> None:
    kept, lost = gate(FRONT, seconds=60, dying={"fast"})
    assert sorted(kept) == ["balanced", "small"]
    assert [(each.id, each.status, each.reason) for each in lost] == [
        ("fast", "rejected", "its loss is not finite, when measured for good")
    ]


def test_what_breaks_the_budget_a_little_on_held_out_data_is_beyond_it() -> None:
    kept, lost = gate(FRONT, {"fast"}, seconds=60, by=0.7)
    assert (sorted(kept), lost) == (["balanced", "small"], [])


def test_held_out_data_makes_nobody_better() -> None:
    beyond = replace(point("beyond", 0.5, 0.5), status="beyond", drop=exact(0.6, "points"))
    kept, lost = gate([*FRONT, beyond], seconds=60)
    assert (sorted(kept), lost) == (["balanced", "fast", "small"], [])


def unsure(name: str, megabytes: float, milliseconds: float, at_most: float) -> Candidate:
    return replace(point(name, megabytes, milliseconds), status="unsure", reason="may", at_most=at_most)


def test_what_is_unsure_stands_after_what_is_sure_and_comes_in_where_it_holds() -> None:
    hopes = [unsure("tiny", 0.1, 9, 0.9), unsure("quick", 3, 0.5, 0.8)]
    assert gate([*FRONT, *hopes])[0] == ["balanced"], "late, the sure ones come first"
    kept, lost = gate([*FRONT, *hopes], {"tiny"}, seconds=60)
    assert sorted(kept) == ["balanced", "fast", "quick", "small"]
    assert [(each.id, each.status) for each in lost] == [("tiny", "rejected")]


def test_when_points_fall_the_safest_is_next() -> None:
    hopes = [unsure(f"p{n}", 1 + n, 10 - n, 2.0 - n / 10) for n in range(6)]
    kept, _ = gate(hopes, {"p0", "p1", "p2", "p3"}, seconds=-1)
    assert kept == ["p5"], "late, and yet not with empty hands"


def test_what_is_exact_comes_after_what_is_lossy() -> None:
    exact_one = replace(point("exact", 9, 9), plan=Plan((Step("exact"),)))
    assert gate([exact_one, unsure("tiny", 0.1, 9, 0.9)])[0] == ["tiny"]


def test_the_original_is_measured_for_good_once_whatever_became_of_it() -> None:
    original = replace(point("original", 9, 9), plan=UNTOUCHED)
    assert finalists([original]) == [original]
    assert finalists([original, *FRONT]) == [original, *FRONT]
    assert finalists([replace(original, status="rejected"), *FRONT])[0].id == "original"
    assert finalists([replace(original, status="failed"), *FRONT]) == FRONT


def test_more_samples_are_heard_by_all_or_by_none() -> None:
    part: Any = None
    whole = Subset(part, np.arange(10))
    labels = np.array([0, 1, 2, 3, 4, 5, 6, 7, 8, 9])
    asked: list[tuple[str, int]] = []

    def answers(contender: Contender, view: Subset) -> Classification:
        asked.append((contender.engine, len(view)))
        if contender.engine == "failing" and 9 in view.indices:
            raise EngineError("not that one")
        wrong = view.indices >= 8 if contender.engine == "late" else False
        return Classification(np.where(wrong, 0, labels[view.indices]), labels[view.indices])

    judge: Any = SimpleNamespace(answers=answers, task=Task("accuracy"))
    original, late, failing = (Contender(name, Path("f")) for name in ("original", "late", "failing"))
    hearing = Hearing(judge, whole, 6, original)
    assert hearing.drop(late).value == hearing.drop(failing).value == 0.0
    hearing.more(4, [late, failing])
    assert hearing.samples == 6 and hearing.drop(late).value == 0.0
    hearing.more(3, [late, failing])
    assert hearing.samples == 9 and hearing.drop(late).value == pytest.approx(100 / 9)
    hearing.more(4, [late])
    assert hearing.samples == 10 and hearing.drop(late).value == pytest.approx(20.0)
    assert asked[:3] == [("original", 6), ("late", 6), ("failing", 6)]
    assert asked[-2:] == [("original", 1), ("late", 1)]


@pytest.mark.parametrize(
    ("params", "plain"),
    [
        ({}, True),
        ({"default_bits": 7}, True),
        ({"default_bits": 8}, True),
        ({"default_bits": 4}, False),
        ({"calibration": "mse"}, False),
        ({"kept": ["h"]}, False),
        ({"skip": ["h"]}, False),
        ({"weight_only": ["h"]}, False),
        ({"scales": "mse"}, False),
        ({"rounding": "compensated"}, False),
        ({"bits": {"h": 3}}, False),
    ],
)
def test_the_reference_is_int8_of_all_layers_and_nothing_else(params: dict[str, Any], plain: bool) -> None:
    step = Step("int8", params={"calibration": "minmax", **params}, kind="lossy")
    assert _is_plain_int8(replace(point("int8", 1, 1), plan=Plan((step,)))) == plain
