"""Datasets from what a user has in Python: arrays, parts of arrays, or batches."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from tensmith.data.dataset import (
    ALL,
    Array,
    Dataset,
    DatasetPart,
    Inputs,
    Modality,
    Task,
    by_name,
    by_part,
    joined_inputs,
    part_name,
    sample_count,
    sample_shapes,
)
from tensmith.data.images import are_pixels
from tensmith.data.parts import ArrayPart, channels_first, checked_labels
from tensmith.errors import DataError, first_line

BATCHES_LIMIT = 8 << 30
_LOOKED_AT = 16
_MANY = 1 << 24  # whole numbers that any float holds

Pair = tuple[Inputs, Array | None]


def dataset_of_arrays(name: str, pairs: Mapping[str, Pair], where: str) -> Dataset:
    """A dataset of parts {name: (samples, labels)}; `where` names it in errors.

    Samples are an array, or an array for each of the model's inputs by name; one name is as good as none.
    Integer labels [n], or [n, classes] with a single one a row, make a classification (classes: the largest
    plus one), other float labels a regression.
    """
    pairs = {part: (_unnamed(samples), _from_one_hot(labels)) for part, (samples, labels) in pairs.items()}
    for part, (samples, labels) in pairs.items():
        counts = {name: len(array) if array.ndim else 0 for name, array in by_name(samples).items()}
        if not all(counts.values()) or not counts:
            raise DataError(f"{where}: part '{part}' is empty; give it samples along the first axis")
        if len(set(counts.values())) > 1:
            raise DataError(f"{where}: part '{part}' has inputs of different lengths: {counts}; align them")
        if labels is not None and (labels.ndim < 1 or len(labels) != sample_count(samples)):
            raise DataError(
                f"{where}: part '{part}' has {sample_count(samples)} samples but labels "
                f"{list(labels.shape)}; they do not belong together"
            )
    shapes = {part: sample_shapes(samples) for part, (samples, _) in pairs.items()}
    (one, expected), *rest = shapes.items()
    for part, found in rest:
        if found != expected:
            raise DataError(
                f"{where}: samples of part '{part}' are not like those of '{one}': {_told(found)} against "
                f"{_told(expected)}; make them alike"
            )
    task = _task([labels for _, labels in pairs.values()])
    classes: int | None = None
    if task == "classification":
        pairs = {
            part: (
                samples,
                None if labels is None else checked_labels(labels, None, f"{where}: part '{part}'"),
            )
            for part, (samples, labels) in pairs.items()
        }
        classes = 1 + max(int(labels.max()) for _, labels in pairs.values() if labels is not None)
    first = next(iter(pairs.values()))[0]
    modality: Modality = "array"
    if not isinstance(first, Mapping) and (first.ndim == 4 or (first.ndim == 3 and first.dtype == np.uint8)):
        modality = "image"
        if are_pixels(first[:_LOOKED_AT]):
            pairs = {part: (channels_first(by_name(x)[""]), labels) for part, (x, labels) in pairs.items()}
    return Dataset(
        name, task, classes, {part: ArrayPart(*pair) for part, pair in pairs.items()}, modality, (), where
    )


def _from_one_hot(labels: Array | None) -> Array | None:
    """Class numbers [n] of labels [n, classes] with a single one a row; others as they are."""
    if labels is None or labels.ndim != 2 or labels.shape[1] < 2 or not len(labels):
        return labels
    one_hot = np.all((labels == 0) | (labels == 1)) and np.all(labels.sum(axis=1) == 1)
    return labels.argmax(axis=1) if one_hot else labels


def _unnamed(samples: Inputs) -> Inputs:
    """An only input's array itself."""
    named = by_name(samples)
    return next(iter(named.values())) if len(named) == 1 else samples


def _told(shapes: Mapping[str, tuple[int, ...]]) -> str:
    return ", ".join(f"{name} {list(shape)}".strip() for name, shape in shapes.items())


def _task(labels: list[Array | None]) -> Task:
    kinds = {array.dtype.kind for array in labels if array is not None}
    if not kinds:
        return "unlabelled"
    return "classification" if kinds <= set("iub") else "regression"


