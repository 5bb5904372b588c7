"""What a model answered, sample by sample: enough to pair two models without a re-run."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol, Self

import numpy as np

from tensmith.errors import DataError
from tensmith.evaluate.statistics import bootstrap, tango, wilson
from tensmith.report.metric import Metric, exact, spread

Array = np.ndarray[Any, Any]


class Outcome(Protocol):
    """The result of one model on one view."""

    def metric(self) -> Metric:
        """How good the model is, in the task's own unit."""

    def drop(self, original: Self) -> Metric:
        """How much worse than `original` on the same samples, paired; below 0 is better."""


@dataclass(frozen=True, eq=False)
class Classification:
    """Top-1 answers and the truth, int64 [samples] each; -1 is an answer that is not a number.

    `labels` is None for data without truth: then only agreement with another model is known.
    """

    predicted: Array
    labels: Array | None = None

    @property
    def correct(self) -> Array:
        """bool [samples]; DataError without labels."""
        if self.labels is None:
            raise DataError(
                "the data has no labels, so accuracy is unknown; compare with the original's answers"
            )
        hits: Array = self.predicted == self.labels
        return hits

    def metric(self) -> Metric:
        """Top-1 accuracy in per cent, Wilson interval."""
        return _percentage(self.correct)

    def drop(self, original: Self) -> Metric:
        """Points of accuracy lost (from 92% to 91% is 1 "pt"), Tango's paired interval."""
        self._check_pairs(original)
        lost = int(np.sum(original.correct & ~self.correct))
        gained = int(np.sum(self.correct & ~original.correct))
        low, high = tango(lost, gained, len(self.predicted))
        return spread(100 * (lost - gained) / len(self.predicted), 100 * low, 100 * high, "pt")

    def agreement(self, original: Self) -> Metric:
        """Per cent of samples with the original's answer, Wilson interval; needs no labels."""
        self._check_pairs(original)
        return _percentage((self.predicted == original.predicted) & (self.predicted >= 0))

    def judged_by(self, original: Classification) -> Classification:
        """The same answers with `original`'s in place of the truth: accuracy then means agreement."""
        self._check_pairs(original)
        return Classification(self.predicted, original.predicted)

    def _check_pairs(self, original: Classification) -> None:
        ours, theirs = self.labels, original.labels
        same = (ours is None and theirs is None) or (
            ours is not None and theirs is not None and np.array_equal(ours, theirs)
        )
        if self.predicted.shape != original.predicted.shape or not same:
            raise _not_paired()


def _percentage(hits: Array) -> Metric:
    low, high = wilson(int(hits.sum()), len(hits))
    return spread(100 * float(hits.mean()), 100 * low, 100 * high, "%")


@dataclass(frozen=True, eq=False)
class LanguageModel:
    """Cross-entropy of each row, a story or a part of one: float64 sums of nats, int64 counts of tokens."""

    nats: Array
    tokens: Array

    def metric(self) -> Metric:
        """Nats a token over all rows, bootstrap by row: the tokens of one story are not independent."""
        rows = np.stack([self.nats, self.tokens], axis=1)
        return spread(float(_ratio(rows)), *bootstrap(rows, _ratio), "nats/token")

    def drop(self, original: Self) -> Metric:
        """Per cent more nats a token than the original, paired bootstrap by row."""
        if not np.array_equal(self.tokens, original.tokens):
            raise _not_paired()
        rows = np.stack([self.nats - original.nats, original.nats], axis=1)
        low, high = bootstrap(rows, _ratio)
        return spread(100 * float(_ratio(rows)), 100 * low, 100 * high, "%")


Answers = Classification | LanguageModel


def _ratio(rows: Array) -> Array:
    """Sum of the first column over the sum of the second: [..., n, 2] -> [...]."""
    sums = rows.sum(axis=-2)
    ratio: Array = sums[..., 0] / sums[..., 1]
    return ratio


@dataclass(frozen=True)
class Score:
    """What the user's own evaluation function returned; it alone says nothing of a spread."""

    value: float
    unit: str = "score"
    higher_is_better: bool = True

    def metric(self) -> Metric:
        """The score, without an interval."""
        return exact(self.value, self.unit)

    def drop(self, original: Self) -> Metric:
        """How much the score fell, or rose where lower is better."""
        fell = original.value - self.value
        return exact(fell if self.higher_is_better else -fell, self.unit)


def _not_paired() -> DataError:
    return DataError("the two models did not answer the same samples; evaluate both on one view")
