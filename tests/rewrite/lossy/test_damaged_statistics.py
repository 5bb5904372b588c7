"""Statistics that are hard to use, and grids that meet again."""

from __future__ import annotations

import numpy as np

from tensmith.evaluate.outcome import Classification
from tensmith.rewrite.calibration import Histogram
from tensmith.rewrite.lossy.coded import coded
from tensmith.rewrite.lossy.compensation import cholesky
from tensmith.rewrite.lossy.grid import _compensated
from tensmith.rewrite.lossy.placement import Placement


def test_moments_that_rounding_left_indefinite_have_a_factor() -> None:
    moments = np.array([[1.0, 1.0], [1.0, 1.0 - 1e-6]])
    factor = cholesky(moments)
    assert np.allclose(factor @ factor.T, moments, atol=0.2)


def test_zeros_stay_whatever_makes_up_for_what() -> None:
    random = np.random.default_rng(0)
    rows, inputs = (
        random.standard_normal((1, 8, 16)),
        random.standard_normal((64, 16)) @ np.triu(np.ones((16, 16))),
    )
    rows[random.random(rows.shape) < 0.5] = 0.0
    second = (inputs.T @ inputs / 64)[None]
    codes, _ = coded(rows, second, 1e-4, 1, 127)
    made = _compensated(rows[0], np.full(8, 0.05), second[0], 127)
    assert np.count_nonzero(codes) and not codes[rows == 0].any() and not made[rows[0] == 0].any()


def test_every_channel_of_a_large_value_is_counted() -> None:
    """As many channels as a step from one counted number to the next would be long."""
    values = np.zeros((1 << 18, 6), np.float32)
    values[:, 5] = 1.0
    counts = Histogram.of(values).counts
    assert 0.1 < counts[-1] / counts.sum() < 0.25


def test_a_part_that_is_on_the_grid_already_loses_no_span() -> None:
    placement = Placement([], same={"pooled": "a"})
    placement.join(("a", "b"), "first")
    placement.join(("a", "pooled"), "second")
    assert "first" in placement.spans["second"]
    assert {placement.grid_of(name) for name in ("a", "b", "pooled", "first")} == {"second"}


def test_what_is_no_number_is_never_right() -> None:
    answers = Classification(np.array([-1, 1]), np.array([-1, 1]))
    assert answers.correct.tolist() == [False, True]
