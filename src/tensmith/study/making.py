"""Optimizations that take their time: a network that learns from the original, and a whole compression."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tensmith.compression import Interrupted, compress
from tensmith.files import TemporaryFolder
from tensmith.ir import Program
from tensmith.rewrite.trail import simplify
from tensmith.search.recovering import demand_torch
from tensmith.study.plan import SEARCHED, MakingBudget

if TYPE_CHECKING:
    from tensmith.engine.base import Session
    from tensmith.study.materials import Material

# Samples on which a network must answer as the program that it was made of.
_COMPARED = 2


def distilled(student: Program, material: Material, seconds: float) -> Program:
    """The student, trained to answer as the original does (Hinton et al., arXiv:1503.02531).

    It learns from the samples that may be fitted to; the weights kept are the best on the search split.
    ProgramError where an op has no gradients, MissingExtra without PyTorch.
    """
    demand_torch()
    from tensmith.recovery.feed import Feed  # PyTorch, which takes seconds to load
    from tensmith.recovery.learning import learning_constants
    from tensmith.recovery.network import TorchNetwork, require_agreement, usual_device
    from tensmith.recovery.training import Recipe, Training

    splits, task, recipe = material.request.splits, material.judge.task, Recipe(material.seed)
    teacher = TorchNetwork(simplify(material.request.program).program, {}, usual_device())
    network = TorchNetwork(student, learning_constants(student, False), usual_device())
    feed = Feed(splits.fitting, student.inputs, task.preprocess, recipe.batch, recipe.seed)
    for each in (teacher, network):
        require_agreement(each, feed.at(0).first(_COMPARED).inputs)
    original = material.judge.outcome(material.original, splits.search)

    def lost(session: Session) -> float:
        return task.outcome(session, splits.search, original).drop(original).value

    with TemporaryFolder() as folder:
        training = Training(
            network, teacher, feed, task.measure != "score", task.measure in ("accuracy", "loss"), lost,
            recipe, Path(folder) / "training.npz", material.judge.judging_threads,
        )  # fmt: skip
        found = training.course(seconds)
    if found.stopped:
        raise KeyboardInterrupt
    return simplify(student.with_constants(found.arrays)).program


def searched(name: str, options: Mapping[str, Any], budget: MakingBudget, path: Path) -> None:
    """Writes to `path` what a compression of that name recommends.

    Its samples to calibrate, search and judge are those of the study (`options`), so what cells are judged on
    is held out from it as well.
    """
    chosen = {"max_drop": budget.max_drop, "time_budget": budget.search, **SEARCHED[name]}
    with TemporaryFolder() as folder:
        try:
            front = compress(output=Path(folder) / "out", **{**options, **chosen})
        except Interrupted as interrupted:
            raise KeyboardInterrupt from interrupted
        front.best("balanced").save(path)
