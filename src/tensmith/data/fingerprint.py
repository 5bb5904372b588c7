"""A cheap fingerprint of a dataset: whether a resumed run still sees the samples it began with."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator

import numpy as np

from tensmith.data.dataset import Array, DatasetPart, by_name
from tensmith.data.split import Splits

_SAMPLES = 16


def fingerprint(splits: Splits, small_labels: bool, searching: bool = True) -> str:
    """Hex SHA-256 of the number of samples, of labels, and of some samples spread over each part, and of
    which samples each split has; not `searching`: without what is searched on.

    Small labels (classes, boxes) all count; elsewhere (text, speech) they are as large as samples and only
    those of the samples that are read do. A sample that changes between these goes unnoticed.
    """
    digest = hashlib.sha256()
    views = (splits.calibration, *((splits.search,) if searching else ()), splits.held_out)
    for part in {id(view.part): view.part for view in views}.values():
        digest.update(f"part of {len(part)}".encode())
        if small_labels:
            digest.update(_bytes(part.labels(np.arange(len(part)))))
        for sample in _samples(part):
            digest.update(sample)
    for view in views:
        digest.update(f"split of {len(view)}".encode() + _bytes(view.indices))
    return digest.hexdigest()


def part_digest(part: DatasetPart) -> str:
    """Hex SHA-256 of the number of samples of a part, and of some of them with their labels."""
    return hashlib.sha256(b"".join((f"part of {len(part)}".encode(), *_samples(part)))).hexdigest()


def _samples(part: DatasetPart) -> Iterator[bytes]:
    """Some samples spread over a part, one at a time: shapes may differ."""
    for index in np.unique(np.linspace(0, len(part) - 1, _SAMPLES).astype(np.int64)):
        for name, array in sorted(by_name(part.inputs([index])).items()):
            yield name.encode() + _bytes(array)
        yield _bytes(part.labels([index]))


def _bytes(array: Array | None) -> bytes:
    if array is None:
        return b"none"
    header = f"{array.dtype.str}{array.shape}".encode()
    return header + (repr(array.tolist()).encode() if array.dtype.kind == "O" else array.tobytes())
