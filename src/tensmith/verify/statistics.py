"""The calibration statistics that lossy steps were made with: hashed, and kept where they are small.

With them, or with others of the same hashes, a trail replays to the very file.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from tensmith.errors import ProgramError, VerificationError
from tensmith.formula.arith import Array
from tensmith.ir import Program
from tensmith.rewrite.archives import digest_of, read_arrays, read_trained, write_arrays
from tensmith.rewrite.calibration import (
    BINS,
    Calibration,
    Histogram,
    Kind,
    Moment,
    Question,
    RelayedCalibration,
    Statistic,
)
from tensmith.rewrite.lossy.weights import find_multiplying

FILE = "calibration.npz"
# More than this is not kept beside a model: the data gives it again.
MOST_BYTES = 8 << 20


def key_of(program: Program, kind: Kind, name: str) -> str:
    """What a statistic is stored under."""
    return hashlib.sha256("\0".join((program.digest, kind, name)).encode()).hexdigest()[:32]


def arrays_of(statistic: Statistic) -> dict[str, Array]:
    """A statistic as arrays by name, without loss."""
    if isinstance(statistic, Histogram):
        return {"histogram": np.concatenate([[statistic.low, statistic.high], statistic.counts])}
    narrow = statistic.second.astype(np.float32)
    second = narrow if np.array_equal(narrow, statistic.second) else statistic.second
    return {"first": statistic.first, "second": second, "count": np.array(statistic.count, np.int64)}


@dataclass(frozen=True)
class Statistics:
    """Hashes by key, and all arrays by key, or none where they are too large to be kept."""

    hashes: Mapping[str, str]
    arrays: Mapping[str, Mapping[str, Array]]


def collect(asked: Iterable[Question], calibration: Calibration) -> Statistics:
    """The answers to all that was asked."""
    hashes: dict[str, str] = {}
    kept: dict[str, Mapping[str, Array]] = {}
    total = 0
    for question in asked:
        key = key_of(question.program, question.kind, question.name)
        if key in hashes:
            continue
        arrays = arrays_of(question.ask(calibration))
        hashes[key] = digest_of(arrays)
        total += sum(array.nbytes for array in arrays.values())
        kept = {**kept, key: arrays} if total <= MOST_BYTES else {}
    return Statistics(hashes, kept)


def write_statistics(statistics: Statistics, folder: Path) -> None:
    """Writes the file, if anything is kept."""
    if statistics.arrays:
        named = {
            f"{key}.{name}": a for key, arrays in statistics.arrays.items() for name, a in arrays.items()
        }
        write_arrays(folder / FILE, named)


def read_statistics(path: Path) -> KeptStatistics:
    """The statistics in a file that may be a stranger's; VerificationError if it holds none."""
    found: dict[str, dict[str, Array]] = {}
    for member, array in read_arrays(path, 2 * MOST_BYTES, "calibration statistics").items():
        key, _, name = member.partition(".")
        found.setdefault(key, {})[name] = array
    for arrays in found.values():
        shapes = {name: array.shape for name, array in arrays.items()}
        match shapes:
            case {"histogram": (size,)} if len(shapes) == 1 and size == BINS + 2:
                continue
            case {"first": (groups, d), "second": second, "count": ()} if len(shapes) == 3:
                count = arrays["count"]
                if second == (groups, d, d) and count.dtype.kind in "iu" and count > 0:
                    continue
        raise VerificationError(f"{path} holds a statistic of no known shape or count: {str(shapes)[:100]}")
    return KeptStatistics(found, path.parent)


@dataclass(frozen=True)
class KeptStatistics:
    """A calibration that answers from arrays by key, and from a folder of trained weights; ProgramError for
    what they do not hold."""

    arrays: Mapping[str, Mapping[str, Array]]
    folder: Path | None = None

    def histograms(self, program: Program, values: Iterable[str]) -> Mapping[str, Histogram]:
        """See Calibration."""
        found = {}
        for name in values:
            array = self._array(program, "histogram", name, "histogram")
            found[name] = Histogram(float(array[0]), float(array[1]), array[2:])
        return found

    def moment(self, program: Program, site: str) -> Moment:
        """See Calibration."""
        first, second, count = (
            self._array(program, "moment", site, part) for part in ("first", "second", "count")
        )
        layer = find_multiplying(program, site)
        if first.shape != (layer.groups, layer.depth):
            raise ProgramError(f"the moment of '{site}' that is kept is of a layer of another size")
        return Moment(first, second.astype(np.float64), int(count))

    def trained(self, weights: str) -> Mapping[str, Array]:
        """See Calibration."""
        return read_trained(self.folder, weights)

    def _array(self, program: Program, kind: Kind, name: str, part: str) -> Array:
        arrays = self.arrays.get(key_of(program, kind, name), {})
        if part not in arrays:
            raise ProgramError(f"the {kind} of '{name}' is not among the statistics that are kept")
        return arrays[part]


@dataclass
class Compared(RelayedCalibration):
    """A calibration whose answers are held against stated hashes, and against those that are `kept`.

    other: what has another hash, or none; far: what of that is not near the kept one.
    """

    hashes: Mapping[str, str]
    kept: KeptStatistics | None = None
    met: set[str] = field(default_factory=set)
    other: list[str] = field(default_factory=list)
    far: list[str] = field(default_factory=list)

    def answers(self, program: Program, kind: Kind, names: Sequence[str]) -> Mapping[str, Any]:
        found = super().answers(program, kind, names)
        for name, statistic in found.items():
            self._compare(program, kind, name, statistic)
        return found

    def _compare(self, program: Program, kind: Kind, name: str, statistic: Statistic) -> None:
        key = key_of(program, kind, name)
        self.met.add(key)
        arrays = arrays_of(statistic)
        if self.hashes.get(key) != digest_of(arrays):
            self.other.append(f"the {kind} of '{name}'")
            if self.kept is not None and not _near(arrays, self.kept.arrays.get(key, {})):
                self.far.append(f"the {kind} of '{name}'")


def _near(ours: Mapping[str, Array], theirs: Mapping[str, Array]) -> bool:
    """Whether two statistics are of the same data.

    Engines round otherwise on other machines: by 1e-6 of a value and less, and a value that lies beside the
    border of two bins moves to the other. Batches of another size draw other positions for a moment. All of
    it together is far less than a hundredth of extremes and counts, or a tenth of moments.
    """
    if ours.keys() != theirs.keys() or any(ours[n].shape != theirs[n].shape for n in ours):
        return False
    if "histogram" in ours:
        (a, b), (c, d) = ours["histogram"][:2], theirs["histogram"][:2]
        moved = np.abs(np.cumsum(ours["histogram"][2:] - theirs["histogram"][2:])).max()
        ends = max(abs(a - c), abs(b - d)) <= 0.01 * max(abs(a), abs(b))
        return bool(ends and moved <= 0.01 * ours["histogram"][2:].sum())
    return all(np.linalg.norm(ours[n] - theirs[n]) <= 0.1 * np.linalg.norm(ours[n]) for n in ours)
