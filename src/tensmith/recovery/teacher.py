"""The original as the teacher of what compression left of it, on samples that weights may be fitted to."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path

import numpy as np
import torch

from tensmith.data import Subset
from tensmith.data.dataset import sample_count
from tensmith.engine.base import Session
from tensmith.evaluate.task import Task
from tensmith.formula.arith import Array
from tensmith.formula.poly import Poly
from tensmith.ir import Program, TensorType
from tensmith.recovery.distill import Tells
from tensmith.recovery.feed import Feed, Samples, parts_of
from tensmith.recovery.known import KnownAnswers
from tensmith.recovery.learning import Learning
from tensmith.recovery.network import TorchNetwork, require_agreement, usual_device
from tensmith.recovery.training import Outlook, Recipe, Training, WeightsLoss
from tensmith.rewrite.archives import digest_of, trained_path, write_arrays
from tensmith.rewrite.lossy.recover import Recover
from tensmith.rewrite.method import LOSSY
from tensmith.rewrite.rule import Step

# Samples on which a network must answer as the program it was made of; those that it answers at a time.
_COMPARED, _AT_ONCE = 2, 64
# Of texts whose every place is told apart, the places that are learned from at once.
_LONGEST = 128


@dataclass
class Teacher:
    """original: rewritten by exact rules alone. samples: what weights may be fitted to, of data with the
    fingerprint `data`.

    kept: the folder of what is found. threads: the most to train on.
    """

    original: Program
    samples: Subset
    data: str
    task: Task
    recipe: Recipe
    kept: Path
    threads: int
    device: str = field(default_factory=usual_device)

    def lesson(
        self,
        program: Program,
        learning: Mapping[str, Learning],
        lost: Callable[[Session], WeightsLoss],
        name: str,
    ) -> Training:
        """The training of a program that was made of the original; its state is kept by `name`.

        learning: the constants that learn. lost: what a session loses on samples that are not trained on.
        ProgramError where the program has no gradients.
        """
        network = self._network(program, learning)
        state = self.kept / f"{name}.npz"
        return Training(
            network, self._known, self._feed, self._tells, lost, self.recipe, state, self.threads,
        )  # fmt: skip

    def step(self, found: Outlook) -> Step:
        """What a course came to, as a step of a trail; its weights are kept."""
        weights = digest_of(found.arrays)
        write_arrays(trained_path(self.kept, weights), found.arrays)
        return LOSSY[Recover.name].step(
            weights=weights,
            original=self.original.digest,
            data=self.data,
            samples=len(self.samples),
            seed=self.recipe.seed,
            steps=found.steps,
            batch=found.batch,
            bfloat16=found.bfloat16,
            rate=found.rate,
        )

    def _network(self, program: Program, learning: Mapping[str, Learning]) -> TorchNetwork:
        """A program in PyTorch, compared with what it was made of."""
        network = TorchNetwork(program, learning, self.device)
        require_agreement(network, next(parts_of(self._plain_feed.at(0), program, _COMPARED)))
        return network

    @cached_property
    def _itself(self) -> TorchNetwork:
        return self._network(self.original, {})

    @cached_property
    def _known(self) -> KnownAnswers:
        return KnownAnswers(self._itself)

    @cached_property
    def _plain_feed(self) -> Feed:
        recipe = self.recipe
        types = self.original.inputs
        feed = Feed(self.samples, types, self.task.preprocess, recipe.batch, recipe.seed)
        return replace(feed, longest=_LONGEST) if self._tells == "tokens" and _are_texts(types) else feed

    @cached_property
    def _feed(self) -> Feed:
        """With all changes of images that leave the original's classes as they are; of other answers nobody
        can say so."""
        feed = self._plain_feed
        return feed if self._tells == "nothing" else feed.changed_as_borne(self._classes)

    @property
    def _tells(self) -> Tells:
        if not self.task.tells_apart:
            return "nothing"
        return "tokens" if self.task.measure == "loss" else "classes"

    def _classes(self, samples: Samples) -> Array:
        found = []
        with torch.no_grad():
            for part in parts_of(samples, self.original, _AT_ONCE):
                answers = self._itself(part)[0].reshape(sample_count(part), -1)
                found.append(answers.argmax(1).cpu().numpy())
        return np.concatenate(found)


def _are_texts(types: Mapping[str, TensorType]) -> bool:
    """Whether all inputs are as many texts of one length, both open: any part of all is one of each."""
    shape, *others = {each.shape for each in types.values()}
    return not others and shape is not None and len(shape) == 2 and all(isinstance(s, Poly) for s in shape)
