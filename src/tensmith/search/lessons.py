"""Candidates of a run as networks that learn from the original, on the samples that may be fitted to."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import cached_property, partial
from pathlib import Path

import torch

from tensmith.data import Subset
from tensmith.engine.base import Session
from tensmith.errors import ProgramError, TensmithError, first_line
from tensmith.evaluate.outcome import Outcome
from tensmith.evaluate.sequential import changed_answers
from tensmith.evaluate.task import Task
from tensmith.recovery.learnable import learning_constants
from tensmith.recovery.teacher import Teacher
from tensmith.recovery.training import Outlook, Recipe, Training, WeightsLoss
from tensmith.rewrite.lossy.tables import with_tables_opened
from tensmith.rewrite.method import LOSSY, NUMBERS, independent, without_zeros
from tensmith.rewrite.rule import Step
from tensmith.search.objective import LOST_OF_CHANGED, expected_drop
from tensmith.search.plan import Plan
from tensmith.search.trial import Trials

# Samples of the search split that choose among the weights of a course: so many, or as many as are answered
# in this share of its time, but not fewer than the least.
_LOOKED_AT, _FEWEST, _LOOKING = 2000, 32, 0.025
# What the checkpoint's facts about them are called: of courses, and of the trial that is under way.
_SAMPLES, _SAMPLES_OF_TRIAL = "recover/samples", "recover/trial samples"
# How the names begin by which trials keep where they stand.
_TRIAL = "pilot-"


@dataclass
class Lessons:
    """Trains plans of one run. kept: the folder of what training finds, and of where it stands."""

    trials: Trials
    kept: Path
    _trainings: dict[str, Training] = field(default_factory=dict)
    _seconds: float = math.inf  # of the course

    def course(self, plan: Plan, seconds: float, before: int) -> tuple[Step, bool]:
        """The step that a plan takes by one more course, and whether Ctrl-C ended that before its time.

        before: how many are known to be over; a run that was killed may have kept one more.

        TensmithError where the plan's program cannot be trained.
        """
        with _costing_a_plan():
            self._seconds, training = seconds, self._training(plan)
            found = training.stands() if training.courses > before else training.course(seconds)
            return self._teacher.step(found), found.stopped

    def pilot(self, plan: Plan, seconds: float) -> Outlook:
        """What so short a course of its own makes of a plan, for nothing but to be known.

        TensmithError where the plan's program cannot be trained.
        """
        with _costing_a_plan():
            self._seconds = seconds
            training = self._training(plan, f"{_TRIAL}{plan.id}", _SAMPLES_OF_TRIAL)
            return training.stands() if training.courses else training.course(seconds)

    def forget_pilots(self) -> None:
        """Loses where trials stand, that of a run that was killed too: its plan may be another one."""
        self._trainings = {name: at for name, at in self._trainings.items() if not name.startswith(_TRIAL)}
        for left in self.kept.glob(f"{_TRIAL}*"):
            left.unlink()
        self.trials.checkpoint.note(_SAMPLES_OF_TRIAL, None)

    def seconds_a_step(self, plan: Plan) -> float:
        """What a step takes here; TensmithError where the plan's program cannot be trained."""
        with _costing_a_plan():
            return self._training(plan).seconds_a_step()[0]

    def _training(self, plan: Plan, name: str = "", looks: str = _SAMPLES) -> Training:
        """Of a plan, or another one of it by that name, which looks at as many samples as that fact says."""
        name = name or plan.id
        if name not in self._trainings:
            # Steps move codes one by one, which no trellis would follow.
            builder, steps = self.trials.builder, independent(plan.steps)
            left = without_zeros(steps)
            program, dense = with_tables_opened(builder.treated(Plan.of(steps, plan.settings))), None
            if left != steps:
                with suppress(ProgramError):  # what zeros leave may fit where all of it does not
                    dense = builder.allowed.covered(builder.treated(Plan.of(left, plan.settings)))
            floats = None
            with suppress(ProgramError):  # codes begin where they were rounded from, where that can be told
                floats = builder.treated(Plan.of(_before_rounding(steps), plan.settings))
            covered = builder.allowed.covered(program)
            learning = learning_constants(covered, left != steps, dense, floats)
            self._trainings[name] = self._teacher.lesson(program, learning, partial(self._lost, looks), name)
        return self._trainings[name]

    @cached_property
    def _teacher(self) -> Teacher:
        run = self.trials.race.run
        original = self.trials.builder.program(Plan()).program
        threads = run.judging_threads
        recipe = Recipe(run.seed, budget=run.objective.max_drop)
        samples = run.splits.fitting
        return Teacher(original, samples, run.fingerprint, run.task, recipe, self.kept, threads)

    def _lost(self, looks: str, session: Session) -> WeightsLoss:
        """What a network is expected to lose, by as many samples of the search split as that fact says."""
        checkpoint = self.trials.checkpoint
        if (samples := checkpoint.fact(looks)) is None:
            samples = self._affordable(session)
            checkpoint.note(looks, samples)
        return self._lost_on(min(int(samples), len(self.trials.standard.view)), session)

    def _affordable(self, session: Session) -> int:
        """How many samples of the search split a course looks at."""
        whole = len(self.trials.standard.view)
        if not self.trials.race.run.task.staged or whole <= _FEWEST:
            return whole
        began = time.monotonic()
        self._lost_on(_FEWEST, session)
        affordable = _LOOKING * self._seconds * _FEWEST / max(time.monotonic() - began, 1e-6)
        return int(max(_FEWEST, min(whole, _LOOKED_AT, affordable)))

    def _lost_on(self, samples: int, session: Session) -> WeightsLoss:
        """What it is expected to lose, by the first so many samples of the search split."""
        standard, task = self.trials.standard, self.trials.race.run.task
        return weights_loss(task, session, standard.view.take(samples), standard.of_original(samples))


def _before_rounding(steps: Sequence[Step]) -> tuple[Step, ...]:
    """Steps up to the first that rounds, or the last lossy one where none does."""
    lossy = [place for place, step in enumerate(steps) if step.kind == "lossy"]
    rounding = (place for place in lossy if LOSSY[steps[place].rule].stage >= NUMBERS)
    return tuple(steps[: next(rounding, lossy[-1] if lossy else len(steps))])


@contextmanager
def _costing_a_plan() -> Iterator[None]:
    """ProgramError of whatever training raises, but for what the system refuses: it costs one plan, and not
    the run."""
    try:
        yield
    except (TensmithError, OSError):
        raise
    except torch.OutOfMemoryError as error:
        raise ProgramError("it does not fit the device's memory") from error
    except Exception as error:
        raise ProgramError(f"{type(error).__name__}: {first_line(error)}") from error


def weights_loss(task: Task, session: Session, view: Subset, original: Outcome) -> WeightsLoss:
    """What a network is expected to lose against the original, by what it answers on a view.

    Networks are compared by how many answers change, where there are such.
    """
    outcome = task.outcome(session, view, original)
    drop, changed = outcome.drop(original), changed_answers(outcome, original)
    compared = drop.value if changed is None else LOST_OF_CHANGED * changed
    return WeightsLoss(expected_drop(drop, changed), compared, (drop.high - drop.low) / 2)
