"""What a model answered, sample by sample: enough to pair two models without a re-run."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Protocol, Self

import numpy as np

from tensmith.errors import DataError
from tensmith.evaluate.detection import Detections
from tensmith.evaluate.statistics import Z_95, estimate, tango, wilson
from tensmith.formula.arith import Array
from tensmith.report.metric import Metric, exact, spread

# The error at which outputs count as the same: what float32 cannot tell apart, 120 dB.
_LEAST_ERROR = 1e-6


class Outcome(Protocol):
    """The result of one model on one view."""

    def metric(self) -> Metric:
        """How good the model is, in the task's own unit."""

    def drop(self, original: Self, z: float = Z_95) -> Metric:
        """How much worse than `original` on the same samples, paired; below 0 is better.

        z: how wide the interval is, in standard errors.
        """


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
        hits: Array = (self.predicted == self.labels) & (self.predicted >= 0)
        return hits

    def metric(self) -> Metric:
        """Top-1 accuracy in per cent, Wilson interval."""
        return _percentage(self.correct)

    def drop(self, original: Self, z: float = Z_95) -> Metric:
        """Points of accuracy lost (from 92% to 91% is 1 "pt"), Tango's paired interval."""
        self._check_pairs(original)
        lost = int(np.sum(original.correct & ~self.correct))
        gained = int(np.sum(self.correct & ~original.correct))
        low, high = tango(lost, gained, len(self.predicted), z)
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
        rows = np.stack([self.nats, self.tokens], axis=1)[self.tokens > 0]
        return spread(*estimate(rows, _ratio), "nats/token")

    def drop(self, original: Self, z: float = Z_95) -> Metric:
        """Per cent more nats a token than the original, paired bootstrap by row."""
        if not np.array_equal(self.tokens, original.tokens):
            raise _not_paired()
        rows = np.stack([self.nats - original.nats, original.nats], axis=1)[self.tokens > 0]
        value, low, high = estimate(rows, _ratio, z)
        return spread(100 * value, 100 * low, 100 * high, "%")


@dataclass(frozen=True, eq=False)
class Outputs:
    """What a model puts out, whatever it is: float32 [samples, outputs, elements], infinite for what is no
    number, NaN for no element.

    `truth` are those of the original. An output's error is the norm of the difference over the norm of the
    truth, over all samples, at most 1, and that where it has other elements than the truth; a model's is that
    of its worst output, so that a wrong small output does not hide behind a large one.
    """

    values: Array
    truth: Array | None = None

    def metric(self) -> Metric:
        """Signal-to-noise ratio in dB, of the truth to the difference: 40 dB are an error of 1%, 60 of 0.1%.

        Bootstrap by sample. The same outputs have 120 dB.
        """
        error, low, high = self._error(self.values if self.truth is None else self.truth)
        return spread(decibels(error), decibels(high), decibels(low), "dB")

    def drop(self, original: Self, z: float = Z_95) -> Metric:
        """The error against the original's outputs, in per cent, bootstrap by sample."""
        if self.values.shape != original.values.shape:
            raise _not_paired()
        error, low, high = self._error(original.values, z)
        return spread(100 * error, 100 * low, 100 * high, "%")

    def beside(self, original: Outputs) -> Outputs:
        """The same outputs with `original`'s as the truth."""
        return Outputs(self.values, original.values)

    def _error(self, truth: Array, z: float = Z_95) -> tuple[float, float, float]:
        """The error and its interval."""
        known = np.isfinite(truth)
        difference = np.where(known, self.values - np.where(known, truth, 0), 0).astype(np.float64)
        alike = np.isfinite(difference) & (np.isnan(truth) == np.isnan(self.values))
        noise = np.square(np.where(alike, difference, np.inf)).sum(axis=2)
        signal = np.square(np.where(known, truth, 0), dtype=np.float64).sum(axis=2)
        energies = np.stack([noise, signal], axis=-1)
        error, low, high = estimate(energies, _worst_error, z)
        return error, max(0.0, low), high


def decibels(error: float) -> float:
    """The signal-to-noise ratio of a relative error."""
    return -20 * math.log10(max(error, _LEAST_ERROR))


def _worst_error(energies: Array) -> Array:
    """Of noise and signal [..., samples, outputs, 2], the error of the worst output: [...]."""
    noise, signal = np.moveaxis(energies.sum(axis=-3), -1, 0)
    share = np.where(noise < signal, noise / np.where(signal > 0, signal, 1), noise > 0)
    worst: Array = np.sqrt(share.max(axis=-1))
    return worst


def _ratio(rows: Array) -> Array:
    """Sum of the first column over the sum of the second: [..., n, 2] -> [...]."""
    sums = rows.sum(axis=-2)
    ratio: Array = sums[..., 0] / sums[..., 1]
    return ratio


@dataclass(frozen=True)
class Score:
    """What the user's own evaluation function returned; it alone says nothing of a spread."""

    value: float

    def metric(self) -> Metric:
        """The score, without an interval."""
        return exact(self.value, "score")

    def drop(self, original: Self, z: float = Z_95) -> Metric:
        """How much the score fell."""
        return exact(original.value - self.value, "score")


Answers = Classification | Detections | LanguageModel | Outputs | Score
# Those that are of each sample.
_ANSWERS = (Classification, Detections, LanguageModel, Outputs)


def answer_arrays(answers: Answers) -> dict[str, Array]:
    """What was answered, sample by sample, by name."""
    named = {field.name: getattr(answers, field.name) for field in fields(answers)}
    return {name: array for name, array in named.items() if array is not None}


def answers_of(arrays: dict[str, Array]) -> Answers:
    """The answers of `answer_arrays`."""
    kind = next(kind for kind in _ANSWERS if fields(kind)[0].name in arrays)
    return kind(**arrays)


def joined(parts: Sequence[Answers]) -> Answers:
    """The answers on some samples after others, as those on all of them; a score stays alone."""
    if len(parts) == 1:
        return parts[0]
    columns = [answer_arrays(part) for part in parts]
    return answers_of({name: np.concatenate([each[name] for each in columns]) for name in columns[0]})


def first(answers: Answers, samples: int) -> Answers:
    """The answers on the first so many samples; a score is of all."""
    if isinstance(answers, Score):
        return answers
    return answers_of({name: array[:samples] for name, array in answer_arrays(answers).items()})


def _not_paired() -> DataError:
    return DataError("the two models did not answer the same samples; evaluate both on one view")
