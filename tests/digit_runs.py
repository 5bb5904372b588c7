"""Runs on the digits that ship which train what they prune or round, in as many steps on every machine."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest

from tensmith import Front, compress
from tensmith.deploy.schedule import Schedule
from tensmith.recovery.training import Training
from tensmith.rewrite.rule import Step
from tensmith.search import recovering
from tensmith.search.plan import Plan
from tensmith.search.space import Space

DIGITS = Path(__file__).resolve().parents[1] / "examples" / "digits"
COARSE = Plan((Step("int8", params={"default_bits": 2}, kind="lossy"),))


def train_few_steps(patch: pytest.MonkeyPatch, step: float = 5.0) -> None:
    """One plan to train, in steps that are taken to be so many seconds long."""
    patch.setattr(Training, "seconds_a_step", lambda self, *_: (step, 0.0))
    patch.setattr(recovering, "FARTHEST", 100.0)
    patch.setattr(Space, "challenges", lambda self, plan: iter((COARSE,)))
    patch.setattr(Schedule, "judged_by", lambda self, points: math.inf)


def run(out: Path, **options: Any) -> Front:
    """The front of a run, whose training makes up most of it."""
    return compress(
        DIGITS / "digits.onnx",
        f"npz:{DIGITS / 'digits.npz'}",
        output=out,
        engines=("onnxruntime",),
        time_budget=1,
        max_drop=20,
        preprocess="unit",
        search_samples=300,
        **{"recover": 1200, **options},
    )


def trained_point(front: Front) -> Any:
    """The point of a front whose weights were trained, the longest if there are several."""
    steps = {
        step["params"]["steps"]: p for p in front.points for step in p.trail if step["rule"] == "recover"
    }
    return steps[max(steps)]
