"""Splits are disjoint, seeded, balanced, and never silently empty."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tensmith.data import Dataset, as_dataset, split
from tensmith.errors import DataError, UsageError


def dataset(**parts: list[int]) -> Dataset:
    """Parts with these labels; sample i of a part is the number i."""
    return as_dataset({name: (np.arange(len(y))[:, None], np.array(y, int)) for name, y in parts.items()})


LABELS = st.lists(st.integers(0, 4), min_size=6, max_size=80)
COUNT = st.integers(1, 60)


@given(LABELS, st.none() | LABELS, COUNT, COUNT, st.none() | COUNT, st.integers(0, 3))
def test_splits_are_disjoint_within_their_part_and_repeat(
    train, test, calibration, search, held_out, seed
) -> None:
    data = dataset(train=train) if test is None else dataset(train=train, test=test)
    try:
        first, second = (split(data, calibration, search, held_out, seed) for _ in range(2))
    except UsageError as error:  # one is so large that hardly any sample is left for another
        assert "too many" in str(error)
        assert held_out is not None or max(calibration, search) > len(train) // 4
        return
    views = (first.calibration, first.search, first.held_out)
    samples = [(id(v.part), int(i)) for v in views for i in v.indices]
    assert first.calibration.part is first.fitting.part is data.part("train")
    assert len(set(samples)) == len(samples)
    assert all(len(view) >= 1 for view in views)
    assert all(view.indices.max() < len(view.part) for view in views)
    assert len(first.calibration) <= calibration and len(first.search) <= search
    fitted = [(id(first.fitting.part), int(i)) for i in first.fitting.indices]
    calibrated = len(first.calibration)
    assert fitted[:calibrated] == samples[:calibrated]
    assert len(set(fitted)) == len(fitted) and set(fitted).isdisjoint(samples[calibrated:])
    for view, again in zip(
        (*views, first.fitting), (second.calibration, second.search, second.held_out, second.fitting)
    ):
        assert np.array_equal(view.indices, again.indices)
    if test is None and held_out is None:
        assert len(samples) == len(train) and 2 * len(first.held_out) >= len(train)


@given(st.permutations([0] * 20 + [1] * 20 + [2] * 40), st.integers(1, 39), st.integers(0, 9))
def test_every_beginning_of_a_split_is_balanced(labels, count, seed) -> None:
    splits = split(dataset(train=labels, test=labels * 5), 40, 40, seed=seed)
    assert splits.search.part is splits.held_out.part
    for view in (splits.calibration, splits.search):
        counts = np.bincount(view.take(count).labels(), minlength=3)
        assert np.all(np.abs(counts - count * np.array([0.25, 0.25, 0.5])) < 2)


def test_another_seed_gives_another_sample() -> None:
    data = dataset(train=[0, 1] * 50, test=[0])
    one, two = (split(data, 20, 20, seed=seed).calibration.indices for seed in (0, 1))
    assert not np.array_equal(one, two)


def test_a_search_sees_the_validation_part_and_the_test_part_is_held_out_whole() -> None:
    data = dataset(train=[0] * 9, validation=[0] * 8, test=[0] * 7)
    splits = split(data, 2, 3)
    assert [len(v) for v in (splits.calibration, splits.search)] == [2, 3]
    assert splits.search.part is data.part("validation")
    assert sorted(splits.held_out.indices.tolist()) == list(range(7))
    assert len(splits.fitting) == 9  # all of the training part


@pytest.mark.parametrize("name", ["test", "validation"])
def test_a_search_sees_a_fifth_of_what_is_judged_by(name: str) -> None:
    data = dataset(train=[0] * 9000, **{name: [0, 1] * 2000})
    splits = split(data)
    assert splits.search.part is splits.held_out.part is data.part(name)
    assert [len(v) for v in (splits.search, splits.held_out, splits.fitting)] == [800, 3200, 9000]
    assert set(splits.search.indices).isdisjoint(splits.held_out.indices)
    assert splits.searched_beside == 800 and split(dataset(train=[0] * 9, test=[0] * 7)).searched_beside == 0
    assert len(split(data, search=60).held_out) == 3940


def test_a_number_of_samples_to_judge_by_is_met_first() -> None:
    data = dataset(train=[0] * 9000, test=[0, 1] * 2000)
    whole, most, few = (split(data, held_out=count) for count in (4000, 3600, 100))
    assert whole.search.part is most.search.part is data.part("train")
    assert [len(each.held_out) for each in (whole, most, few)] == [4000, 3600, 100]
    assert few.search.part is data.part("test") and len(few.search) == 2000
    assert np.array_equal(few.held_out.indices, whole.held_out.indices[:100])


def test_a_small_test_part_is_held_out_whole_and_a_search_sees_training_samples() -> None:
    data = dataset(train=[0] * 9000, test=[0] * 2000)
    splits = split(data)
    assert splits.search.part is data.part("train") and len(splits.search) == 2000
    assert len(splits.held_out) == 2000 and len(splits.fitting) == 7000


@pytest.mark.parametrize(("samples", "searched"), [(2700, 900), (1200, 500), (600, 396)])
def test_a_search_leaves_most_of_a_small_training_part_to_learn_from(samples: int, searched: int) -> None:
    splits = split(dataset(train=[0] * samples, test=[0] * 300))
    assert splits.search.part is splits.fitting.part and len(splits.search) == searched
    assert len(splits.fitting) == samples - searched


@pytest.mark.parametrize("parts", [{"train": 900}, {"train": 900, "test": 40}, {"train": 900, "test": 4000}])
def test_what_may_be_looked_at_is_of_the_training_part_and_not_held_out(parts: dict[str, int]) -> None:
    splits = split(dataset(**{name: [0] * count for name, count in parts.items()}), 50, 100)
    seen = splits.training
    assert seen.part is splits.calibration.part and len(seen) == len(set(seen.indices)) == 150
    assert np.array_equal(seen.indices[:50], splits.calibration.indices)
    assert seen.part is not splits.held_out.part or set(seen.indices).isdisjoint(splits.held_out.indices)


def test_without_a_training_part_validation_is_fitted_on() -> None:
    data = dataset(validation=[0] * 8, test=[0] * 5)
    splits = split(data, 2, 3)
    assert splits.search.part is data.part("validation") and splits.held_out.part is data.part("test")


@pytest.mark.parametrize(
    ("parts", "fitted", "judged"),
    [
        ({"train": 9, "eval": 8, "more": 7}, "train", "eval"),
        ({"all": 9, "test": 8}, "all", "test"),
        ({"all": 9, "eval": 8}, "all", "eval"),
        ({"train": 9, "all": 8}, "train", "train"),
        ({"one": 9, "other": 8}, "one", "one"),
    ],
)
def test_nothing_is_judged_by_what_is_learned_where_there_is_more(
    parts: dict[str, int], fitted: str, judged: str
) -> None:
    data = dataset(**{name: [0] * count for name, count in parts.items()})
    splits = split(data, 2, 3)
    assert splits.calibration.part is data.part(fitted)
    assert splits.held_out.part is data.part(judged)


def test_no_split_takes_what_others_need() -> None:
    with pytest.raises(
        UsageError, match=r"1,000,000 samples to calibrate on .* 400 .* 1 would be left to sea"
    ):
        split(dataset(train=[0, 1] * 200, test=[0]), 1_000_000)
    with pytest.raises(UsageError, match=r"samples to judge by are too many.* left to calibrate on"):
        split(dataset(train=[0, 1] * 200), held_out=1_000_000)
    assert len(split(dataset(train=[0, 1] * 200, test=[0])).calibration) > 40  # both shrink in proportion


def test_too_few_samples_are_an_error() -> None:
    for data in (dataset(train=[0, 1, 0]), dataset(train=[0], test=[0, 1])):
        with pytest.raises(DataError, match="too few samples"):
            split(data)
    with pytest.raises(UsageError, match="at least one"):
        split(dataset(train=[0] * 9), calibration=0)
    with pytest.raises(DataError, match="no samples"):
        split(Dataset("d", "classification", 2, {}))


def test_batches_cover_a_view_in_order() -> None:
    view = split(dataset(train=[0, 1] * 10, test=[0]), 7, 5).calibration
    batches = list(view.batches(3))
    assert [len(batch) for batch in batches] == [3, 3, 1]
    assert np.concatenate([batch.inputs[:, 0] for batch in batches]).tolist() == view.indices.tolist()
    assert np.concatenate([batch.labels for batch in batches]).tolist() == view.labels().tolist()
    with pytest.raises(UsageError):
        next(view.batches(0))


def test_the_beginnings_of_a_whole_test_part_hold_all_classes() -> None:
    """A run that is short of time judges by the first samples; files list them class by class."""
    splits = split(dataset(train=[0, 1, 2] * 9, test=[0] * 50 + [1] * 50 + [2] * 50), 2, 3)
    first = splits.held_out.take(30)
    assert np.bincount(first.labels()).tolist() == [10, 10, 10]
