"""Sequential judging: few samples where it is clear what a candidate loses, more where it is close.

Every candidate answers a beginning of the same samples, in stages that double up to what its share of the
time allows, and is paired with the original on it. After each stage the bound of its drop may settle where it
stands. Looking several times must not cost confidence: the chance to be wrong is shared out among the stages,
half of it to the last, a quarter to the one before, and so on, and the union bound holds for all together
(alpha spending: Lan and DeMets, Biometrika 70(3), 1983). What has to hold is the drop on held-out samples,
which are a sample too: both variances add.
"""

from __future__ import annotations

import itertools
import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from statistics import NormalDist

import numpy as np

from tensmith.data import Subset
from tensmith.evaluate.contender import Contender
from tensmith.evaluate.judge import Judge
from tensmith.evaluate.outcome import Answers, Classification, Outcome, first, joined
from tensmith.evaluate.pace import SAMPLE
from tensmith.report.metric import CONFIDENCE, Metric, exact

# Who leaves is promised nothing: so much of the width is reason enough to go on with others.
_LEAVING = 0.4
# Judged whatever the time: fewer say hardly anything.
FEWEST = 128
# Shares of the time that are lent to the first candidates: these are the safest, and worth knowing well.
_LENT = 4

Settled = Callable[[Metric], bool]


@dataclass(frozen=True)
class Assessment:
    """What is known of a contender: its accuracy and its drop on so many samples of the search split.

    most: what it loses at most on held-out data, with CONFIDENCE. changed: per cent of the samples that it
    answers otherwise than the original; None where answers are not of classes.
    """

    accuracy: Metric
    drop: Metric
    samples: int
    most: float
    changed: float | None = None


def stages(samples: int, start: int) -> tuple[int, ...]:
    """How many samples are seen after each stage: `start`, twice as many, and so on, up to all.

    The last stage brings no fewer than the first.
    """
    doubled = (start << k for k in itertools.count())
    doubling = itertools.takewhile(lambda seen: seen + start <= samples, doubled)
    return (*doubling, samples)


def widths(count: int) -> list[float]:
    """How wide, in standard errors, the one-sided bound of each of `count` stages is, for all of them to hold
    with CONFIDENCE."""
    return [-NormalDist().inv_cdf((1 - CONFIDENCE) / 2 ** (count - k)) for k in range(count)]


def bounds(ours: Outcome, theirs: Outcome, samples: int, ahead: int, width: float) -> Metric:
    """The drop, with what it is likely to be at least, and is at most, on `ahead` other samples."""
    drop = ours.drop(theirs, width)
    factor = math.sqrt(1 + samples / ahead)
    least = drop.value - _LEAVING * factor * (drop.value - drop.low)
    most = drop.value + factor * (drop.high - drop.value)
    return Metric(drop.value, least, most, drop.unit, drop.evidence)


def judged(
    answered: Callable[[int], tuple[Outcome, Outcome]],
    seen: Sequence[int],
    ahead: int,
    settled: Settled,
) -> Assessment:
    """What is known when a stage settles it, or after the last one.

    answered: what the contender and the original answer on the first so many samples. seen: after each stage.
    settled: of a drop with its bounds.
    """
    for samples, width in zip(seen, widths(len(seen))):
        ours, theirs = answered(samples)
        bound = bounds(ours, theirs, samples, ahead, width)
        if settled(bound):
            break
    return Assessment(ours.metric(), ours.drop(theirs), samples, bound.high, changed_answers(ours, theirs))


def changed_answers(ours: Outcome, theirs: Outcome) -> float | None:
    """Per cent of the samples that have another answer; None where answers are not of classes."""
    if isinstance(ours, Classification) and isinstance(theirs, Classification):
        return 100 * float(np.mean(ours.predicted != theirs.predicted))
    return None


@dataclass
class Standard:
    """What candidates are held against: the original's answers, on as much of `view` as anybody needed.

    A score of the user's is of the whole view. ahead: how many held-out samples will be judged. share:
    seconds of judging that are a candidate's due; what one leaves, later ones may take.
    """

    judge: Judge
    original: Contender
    view: Subset
    ahead: int
    share: float
    _answers: list[Answers] = field(default_factory=list)
    _samples: int = 0
    _candidates: int = 0
    _seconds: float = 0.0

    def judged(self, contender: Contender, settled: Settled) -> Assessment:
        """What is known of a contender when it is settled, or its time is spent.

        EngineError if it cannot run.
        """
        seen = self._seen()
        if contender == self.original:
            theirs = self.of_original(seen[0])
            return Assessment(theirs.metric(), exact(0.0, theirs.drop(theirs).unit), seen[0], 0.0)
        parts: list[Answers] = []
        heard, seconds = 0, 0.0
        with self.judge.answering(contender) as answers:

            def answered(samples: int) -> tuple[Outcome, Outcome]:
                nonlocal heard, seconds
                theirs = self.of_original(samples)
                began = time.monotonic()
                parts.append(answers(self._between(heard, samples)))
                heard, seconds = samples, seconds + time.monotonic() - began
                return self.judge.task.judged(joined(parts), theirs), theirs

            found = judged(answered, seen, self.ahead, settled)
        self._candidates, self._seconds = self._candidates + 1, self._seconds + seconds
        return found

    def _seen(self) -> tuple[int, ...]:
        """How many samples the next candidate has answered after each stage, if nothing settles it before."""
        if not self.judge.task.staged:
            return (len(self.view),)
        due = self.share * (self._candidates + _LENT) - self._seconds
        affordable = max(FEWEST, int(due / max(self.judge.pace.usual(SAMPLE), 1e-9)))
        return stages(min(len(self.view), affordable), self.judge.at_once)

    def of_original(self, samples: int) -> Outcome:
        """What the original answers on the first so many samples."""
        if samples > self._samples:
            with self.judge.answering(self.original) as answers:
                self._answers.append(answers(self._between(self._samples, samples)))
            self._answers, self._samples = [joined(self._answers)], samples
        return self.judge.task.judged(first(self._answers[0], samples), None)

    def _between(self, start: int, stop: int) -> Subset:
        return Subset(self.view.part, self.view.indices[start:stop])
