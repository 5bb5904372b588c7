"""Optimizations that take their time: training what another one left, and a whole compression."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import reduce
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tensmith.compression import Interrupted, compress
from tensmith.engine.base import Session
from tensmith.files import TemporaryFolder
from tensmith.ir import Program
from tensmith.recovery import demand_torch
from tensmith.rewrite.method import apply_lossy, without_zeros
from tensmith.rewrite.rule import Step
from tensmith.rewrite.trail import simplify
from tensmith.study.plan import SEARCHED, TRAINED, SearchBudget

if TYPE_CHECKING:
    from tensmith.study.materials import Material


def trained(
    student: Program, steps: Sequence[Step], material: Material, seconds: float, kept: Path, name: str
) -> Program:
    """What steps left of the original, trained to answer as it does (Hinton et al., arXiv:1503.02531).

    It learns from the samples that may be fitted to; the weights kept are the best on the search split. In
    the folder `kept` it goes on where it was stopped, under a `name` that nothing else has. ProgramError
    where an op has no gradients, MissingExtra without PyTorch.
    """
    demand_torch(f"'{TRAINED}'")
    from tensmith.recovery.learnable import learning_constants  # PyTorch, which takes seconds to load
    from tensmith.recovery.teacher import Teacher
    from tensmith.recovery.training import Recipe, WeightsLoss
    from tensmith.search.lessons import weights_loss

    judge, splits, task = material.judge, material.request.splits, material.judge.task
    data = material.request.fingerprint()
    standard = judge.outcome(material.original, splits.search)
    original = simplify(material.request.program).program
    recipe = Recipe(material.seed)
    teacher = Teacher(original, splits.fitting, data, task, recipe, kept, judge.judging_threads)

    def lost(session: Session) -> WeightsLoss:
        return weights_loss(task, session, splits.search, standard)

    dense, left = None, without_zeros(steps)
    if len(left) < len(steps):
        dense = reduce(lambda program, step: apply_lossy(program, step, material.calibration), left, original)
    learning = learning_constants(student, dense is not None, dense)
    lesson = teacher.lesson(student, learning, lost, name)
    found = lesson.stands() if lesson.courses else lesson.course(seconds)
    if found.stopped:
        raise KeyboardInterrupt
    return apply_lossy(student, teacher.step(found), material.calibration)


def searched(name: str, options: Mapping[str, Any], budget: SearchBudget, path: Path) -> None:
    """Writes to `path` what a compression of that name recommends.

    Its samples to calibrate, search and judge are those of the study (`options`): its search sees none of
    those that cells are judged on; at its end they decide what is beyond the drop budget, as in any run.
    """
    chosen = {"max_drop": budget.max_drop, "time_budget": budget.seconds, **SEARCHED[name]}
    with TemporaryFolder() as folder:
        try:
            front = compress(output=Path(folder) / "out", **{**options, **chosen})
        except Interrupted as interrupted:
            raise KeyboardInterrupt from interrupted
        front.best("balanced").save(path)
