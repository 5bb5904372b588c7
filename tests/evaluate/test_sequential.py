"""Sequential judging is right as often as it says, with a part of the samples, however often it looks."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from tensmith.data import Subset
from tensmith.evaluate import sequential
from tensmith.evaluate.contender import Contender
from tensmith.evaluate.outcome import (
    Classification,
    LanguageModel,
    Score,
    answer_arrays,
    answers_of,
    first,
    joined,
)
from tensmith.evaluate.sequential import FEWEST, Assessment, Standard, judged, stages, widths
from tensmith.evaluate.task import Task
from tensmith.report.metric import CONFIDENCE
from tensmith.search.objective import Objective

OBJECTIVE = Objective(max_drop=0.5)
SEARCH, AHEAD = 8000, 10_000
SEEN = stages(SEARCH, 64)


def answered(lost: float, gained: float, chance: np.random.Generator, samples: int) -> Any:
    """Pairs of a candidate and the original, which are right together but for shares lost and gained."""
    drawn = chance.random(samples)
    right = np.ones(samples, int)
    ours, theirs = np.where(drawn < lost, 0, 1), np.where(drawn > 1 - gained, 0, 1)
    return Classification(ours, right), Classification(theirs, right)


def assessed(pair: Any, ahead: int = AHEAD) -> Assessment:
    def prefix(samples: int) -> Any:
        return tuple(first(each, samples) for each in pair)

    return judged(prefix, SEEN, ahead, OBJECTIVE.settles)


def status(found: Assessment) -> str:
    return OBJECTIVE.standing({}, found.drop, found.samples, found.most)[0]


@pytest.fixture(scope="module")
def simulated() -> list[tuple[Assessment, float]]:
    """Candidates that truly lose 0 to 1 point, about the budget, and what they lose on held-out data."""
    chance = np.random.default_rng(0)
    found = []
    for _ in range(2000):
        changed, drop = chance.uniform(0.002, 0.02), chance.uniform(0.0, 0.01)
        shares = drop + changed, changed
        held_out = answered(*shares, chance, AHEAD)
        found.append((assessed(answered(*shares, chance, SEARCH)), held_out[0].drop(held_out[1]).value))
    return found


def test_what_changed_is_told_whether_it_was_lost_or_gained() -> None:
    chance = np.random.default_rng(1)
    found = assessed(answered(0.1, 0.1, chance, SEARCH))
    assert abs(found.drop.value) < 2 and 18 < (found.changed or 0) < 22


def test_what_is_accepted_is_hardly_ever_lost_on_held_out_data(
    simulated: list[tuple[Assessment, float]],
) -> None:
    accepted = [lost for found, lost in simulated if status(found) == "accepted"]
    by_value = [lost for found, lost in simulated if found.drop.value <= OBJECTIVE.max_drop]
    assert len(accepted) > 50
    assert np.mean(np.array(accepted) > OBJECTIVE.max_drop) <= 0.05
    assert np.mean(np.array(by_value) > OBJECTIVE.max_drop) > 0.05, "the value alone does not promise that"


def test_what_loses_much_takes_few_samples() -> None:
    chance = np.random.default_rng(1)
    found = [assessed(answered(0.05 + lost, 0.01, chance, SEARCH)) for lost in np.linspace(0, 0.3, 100)]
    assert np.mean([each.samples for each in found]) < SEARCH / 10
    assert all(each.drop.value > OBJECTIVE.max_drop for each in found)


def test_looking_often_takes_no_edge_for_sure_and_throws_nothing_harmless_out() -> None:
    chance = np.random.default_rng(2)
    edge, inside = (
        [assessed(answered(lost, 0.01, chance, SEARCH)) for _ in range(400)] for lost in (0.015, 0.01)
    )
    taken = [status(each) == "accepted" for each in edge]
    thrown = [each.drop.value > OBJECTIVE.max_drop for each in inside]
    wrong = 1 - CONFIDENCE  # and three sigma of a binomial of 400
    assert np.mean(taken) <= wrong + 3 * np.sqrt(wrong / 400)
    assert np.mean(thrown) <= 0.1


def test_a_small_held_out_split_promises_less() -> None:
    pair = answered(0.002, 0.001, np.random.default_rng(3), SEARCH)
    assert status(assessed(pair)) == "accepted"
    few = assessed(pair, ahead=300)
    assert (status(few), few.samples) == ("unsure", SEARCH)
    assert few.most > OBJECTIVE.max_drop > few.drop.value


def test_stages_double_and_their_chances_to_be_wrong_add_up() -> None:
    from statistics import NormalDist

    assert stages(500, 64) == (64, 128, 256, 500)
    assert stages(50, 64) == (50,)
    assert stages(128, 64) == (64, 128)
    assert stages(130, 64) == (64, 130)
    for count in (1, 2, 8):
        assert sum(NormalDist().cdf(-width) for width in widths(count)) <= 1 - CONFIDENCE


def test_answers_are_cut_and_joined() -> None:
    one = Classification(np.arange(10), np.arange(10) % 3)
    other = LanguageModel(np.arange(6.0), np.ones(6, int))
    for answers in (one, other, Classification(np.arange(4))):
        parts = [first(answers, 3), answers_of({name: a[3:] for name, a in answer_arrays(answers).items()})]
        whole = joined(parts)
        assert all(
            np.array_equal(a, b)
            for a, b in zip(answer_arrays(whole).values(), answer_arrays(answers).values())
        )
    assert joined([Score(0.5)]) == first(Score(0.5), 3) == Score(0.5)


ORIGINAL, OTHER = (Contender("e", Path(name)) for name in ("original", "other"))


def standard(task: Task, share: float, wrong: float) -> tuple[Standard, list[tuple[str, int]]]:
    """A standard over 2,000 samples all answered 1 by the original; and who was asked for how many."""
    asked: list[tuple[str, int]] = []
    chance = np.random.default_rng(0).random(2000)

    @contextmanager
    def answering(contender: Contender) -> Any:
        def answers(view: Subset) -> Any:
            asked.append((contender.path.name, len(view)))
            if task.measure == "score":
                return Score(1.0)
            hit = (chance[view.indices] >= wrong) | (contender == ORIGINAL)
            return Classification(hit.astype(int), np.ones(len(view), int))

        yield answers

    pace = SimpleNamespace(usual=lambda _: 1.0)
    judge: Any = SimpleNamespace(answering=answering, task=task, at_once=64, pace=pace)
    nothing: Any = None
    return Standard(judge, ORIGINAL, Subset(nothing, np.arange(2000)), 1000, share), asked


@pytest.mark.parametrize("measure", ["accuracy", "agreement"])
def test_the_original_answers_as_much_as_candidates_need(measure: Any) -> None:
    made, asked = standard(Task(measure), share=0.0, wrong=0.0)
    assert made.judged(ORIGINAL, OBJECTIVE.settles).drop.value == 0.0
    found = made.judged(OTHER, OBJECTIVE.settles)
    assert (found.samples, found.drop.value) == (FEWEST, 0.0)
    assert asked == [("original", 64), ("other", 64), ("original", 64), ("other", 64)]
    made.share = 1e9
    assert made.judged(OTHER, OBJECTIVE.settles).samples == 2000
    assert sum(count for name, count in asked if name == "original") == 2000, "no sample is answered twice"


def test_what_one_candidate_leaves_others_may_take(monkeypatch: pytest.MonkeyPatch) -> None:
    made, _ = standard(Task("accuracy"), share=1e-9, wrong=0.5)
    made.share = 200.0
    first = made.judged(OTHER, OBJECTIVE.settles)
    assert first.samples == 64, "half of the answers are wrong"
    clock = iter(range(10**6))
    monkeypatch.setattr(sequential.time, "monotonic", lambda: 64.0 * next(clock))
    asked = [made._seen()[-1]]
    for _ in range(3):
        made.judged(OTHER, OBJECTIVE.settles)
        asked.append(made._seen()[-1])
    assert np.diff(asked).tolist() == [136, 136, 136], "64 seconds of 200 each"


def test_a_score_is_of_the_whole_view() -> None:
    made, asked = standard(Task("score", evaluation=lambda *_: 1.0), share=0.0, wrong=0.0)
    found = made.judged(OTHER, OBJECTIVE.settles)
    assert (found.samples, found.most) == (2000, 0.0)
    assert {count for _, count in asked} == {2000}


def test_a_loss_that_is_the_same_in_every_row_is_sure() -> None:
    tokens = np.full(SEARCH, 10)
    nats = np.random.default_rng(5).random(SEARCH)
    rows: Callable[[float], LanguageModel] = lambda factor: LanguageModel(factor * nats, tokens)  # noqa: E731
    assert status(assessed((rows(1.0), rows(1.0)))) == "accepted"
    assert status(assessed((rows(1.1), rows(1.0)))) == "rejected"
