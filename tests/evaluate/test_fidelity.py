"""Outputs of any kind are compared with the original's: the error of the worst one, and its interval."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from types import SimpleNamespace

import numpy as np
import pytest

from tensmith.engine import Session, TensorSpec
from tensmith.errors import DataError
from tensmith.evaluate.accuracy import all_outputs
from tensmith.evaluate.outcome import Outputs, joined
from tensmith.evaluate.task import Task

RNG = np.random.default_rng(0)
X = RNG.standard_normal((40, 3)).astype(np.float32)


@dataclass(frozen=True)
class View:
    """Samples without labels."""

    inputs: np.ndarray

    def batches(self, size: int) -> Iterator[SimpleNamespace]:
        for start in range(0, len(self.inputs), size):
            yield SimpleNamespace(inputs=self.inputs[start : start + size], labels=None)


class Doubling(Session):
    """An image of 400 pixels whose noise is `error` of it, and a state whose first axis is no batch."""

    inputs = (TensorSpec("x", "float32", ("n", 3)),)
    outputs = (TensorSpec("image", "float32", ("n", 20, 20)), TensorSpec("state", "float32", (1, "n", 2)))

    def __init__(self, error: float = 0.0) -> None:
        self._error = error

    def run(self, inputs):
        x = inputs["x"]
        image = np.repeat(x[:, :1, None], 20, 1).repeat(20, 2) * (1 + self._error)
        return {"image": image, "state": 2 * x[None, :, :2]}


def outcome(error: float, original: Outputs | None = None) -> Outputs:
    found = Task("fidelity").outcome(Doubling(error), View(X), original)
    assert isinstance(found, Outputs)
    return found


def test_the_error_is_that_of_the_worst_output() -> None:
    original = outcome(0.0)
    worse = outcome(0.01, original)
    assert worse.values.shape == (40, 2, 256)
    drop, metric = worse.drop(original), worse.metric()
    assert drop.value == pytest.approx(1, rel=1e-4) and drop.unit == "%"
    assert metric.value == pytest.approx(40, abs=1e-3) and metric.unit == "dB"
    assert original.metric().value == 120 and original.drop(original).value == 0


def test_the_interval_is_wider_where_samples_differ() -> None:
    truth = RNG.standard_normal((50, 1, 4)).astype(np.float32)
    factor = np.where(np.arange(50) < 5, 0.2, 0.01).reshape(50, 1, 1)
    drop = Outputs(truth * (1 + factor), truth).drop(Outputs(truth))
    assert drop.low < drop.value < drop.high


def test_answers_that_are_no_numbers_are_all_wrong() -> None:
    truth = np.ones((4, 1, 2), np.float32)
    broken = truth.copy()
    broken[1, 0, 0] = np.inf
    assert Outputs(broken).drop(Outputs(truth)).value == 100
    assert Outputs(truth).drop(Outputs(broken)).value == 0  # where the original says nothing, nothing is lost


class Finding(Session):
    """As many boxes as it finds, after the first of which one is no number."""

    inputs = (TensorSpec("x", "float32", (1, 3)),)
    outputs = (TensorSpec("boxes", "float32", ("boxes", 4)),)

    def __init__(self, boxes: int) -> None:
        self._boxes = np.ones((boxes, 4), np.float32)
        self._boxes[1:2] = np.nan

    def run(self, inputs):
        return {"boxes": self._boxes}


@pytest.mark.parametrize(("boxes", "lost"), [(12, 0), (11, 100), (15, 100)])
def test_elements_that_the_original_does_not_have_are_wrong(boxes: int, lost: float) -> None:
    original, found = (all_outputs(Finding(count), View(X)) for count in (12, boxes))
    drop = found.drop(original)
    assert (drop.value, drop.low, drop.high) == (lost, lost, lost)


def test_nothing_but_zeros_is_matched_by_zeros_alone() -> None:
    zeros = np.zeros((4, 1, 2), np.float32)
    assert Outputs(zeros).drop(Outputs(zeros)).value == 0
    assert Outputs(zeros + 1e-3).drop(Outputs(zeros)).value == 100


def test_shards_are_as_one_view() -> None:
    whole = joined([all_outputs(Doubling(), View(part)) for part in np.split(X, 4)])
    assert isinstance(whole, Outputs)
    np.testing.assert_array_equal(whole.values, all_outputs(Doubling(), View(X)).values)


def test_the_budget_is_per_cent_of_error() -> None:
    assert Task("fidelity").worst(120, 1) == pytest.approx(40)
    assert Task("loss").worst(2, 10) == pytest.approx(2.2)
    assert Task("accuracy").worst(92, 0.5) == 91.5


class Words(Doubling):
    outputs = (TensorSpec("words", "str", ("n",)),)

    def run(self, inputs):
        return {"words": np.array(["a"] * len(inputs["x"]), object)}


def test_words_have_no_fidelity() -> None:
    with pytest.raises(DataError, match=r"'words'.*no numbers"):
        all_outputs(Words(), View(X))
