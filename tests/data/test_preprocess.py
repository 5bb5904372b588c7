"""Preprocessing: the usual maps, their names, and choosing among them."""

from __future__ import annotations

import math

import numpy as np
import pytest

from tensmith.data import candidates, choose, parse_preprocess
from tensmith.errors import DataError, UsageError

IMAGES = np.array([0, 51, 255], np.float32).reshape(1, 3, 1, 1)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("raw", [0, 51, 255]),
        ("unit", [0, 0.2, 1]),
        ("tf", [-1, -0.6, 1]),
        ("0.5/0.5", [-1, -0.6, 1]),
        ("0,0.1,0.5/0.1,0.2,0.25", [0, 0.5, 2]),
        ("imagenet", [-0.485 / 0.229, (0.2 - 0.456) / 0.224, (1 - 0.406) / 0.225]),
    ],
)
def test_names_mean_what_they_say(text: str, expected: list[float]) -> None:
    result = parse_preprocess(text)(IMAGES)
    assert result.dtype == np.float32
    assert np.allclose(result.ravel(), expected, atol=1e-6)  # a few float32 roundings of values up to 2.7


def test_raw_changes_nothing() -> None:
    assert np.array_equal(parse_preprocess("raw")(IMAGES), IMAGES)


@pytest.mark.parametrize(
    "text", ["", "half", "0.5", "0.5/0", "a/b", "0.5/-1", "nan/1", "1,2/1,2,3", "1/2/3", "inf/1"]
)
def test_other_words_are_refused(text: str) -> None:
    with pytest.raises(UsageError, match="preprocessing"):
        parse_preprocess(text)


def test_channels_must_match() -> None:
    with pytest.raises(DataError, match="3 channels"):
        parse_preprocess("imagenet")(IMAGES[:, :1])
    with pytest.raises(DataError):
        parse_preprocess("unit")(np.zeros((3, 4)))


@pytest.mark.parametrize("channels", [1, 3, 4])
def test_every_candidate_fits_its_channels(channels: int) -> None:
    images = np.zeros((2, channels, 2, 2), np.float32)
    assert all(candidate(images).shape == images.shape for candidate in candidates(channels))


def test_choose_keeps_the_best_and_all_scores() -> None:
    scores = {"raw": 0.1, "unit": 0.9, "tf": 0.9, "mnist": math.nan}
    choice = choose(candidates(1), lambda preprocess: scores[preprocess.name])
    assert choice.best.name == "unit"
    assert [preprocess.name for preprocess, _ in choice.scores] == list(scores)
    with pytest.raises(DataError, match="--preprocess"):
        choose(candidates(1), lambda _: math.nan)
