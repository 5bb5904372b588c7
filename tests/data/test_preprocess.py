"""Preprocessing: the usual maps, their names, and choosing among them."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest

from tensmith.data import Preprocess, PreprocessChoice, candidates, choose, parse_preprocess
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


def test_only_colours_are_turned_round() -> None:
    with pytest.raises(DataError, match="for images of 3 channels"):
        parse_preprocess("raw-bgr")(np.zeros((2, 8, 8, 3), np.float32))


def scored(**means: float) -> Callable[[Preprocess, int, int], np.ndarray]:
    """Log-likelihoods of 1000 samples: what all share is wide; to mnist or cifar10 they differ by 1 or so."""
    common = 10 * np.random.default_rng(0).standard_normal(1000)
    noise = np.resize([1.0, -1.0], 1000)

    def likelihoods(preprocess: Preprocess, start: int, stop: int) -> np.ndarray:
        own = noise if preprocess.name in ("mnist", "cifar10") else 0
        return (common + own + means[preprocess.name])[start:stop]

    return likelihoods


def test_the_likeliest_is_chosen() -> None:
    choice = choose(candidates(1), scored(raw=0, unit=1, tf=0, mnist=0))
    assert (choice.best.name, choice.tied, choice.samples) == ("unit", (), 100)
    assert "works best" in str(choice)


def test_more_samples_decide_what_few_leave_open() -> None:
    # The paired difference has a standard error of 0.058 after 300 samples and 0.032 after 1000.
    likelihoods = scored(raw=-9, unit=-9, tf=0, mnist=0.1)
    assert choose(candidates(1), likelihoods, (300,)).tied
    assert choose(candidates(1), likelihoods) == PreprocessChoice(parse_preprocess("mnist"), (), 1000)


def test_of_those_that_cannot_be_told_apart_the_more_usual_is_taken() -> None:
    choice = choose(candidates(3), scored(raw=-9, unit=-9, tf=-9, imagenet=0, cifar10=0.02))
    assert (choice.best.name, [p.name for p in choice.tied], choice.samples) == (
        "imagenet",
        ["cifar10"],
        1000,
    )
    assert "under 'cifar10'" in str(choice) and "1000 images" in str(choice) and "--preprocess" in str(choice)


def test_a_single_sample_decides_nothing() -> None:
    assert len(choose(candidates(1), lambda *_: np.zeros(1)).tied) == 3


def test_scores_that_are_not_numbers_never_win() -> None:
    assert choose(candidates(1), scored(raw=math.nan, unit=-3, tf=-5, mnist=-5)).best.name == "unit"
    for scores in (np.array([math.nan]), np.zeros(0)):
        with pytest.raises(DataError, match="--preprocess"):
            choose(candidates(1), lambda *_, scores=scores: scores)
