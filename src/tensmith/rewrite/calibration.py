"""What lossy methods may ask about the values a program computes on calibration data.

The methods see only this protocol; who runs the program (an engine, floors above) is not their business.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol, TypeAlias

import numpy as np

from tensmith.errors import ProgramError
from tensmith.formula.arith import Array
from tensmith.ir import Program

BINS = 2048
# Values counted of one batch; the extremes are always those of all.
_MOST_COUNTED = 1 << 18
# Of a layer's second moments in doubles: those of wider layers are not gathered.
MOST_MOMENT_BYTES = 1 << 30


@dataclass(frozen=True)
class Histogram:
    """A histogram of the magnitudes' signed values over [low, high], and the exact extremes seen.

    counts: [2048]; bin i covers low + i*(high-low)/2048 and up. Histograms of batches merge by widening, so
    one pass over the data suffices.
    """

    low: float
    high: float
    counts: Array

    @staticmethod
    def of(values: Array) -> Histogram:
        """The histogram of one batch. Not-a-number and infinite values are left out."""
        finite = values[np.isfinite(values)]
        if finite.size == 0:
            return Histogram(0.0, 0.0, np.zeros(BINS))
        low, high = float(finite.min()), float(finite.max())
        if finite.size > _MOST_COUNTED:  # drawn, as steps of one length may meet the same channels each time
            finite = finite[np.random.default_rng(0).integers(0, finite.size, _MOST_COUNTED)]
        # A range may hold fewer numbers than there are bins, of halves often, of doubles hardly ever.
        if high - low <= BINS * np.spacing(max(abs(low), abs(high))):
            counts = np.zeros(BINS)
            counts[0] = finite.size
            return Histogram(low, high, counts)
        counts, _ = np.histogram(finite.astype(np.float64), bins=BINS, range=(low, high))
        return Histogram(low, high, counts.astype(np.float64))

    @property
    def centres(self) -> Array:
        """The middle of each bin: [2048]."""
        width = (self.high - self.low) / BINS
        return np.asarray(self.low + width * (np.arange(BINS) + 0.5))

    def merged(self, other: Histogram) -> Histogram:
        """Both histograms over the union of their ranges; counts move to the bin of their centre."""
        if not self.counts.any():
            return other
        if not other.counts.any():
            return self
        low, high = min(self.low, other.low), max(self.high, other.high)
        counts = np.zeros(BINS)
        for part in (self, other):
            if high == low:
                counts[0] += part.counts.sum()
                continue
            place = ((part.centres - low) * (BINS / (high - low))).astype(np.int64).clip(0, BINS - 1)
            np.add.at(counts, place, part.counts)
        return Histogram(low, high, counts)


@dataclass(frozen=True)
class Moment:
    """First and second moments of what a weight multiplies, over calibration positions.

    For a convolution, rows are im2col patches: depth d = C/group * prod(kernel), one matrix a group.
    For a matmul, d is the contracted size. For states of a recurrent layer, one matrix a direction, of the
    states after each step. second: [group, d, d], mean of outer products; first: [group, d];
    count: positions averaged over.
    """

    first: Array
    second: Array
    count: int

    @property
    def about_mean(self) -> Array:
        """The second moments about the mean."""
        return np.asarray(self.second - self.first[..., :, None] * self.first[..., None, :])


class Calibration(Protocol):
    """Statistics of a program's values over the calibration split, computed when asked for."""

    def histograms(self, program: Program, values: Iterable[str]) -> Mapping[str, Histogram]:
        """Histograms of the named floating values."""

    def moment(self, program: Program, site: str) -> Moment:
        """Moments of what the layer, or the matrix of a recurrent layer, at `site` multiplies."""

    def trained(self, weights: str) -> Mapping[str, Array]:
        """The arrays of that hash that training found, by the constants they replace; ProgramError if they
        are not at hand."""


Kind: TypeAlias = Literal["histogram", "moment"]
Statistic: TypeAlias = Histogram | Moment


@dataclass(frozen=True, eq=False)
class Question:
    """What a method asked of a calibration: one statistic of one value, or site, of a program."""

    program: Program
    kind: Kind
    name: str

    def ask(self, calibration: Calibration) -> Statistic:
        """The answer."""
        if self.kind == "moment":
            return calibration.moment(self.program, self.name)
        return calibration.histograms(self.program, [self.name])[self.name]


@dataclass
class RelayedCalibration:
    """A calibration that answers from `source`; what another does besides, it does in `answers`."""

    source: Calibration

    def answers(self, program: Program, kind: Kind, names: Sequence[str]) -> Mapping[str, Any]:
        """The statistics of one kind, by the values or sites that they are of."""
        if kind == "moment":
            return {name: self.source.moment(program, name) for name in names}
        return self.source.histograms(program, names)

    def histograms(self, program: Program, values: Iterable[str]) -> Mapping[str, Histogram]:
        """See Calibration."""
        return self.answers(program, "histogram", list(values))

    def moment(self, program: Program, site: str) -> Moment:
        """See Calibration."""
        found: Moment = self.answers(program, "moment", [site])[site]
        return found

    def trained(self, weights: str) -> Mapping[str, Array]:
        """See Calibration; this is no statistic, and the step that asks knows its hash."""
        return self.source.trained(weights)


@dataclass
class Listening(RelayedCalibration):
    """A calibration that notes what it is asked."""

    asked: list[Question] = field(default_factory=list)

    def answers(self, program: Program, kind: Kind, names: Sequence[str]) -> Mapping[str, Any]:
        self.asked += [Question(program, kind, name) for name in names]
        return super().answers(program, kind, names)


class WithoutData:
    """The calibration of whoever has no data: methods that ask nothing work, and others are refused."""

    def histograms(self, program: Program, values: Iterable[str]) -> Mapping[str, Histogram]:
        """See Calibration."""
        raise _no_data()

    def moment(self, program: Program, site: str) -> Moment:
        """See Calibration."""
        raise _no_data()

    def trained(self, weights: str) -> Mapping[str, Array]:
        """See Calibration."""
        raise _no_data()


def _no_data() -> ProgramError:
    return ProgramError("this lossy method asks for statistics of data, and there is no data")
