"""How likely a model finds the labels: what tells a right preprocessing from a nearly right one."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from tensmith.engine.worker import Worker
from tensmith.evaluate.accuracy import Preprocess, View, as_model, best_batch_size
from tensmith.formula.arith import Array

_SMALLEST = 1e-12


def log_softmax(logits: Array) -> Array:
    """Log-probabilities of rows; rows that are probabilities already (>= 0, sum 1) are taken as such."""
    x = logits.astype(np.float64)
    if x.min() >= 0 and np.allclose(x.sum(axis=-1), 1, atol=1e-3):
        return np.asarray(np.log(np.maximum(x, _SMALLEST)))
    top = x.max(axis=-1, keepdims=True)
    return np.asarray(x - top - np.log(np.exp(x - top).sum(axis=-1, keepdims=True)))


def mean_log_likelihood(path: Path, view: View, preprocess: Preprocess, threads: int) -> float:
    """Mean log-probability of the labels, NaN without labels or where answers are not finite."""
    found: list[float] = []
    with Worker("onnxruntime", path, threads) as worker:
        model = as_model(worker, preprocess)
        for batch in view.batches(best_batch_size(worker)):
            logits = model(batch.inputs)[worker.outputs[0].name]
            if batch.labels is None or not np.isfinite(logits).all():
                return float("nan")
            rows = log_softmax(logits.reshape(len(logits), -1))
            found += [float(row[label]) for row, label in zip(rows, batch.labels) if label < rows.shape[1]]
    return float(np.mean(found)) if found else float("nan")
