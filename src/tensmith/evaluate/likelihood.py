"""How likely a model finds the labels: what tells a right preprocessing from a nearly right one."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from tensmith.data.dataset import Subset
from tensmith.engine.base import BASELINE_ENGINE
from tensmith.engine.worker import SessionWorker
from tensmith.errors import DataError
from tensmith.evaluate.accuracy import Preprocess, as_model, best_batch_size, detect, first_output
from tensmith.evaluate.heads import Head
from tensmith.formula.arith import Array

_SMALLEST = 1e-12


def log_softmax(logits: Array) -> Array:
    """Log-probabilities of rows; rows that are probabilities already (>= 0, sum 1) are taken as such."""
    x = logits.astype(np.float64)
    if x.min() >= 0 and np.allclose(x.sum(axis=-1), 1, atol=1e-3):
        return np.asarray(np.log(np.maximum(x, _SMALLEST)))
    top = x.max(axis=-1, keepdims=True)
    return np.asarray(x - top - np.log(np.exp(x - top).sum(axis=-1, keepdims=True)))


def log_likelihoods(path: Path, view: Subset, preprocess: Preprocess, threads: int) -> Array:
    """Log-probability of each label that the model knows: float64 [n], NaN where answers are not finite.

    Empty for data without labels; DataError where the model knows none of them.
    """
    found: list[float] = []
    unknown = ""
    with SessionWorker(BASELINE_ENGINE, path, threads) as worker:
        model = as_model(worker, preprocess)
        for batch in view.batches(best_batch_size(worker)):
            logits = first_output(worker, model(batch.inputs), batch.inputs)
            labels = () if batch.labels is None else batch.labels
            rows = log_softmax(logits)
            found += [float(row[label]) for row, label in zip(rows, labels) if label < rows.shape[1]]
            if len(labels) and not found:
                unknown = (
                    f"label {max(labels)} is out of range: the model tells {rows.shape[1]} classes apart"
                )
    if unknown and not found:
        raise DataError(unknown)
    return np.array(found)


def objects_found(
    path: Path, view: Subset, head: Head, classes: int, preprocess: Preprocess, threads: int
) -> Array:
    """How much of what is on each image a detector finds, and how surely: float64 [n] in 0..1."""
    with SessionWorker(BASELINE_ENGINE, path, threads) as worker:
        return detect(worker, view, head, classes, preprocess=preprocess).found
