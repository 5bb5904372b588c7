"""Candidates of a run as networks that learn from the original, on the samples that may be fitted to."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

import torch

from tensmith.engine.base import Session
from tensmith.errors import ProgramError
from tensmith.formula.arith import Array
from tensmith.recovery.feed import Feed, LessonSamples
from tensmith.recovery.learning import learning_constants
from tensmith.recovery.network import TorchNetwork, require_agreement, usual_device
from tensmith.recovery.training import Recipe, Training
from tensmith.rewrite.archives import digest_of, trained_path, write_arrays
from tensmith.rewrite.lossy.recover import Recover
from tensmith.rewrite.method import LOSSY
from tensmith.rewrite.rule import Step
from tensmith.search.plan import Plan
from tensmith.search.run import RunDescription
from tensmith.search.trial import Trials

# Samples on which a network must answer as the program it was made of.
_COMPARED = 2
# Samples of the search split that choose among the weights of a course.
_LOOKED_AT = 1000


@dataclass
class Lessons:
    """Trains plans of one run. kept: the folder of what training finds, and of where it stands."""

    trials: Trials
    kept: Path
    device: str = field(default_factory=usual_device)
    _trainings: dict[str, Training] = field(default_factory=dict)

    def course(self, plan: Plan, seconds: float) -> tuple[Step, bool]:
        """The step that a plan takes by one more course, and whether Ctrl-C ended that before its time.

        ProgramError where the plan's program has no gradients.
        """
        if plan.key not in self._trainings:
            self._trainings[plan.key] = self._training(plan)
        found, recipe = self._trainings[plan.key].course(seconds), self._recipe
        weights = digest_of(found.arrays)
        write_arrays(trained_path(self.kept, weights), found.arrays)
        step = LOSSY[Recover.name].step(
            weights=weights,
            original=self._original.program.digest,
            samples=len(self._run.splits.fitting),
            seed=recipe.seed,
            steps=found.steps,
            batch=recipe.batch,
            rate=found.rate,
        )
        return step, found.stopped

    @property
    def _run(self) -> RunDescription:
        return self.trials.race.run

    @cached_property
    def _recipe(self) -> Recipe:
        return Recipe(self._run.seed)

    @cached_property
    def _original(self) -> TorchNetwork:
        """What is learned from: the original, rewritten by exact rules alone."""
        network = TorchNetwork(self.trials.builder.program(Plan()).program, {}, self.device)
        require_agreement(network, self._plain_feed.at(0).first(_COMPARED).inputs)
        return network

    @cached_property
    def _plain_feed(self) -> Feed:
        run = self._run
        if run.splits.fitting.part.ragged:
            raise ProgramError("its samples differ in shape, so that no batch can be made of them")
        recipe = self._recipe
        return Feed(run.splits.fitting, run.program.inputs, run.task.preprocess, recipe.batch, recipe.seed)

    @cached_property
    def _feed(self) -> Feed:
        """With all changes of images that leave the original's answers as they are."""
        return self._plain_feed.changed_as_borne(self._classes)

    def _classes(self, samples: LessonSamples) -> Array:
        with torch.no_grad():
            answers = self._original(samples.inputs)[0]
        return answers.flatten(1).argmax(1).cpu().numpy()  # type: ignore[no-any-return]

    def _training(self, plan: Plan) -> Training:
        program = self.trials.builder.treated(plan)
        zeros = any(LOSSY[step.rule].zeros for step in plan.steps if step.kind == "lossy")
        network = TorchNetwork(program, learning_constants(program, zeros), self.device)
        require_agreement(network, self._plain_feed.at(0).first(_COMPARED).inputs)
        measure = self._run.task.measure
        return Training(
            network,
            self._original,
            self._feed,
            measure != "score",
            measure in ("accuracy", "loss"),
            self._lost,
            self._recipe,
            self.kept / f"{plan.id}.npz",
            self._run.judging_threads,
        )

    def _lost(self, session: Session) -> float:
        """What a network loses on the search split."""
        standard, task = self.trials.standard, self._run.task
        whole = len(standard.view)
        samples = min(whole, _LOOKED_AT) if task.staged else whole
        original = standard.of_original(samples)
        return task.outcome(session, standard.view.take(samples), original).drop(original).value
