"""Results of a study that was never run: a grid with figures that follow a known law."""

from __future__ import annotations

import itertools

from tensmith.report.metric import exact, spread
from tensmith.study.plan import StudyCell, StudyPlan
from tensmith.study.results import CellResult

MODELS = ("net-a", "net-b", "net-c", "net-d", "net-e")
OPTIMIZATIONS = (
    "none", "weight_pruning:50", "weight_pruning:95", "channel_pruning:20", "channel_pruning:50",
    "float16", "int8_uncalibrated", "int8",
)  # fmt: skip
LOST = dict(zip(OPTIMIZATIONS, (0.0, 0.1, 0.8, 0.6, 9.0, 0.0, 30.0, 0.4)))
EXPECTED = dict(zip(OPTIMIZATIONS, (1.0, 2.0, 20.0, 1.5, 4.0, 2.0, 4.0, 4.0)))
GAINED = dict(zip(OPTIMIZATIONS, (1.0, 0.8, 1.2, 1.4, 3.6, 1.0, 2.5, 2.5)))


def plan() -> StudyPlan:
    return StudyPlan.model_validate(
        {
            "name": "sample",
            "datasets": [{"name": "d", "data": "npz:d.npz"}],
            "models": [{"name": name, "path": f"{name}.onnx", "dataset": "d"} for name in MODELS],
        }
    )


def results() -> list[CellResult]:
    """Direct is the fastest of every other model untuned; tuned, gemm is. One cell failed."""
    found = []
    grid = itertools.product(enumerate(MODELS), OPTIMIZATIONS, ("direct", "gemm"), ("untuned", "tuned"))
    for (number, model), optimization, algorithm, system in grid:
        base = 1.0 + 0.3 * number
        better = "direct" if system == "untuned" and number % 2 else "gemm"
        milliseconds = base * (1.0 if algorithm == better else 1.5) / (2 if system == "tuned" else 1)
        milliseconds /= GAINED[optimization]
        drop, accuracy = LOST[optimization], 90.0 + 0.3 * number - LOST[optimization]
        figures = {
            "accuracy": spread(accuracy, accuracy - 0.5, accuracy + 0.5, "%"),
            "drop": spread(drop, drop - 0.1, drop + 0.1, "pt"),
            "latency_ms": spread(milliseconds, 0.99 * milliseconds, 1.01 * milliseconds, "ms"),
            "file_bytes": exact(1e6 * (5 - number), "bytes"),
            "weights": exact(1e5 * (5 - number), "numbers"),
            "macs": exact(4e7, "operations"),
            "expected": exact(EXPECTED[optimization], "x", "estimated"),
        }
        cell = StudyCell("d", model, optimization, algorithm, system, "cpu:1", "")
        found.append(CellResult(cell, "", 2.0, "", figures, ("a <note> & more",)))
    broken = StudyCell("d", "net-a", "none", "winograd", "untuned", "cpu:1", "")
    return [*found, CellResult(broken, "", 1.0, "</script><b>the device was lost</b>")]
