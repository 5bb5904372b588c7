"""The two ways a part is stored: arrays, in memory or mapped, or one item at a time."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np
import numpy.typing as npt

from tensmith.data.dataset import Array, DatasetPart, Indices, Inputs, by_name, sample_count
from tensmith.errors import DataError

Labels = npt.NDArray[np.int64]
_LOOKED_AT = 1 << 30  # bytes
_CHANNELS = (1, 3, 4)


def checked_labels(labels: Array, classes: int | None, where: object) -> Labels:
    """Integer class labels as int64 [n]; DataError names the first that lies outside 0..classes-1.

    `classes` None asks only that no label is negative, or too large for int64.
    """
    if labels.ndim == 2 and labels.shape[1] == 1:
        labels = labels[:, 0]
    if labels.ndim != 1 or labels.dtype.kind not in "iub":
        raise DataError(
            f"{where}: labels must be one integer a sample, not {labels.dtype} {list(labels.shape)}; "
            "turn one-hot labels into class numbers with argmax"
        )
    last = np.iinfo(np.int64).max if classes is None else classes - 1
    wrong = (labels < 0) | (labels > last)
    if wrong.any():
        first = int(np.argmax(wrong))
        negative = classes is None and labels[first] < 0
        fault = "is negative, and classes are not" if negative else f"is out of range, classes are 0..{last}"
        raise DataError(
            f"{where}: label {int(labels[first])} of sample {first} {fault}; "
            "the file is damaged or of another dataset"
        )
    return labels.astype(np.int64)


def checked_indices(indices: Indices, count: int) -> npt.NDArray[np.int64]:
    """`indices` as int64 [n]; IndexError when one is not in 0..count-1."""
    chosen = np.asarray(indices, dtype=np.int64)
    if chosen.ndim != 1 or ((chosen < 0) | (chosen >= count)).any():
        raise IndexError(f"sample indices must be a list of numbers in 0..{count - 1}")
    return chosen


def channels_first(images: Array) -> Array:
    """[n,h,w,c] as [n,c,h,w]: where the last axis may be one of channels, and the second may not."""
    last = images.ndim == 4 and images.shape[3] in _CHANNELS and images.shape[1] not in _CHANNELS
    return images.transpose(0, 3, 1, 2) if last else images


def model_inputs(samples: Array) -> Array:
    """Array samples in the layout that models read.

    uint8 is images: [n,h,w] gets a channel axis, [n,h,w,c] becomes [n,c,h,w], and values stay 0..255 as
    float32. Other floats become float32; other integers are tokens, int64.
    """
    if samples.dtype == np.uint8:
        images = samples[:, None] if samples.ndim == 3 else channels_first(samples)
        return np.ascontiguousarray(images, dtype=np.float32)
    return np.ascontiguousarray(samples, dtype=np.int64 if samples.dtype.kind in "iub" else np.float32)


def named_input(samples: Array) -> Array:
    """One of several inputs in the layout that models read: images and floats as `model_inputs` has them.

    Truth values stay; other integers are tokens, positions or masks, int64.
    """
    if samples.dtype == np.bool_:
        return np.ascontiguousarray(samples)
    small = samples.dtype == np.uint8 and samples.ndim < 3
    return model_inputs(samples.astype(np.int64) if small else samples)


class ArrayPart(DatasetPart):
    """Samples along the first axis of an array, or of one array for each of a model's inputs.

    They lie in memory or are mapped; rows are converted as they are read.
    """

    def __init__(self, samples: Inputs, labels: Array | None) -> None:
        self._samples, self._labels = samples, labels

    def with_labels(self, labels: Array) -> ArrayPart:
        """The same samples with other labels."""
        return ArrayPart(self._samples, labels)

    def __len__(self) -> int:
        return sample_count(self._samples)

    def remark(self) -> str:
        """Which samples are not finite; of very large arrays the first are looked at."""
        for name, array in by_name(self._samples).items():
            if array.dtype.kind == "f" and len(array):
                rows = array[: max(1, _LOOKED_AT // max(1, array.nbytes // len(array)))]
                found = np.flatnonzero(~np.isfinite(rows).reshape(len(rows), -1).all(axis=1))
                if found.size:
                    where = f" of input '{name}'" if name else ""
                    return (
                        f"NaN or infinity in {found.size} of {len(rows)} samples{where}, first in {found[0]}"
                    )
        return ""

    def inputs(self, indices: Indices) -> Inputs:
        chosen = checked_indices(indices, len(self))
        if isinstance(self._samples, Mapping):
            return {name: named_input(np.asarray(array[chosen])) for name, array in self._samples.items()}
        return model_inputs(np.asarray(self._samples[chosen]))

    def labels(self, indices: Indices) -> Array | None:
        return None if self._labels is None else self._labels[checked_indices(indices, len(self))]


class ItemPart(DatasetPart):
    """Samples that a function reads one at a time: `read(i)` gives sample i without a batch axis.

    `remedy` completes the message given when asked for samples of different shapes together.
    """

    def __init__(
        self,
        count: int,
        read: Callable[[int], Inputs],
        labels: Array | None,
        *,
        ragged: bool,
        remedy: str,
        remark: str = "",
    ) -> None:
        self._count, self._read, self._labels, self._remedy = count, read, labels, remedy
        self.ragged, self._remark = ragged, remark

    def __len__(self) -> int:
        return self._count

    def remark(self) -> str:
        return self._remark

    def inputs(self, indices: Indices) -> Inputs:
        items = [self._read(int(index)) for index in checked_indices(indices, self._count)]
        if items and isinstance(items[0], Mapping):
            return {name: self._stacked([by_name(item)[name] for item in items]) for name in items[0]}
        return self._stacked([by_name(item)[""] for item in items])

    def _stacked(self, items: list[Array]) -> Array:
        shapes = sorted({item.shape for item in items})
        if len(shapes) != 1:
            raise DataError(f"samples of shapes {shapes[:4]} cannot share a batch; {self._remedy}")
        return np.stack(items)

    def labels(self, indices: Indices) -> Array | None:
        return None if self._labels is None else self._labels[checked_indices(indices, self._count)]
