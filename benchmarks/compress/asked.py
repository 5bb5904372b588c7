"""Whether one point of a front is as fast and as small as was asked for."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks import parts
from benchmarks.compress.command import compress


@dataclass(frozen=True)
class Asked:
    """One point so much faster and smaller than the original, within a budget in points."""

    budget: float
    faster: float
    smaller: float

    def __str__(self) -> str:
        return f"{self.faster}x and {self.smaller}x"


def compressed_as_asked(
    model: Path, data: str, out: Path, time_budget: str, asked: Asked, *options: str
) -> parts.Found:
    """What the front of `tensmith compress` holds, within the budget and beyond; wrong where no point is as
    asked."""
    words = ("--max-drop", str(asked.budget), "--time-budget", time_budget, *options)
    front = compress(model, data, out, *words)
    points, beyond = (
        [_row(point) for point in front["points"] if point["within_budget"] is within]
        for within in (True, False)
    )
    best = max(points, key=lambda p: min(p["speedup"] / asked.faster, p["size_ratio"] / asked.smaller))
    reached = best["speedup"] >= asked.faster and best["size_ratio"] >= asked.smaller
    accuracy = front["original"]["metrics"]["accuracy"]["value"]
    told = (
        f"{best['speedup']:.2f}x faster and {best['size_ratio']:.2f}x smaller at {best['accuracy_drop']:.2f}"
    )
    wrong = () if reached else (f"its best point is {told}; {asked} were asked for",)
    row = {"accuracy": accuracy, "asked": str(asked), "best": told, "points": points, "beyond": beyond}
    return parts.Found(row=row, wrong=wrong)


def _row(point: Mapping[str, Any]) -> dict[str, Any]:
    """drop: 95 % interval of what is lost."""
    metrics, trail = point["metrics"], point["trail"]
    return {
        **{key: metrics[key]["value"] for key in ("speedup", "size_ratio", "accuracy_drop")},
        "drop": [metrics["accuracy_drop"][end] for end in ("low", "high")],
        "lossy": sorted({step["rule"] for step in trail if step["kind"] == "lossy"}),
    }
