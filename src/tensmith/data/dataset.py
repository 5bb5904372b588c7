"""What a dataset is: named parts, read by index; views of a part; batches of a view."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias, TypeVar

import numpy as np
import numpy.typing as npt

from tensmith.errors import DataError, UsageError

Array = npt.NDArray[Any]
# Samples [n, ...] for a model's only input, or by input name.
Inputs: TypeAlias = Array | Mapping[str, Array]
Indices = Sequence[int] | npt.NDArray[np.integer[Any]]
Task = Literal["classification", "detection", "language-model", "speech", "regression", "unlabelled"]
Modality = Literal["image", "text", "audio", "array"]

Source = TypeVar("Source")

TRAIN, VALIDATION, TEST, ALL = "train", "validation", "test", "all"

_PART_WORDS = {
    "train": TRAIN,
    "training": TRAIN,
    "val": VALIDATION,
    "valid": VALIDATION,
    "validation": VALIDATION,
    "dev": VALIDATION,
    "test": TEST,
    "testing": TEST,
    "t10k": TEST,
}


def part_name(word: str) -> str | None:
    """The part a folder or file name stands for ("val", "dev" -> "validation"), or None."""
    return _PART_WORDS.get(word.lower())


def by_part(sources: Iterable[Source], part_of: Callable[[Source], str], where: str) -> dict[str, Source]:
    """Sources by the names of their parts. DataError where two have one."""
    found: dict[str, Source] = {}
    for source in sources:
        part = part_of(source)
        if part in found:
            raise DataError(
                f"{where}: '{found[part]}' and '{source}' are both the part '{part}'; leave one of them out"
            )
        found[part] = source
    return found


class DatasetPart(ABC):
    """One part of a dataset ("train", "test"): samples that are read by index, when asked for.

    `ragged` says that samples may differ in shape, so that only equal shapes can share a batch.
    """

    ragged: bool = False

    @abstractmethod
    def __len__(self) -> int:
        """The number of samples."""

    @abstractmethod
    def inputs(self, indices: Indices) -> Inputs:
        """The samples at `indices`, first axis one entry an index; of models with several inputs, by name.

        Images: float32 [n, channels, height, width] in 0..255. Tokens: int64 [n, length]. Sound: float32
        [n, length] in -1..1. Raises DataError when a sample is damaged or shapes differ.
        """

    @abstractmethod
    def labels(self, indices: Indices) -> Array | None:
        """The labels at `indices`: int64 [n] classes, int64 [n, length] next tokens, str [n] transcripts, or
        float32 [n, boxes, 6] boxes: class (-1: none), left, top, right, bottom as shares of the image, and
        whether of a crowd. None for a part without labels."""

    def remark(self) -> str:
        """What is suspicious about the samples and soon seen, in words; "" for nothing."""
        return ""


class LazyParts(Mapping[str, DatasetPart]):
    """Parts that are opened the first time they are asked for: listing their names reads nothing."""

    def __init__(self, openers: Mapping[str, Callable[[], DatasetPart]]) -> None:
        self._openers = dict(openers)
        self.opened: dict[str, DatasetPart] = {}

    def __getitem__(self, name: str) -> DatasetPart:
        if name not in self.opened:
            self.opened[name] = self._openers[name]()
        return self.opened[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._openers)

    def __len__(self) -> int:
        return len(self._openers)


@dataclass(frozen=True, eq=False)
class Dataset:
    """Named parts of samples, and what they are for.

    `classes` is the number of labels a model tells apart (a language model's: its vocabulary), None where
    there is no such number. `source` is what the user wrote to name it. A `name` left empty becomes the
    reader's kind. `numbers_itself`: tokens have their numbers by what else is in the data, so that a model
    that tells more or fewer apart is of other data. `bytes_assumed`: tokens are bytes for want of a
    tokenizer, so that a model that tells more apart means others. `remark`: which files are in none of the
    parts, in words.
    """

    name: str
    task: Task
    classes: int | None
    parts: Mapping[str, DatasetPart]
    modality: Modality = "array"
    class_names: tuple[str, ...] = ()
    source: str = ""
    numbers_itself: bool = False
    bytes_assumed: bool = False
    remark: str = ""

    @property
    def small_labels(self) -> bool:
        """Whether labels are small beside samples, so that all of them are known at once."""
        return self.task in ("classification", "detection")

    def remarks(self) -> Iterator[str]:
        """What is suspicious about it and its parts, as far as they are open."""
        if self.remark:
            yield f"the data has {self.remark}"
        parts = self.parts.opened if isinstance(self.parts, LazyParts) else self.parts
        for name, part in parts.items():
            if found := part.remark():
                yield f"part '{name}' of the data has {found}"

    def part(self, name: str) -> DatasetPart:
        """The part called `name`; DataError when there is none."""
        if name not in self.parts:
            raise DataError(
                f"{self.source or self.name} has no part '{name}'; it has: {', '.join(self.parts)}"
            )
        return self.parts[name]


@dataclass(frozen=True, eq=False)
class Batch:
    """Inputs and labels of some samples; `labels` is None where there are none."""

    inputs: Inputs
    labels: Array | None

    def __len__(self) -> int:
        return sample_count(self.inputs)


def by_name(inputs: Inputs) -> Mapping[str, Array]:
    """Inputs as a mapping; an only input has no name."""
    return inputs if isinstance(inputs, Mapping) else {"": inputs}


def sample_count(inputs: Inputs) -> int:
    """How many samples there are: one where all inputs are scalars, which are each sample's."""
    named = by_name(inputs)
    return min((len(array) for array in named.values() if array.ndim), default=min(1, len(named)))


def sample_shapes(inputs: Inputs) -> dict[str, tuple[int, ...]]:
    """The shape of one sample of each input."""
    return {name: array.shape[1:] for name, array in by_name(inputs).items()}


def joined_inputs(parts: Sequence[Inputs]) -> Inputs:
    """Samples behind one another; all parts have the same inputs of the same shapes."""
    named = [by_name(part) for part in parts]
    joined = {name: np.concatenate([one[name] for one in named]) for name in named[0]}
    return joined if isinstance(parts[0], Mapping) else joined[""]


@dataclass(frozen=True, eq=False)
class Subset:
    """Some samples of a part, in the order of `indices` (int64 [n])."""

    part: DatasetPart
    indices: npt.NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.indices)

    def take(self, count: int) -> Subset:
        """The first `count` samples, or all when there are fewer."""
        return Subset(self.part, self.indices[:count])

    def labels(self) -> Array | None:
        """The labels of all samples, without reading the inputs where the format allows it."""
        return self.part.labels(self.indices)

    def batches(self, batch_size: int) -> Iterator[Batch]:
        """The samples in order, at most `batch_size` at a time, read as the iteration goes.

        In a ragged part a batch holds neighbours of one shape, so nothing is ever padded.
        """
        if batch_size < 1:
            raise UsageError(f"a batch holds at least one sample, not {batch_size}")
        for start in range(0, len(self), batch_size):
            chosen = self.indices[start : start + batch_size]
            if self.part.ragged:
                yield from _equal_shapes([self._batch(chosen[i : i + 1]) for i in range(len(chosen))])
            else:
                yield self._batch(chosen)

    def _batch(self, indices: npt.NDArray[np.int64]) -> Batch:
        return Batch(self.part.inputs(indices), self.part.labels(indices))


def _equal_shapes(singles: list[Batch]) -> Iterator[Batch]:
    """Joins neighbouring batches of one sample where their inputs and labels have the same shape."""
    start = 0
    for stop in range(1, len(singles) + 1):
        if stop == len(singles) or _shapes(singles[stop]) != _shapes(singles[start]):
            yield _joined(singles[start:stop])
            start = stop


def _shapes(batch: Batch) -> tuple[object, object]:
    return sample_shapes(batch.inputs), None if batch.labels is None else batch.labels.shape


def _joined(singles: list[Batch]) -> Batch:
    if len(singles) == 1:
        return singles[0]
    labels = [batch.labels for batch in singles if batch.labels is not None]
    inputs = joined_inputs([batch.inputs for batch in singles])
    return Batch(inputs, np.concatenate(labels) if labels else None)