def classified(dataset: Dataset, classes: int | None = None) -> Dataset:
    """Data whose labels are floats, with class numbers in place of them where all are below `classes`."""
    if dataset.task != "regression":
        return dataset
    limit = _MANY if classes is None else classes
    parts: dict[str, DatasetPart] = {}
    for name, part in dataset.parts.items():
        labels = part.labels(np.arange(len(part)))
        if labels is not None:
            labels = labels.astype(np.float64)
            whole = labels.size == len(part) and np.all((labels == np.floor(labels)) & (labels >= 0))
            if not isinstance(part, ArrayPart) or not whole or labels.max() >= limit:
                return dataset
            part = part.with_labels(labels.reshape(-1).astype(np.int64))
        parts[name] = part
    every = [part.labels(np.arange(len(part))) for part in parts.values()]
    known = 1 + max(int(labels.max()) for labels in every if labels is not None)
    return replace(dataset, task="classification", classes=known, parts=parts)


def as_dataset(value: object, where: str = "data") -> Dataset:
    """Makes a Dataset of a Dataset (itself), arrays (x, y), parts {"train": (x, y), ...}, or an iterable of
    batches (x, y) or Batch, which is read once and kept in memory (at most 8 GiB).

    x is an array, or {"input name": array, ...} for models with several inputs.
    """
    if isinstance(value, Dataset):
        return value
    if isinstance(value, Mapping):
        names = by_part(value, lambda name: part_name(str(name)) or str(name), where)
        pairs = {part: _pair(value[name], where) for part, name in names.items()}
        if not pairs:
            raise DataError(f"{where} has no parts; give at least one as (x, y)")
        return dataset_of_arrays("python", pairs, where)
    if isinstance(value, tuple) and len(value) == 2:
        return dataset_of_arrays("python", {ALL: _pair(value, where)}, where)
    if isinstance(value, Iterable):
        return dataset_of_arrays("python", {ALL: _joined(value, where)}, where)
    raise DataError(
        f"{where} is a {type(value).__name__}; give a Dataset, arrays (x, y), a dict of parts, or batches"
    )


def _pair(value: Any, where: str) -> Pair:
    samples, labels = (value.inputs, value.labels) if hasattr(value, "inputs") else _two(value, where)
    inputs: Inputs = (
        {str(name): _numeric(array, where) for name, array in samples.items()}
        if isinstance(samples, Mapping)
        else _numeric(samples, where)
    )
    return inputs, None if labels is None else _numeric(labels, where)


def _two(value: Any, where: str) -> tuple[Any, Any]:
    if not isinstance(value, tuple | list) or len(value) != 2:
        raise DataError(
            f"{where} gives a {type(value).__name__} where a pair (x, y) is expected; y may be None"
        )
    return value[0], value[1]


def _numeric(value: Any, where: str) -> Array:
    try:
        array = np.asarray(value)
    except ValueError as error:  # lists of different lengths
        raise DataError(f"{where} is no array ({error}); give samples of one shape") from error
    except (TypeError, RuntimeError) as error:  # tensors with gradients, on a GPU, or in bfloat16
        raise DataError(
            f"{where} is not readable as an array ({first_line(error)}); give NumPy arrays"
        ) from error
    if array.dtype.kind not in "iufb":
        raise DataError(f"{where} holds {array.dtype} values; give numeric arrays")
    return array


def _joined(batches: Iterable[Any], where: str) -> Pair:
    samples: list[Inputs] = []
    labels: list[Array] = []
    total = 0
    for batch in batches:
        x, y = _pair(batch, where)
        if not all(array.ndim for array in (*by_name(x).values(), *([] if y is None else [y]))):
            raise DataError(
                f"{where} gives single samples; give batches, with samples and labels along the first axis"
            )
        samples.append(x)
        labels += [] if y is None else [y]
        total += sum(array.nbytes for array in by_name(x).values())
        if total > BATCHES_LIMIT:
            raise DataError(
                f"{where} gives more than {BATCHES_LIMIT} bytes of batches; return a Dataset instead"
            )
    if not samples:
        raise DataError(f"{where} gives no batches; at least one is needed")
    alike = all(sample_shapes(x) == sample_shapes(samples[0]) for x in samples)
    alike = alike and len({y.shape[1:] for y in labels}) < 2
    if not alike or len(labels) not in (0, len(samples)):
        raise DataError(
            f"{where} gives batches of different shapes, or labels with only some; make them alike"
        )
    return joined_inputs(samples), np.concatenate(labels) if labels else None
