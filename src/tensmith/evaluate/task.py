"""What a model is judged by: one function from a loaded model and a view of data to an outcome."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np

from tensmith.data import Dataset, ImageForm, Subset
from tensmith.engine.base import Session, sizes_of, specs_of
from tensmith.errors import DataError, EngineError, UsageError
from tensmith.evaluate.accuracy import (
    Model,
    Preprocess,
    all_outputs,
    classify,
    detect,
    model_language,
    named_inputs,
    score,
    tells_classes,
)
from tensmith.evaluate.heads import Head
from tensmith.evaluate.outcome import Answers, Classification, Outcome, Outputs, decibels
from tensmith.evaluate.padded import judging_texts
from tensmith.formula.arith import Array
from tensmith.ir import Program, TensorType
from tensmith.report.metric import MEASURES

Measure = Literal["accuracy", "agreement", "loss", "average-precision", "fidelity", "score"]


@dataclass(frozen=True)
class Task:
    """How models are judged. `evaluation` is the user's own function of (model, view), if there is one.

    head, classes: of a detector, how boxes are read off its outputs, and how many classes the data have.
    """

    measure: Measure
    preprocess: Preprocess | None = None
    evaluation: Callable[[Model, Any], float] | None = None
    head: Head | None = None
    classes: int = 0

    @property
    def own(self) -> bool:
        """Whether it holds functions of the user's, which nobody else can repeat."""
        return self.evaluation is not None or (self.head is not None and self.head.own)

    @property
    def title(self) -> str:
        """What the figure called accuracy is."""
        return MEASURES[self.measure]

    @property
    def better(self) -> Literal["higher", "lower"]:
        """Which way is better."""
        return "lower" if self.measure == "loss" else "higher"

    @property
    def tells_apart(self) -> bool:
        """Whether the first output tells classes or tokens apart, so that an answer is changed or not."""
        return self.measure in ("accuracy", "agreement", "loss")

    @property
    def staged(self) -> bool:
        """Whether it is known of each sample what was answered; a score is of all samples together."""
        return self.measure != "score"

    def worst(self, original: float, budget: float) -> float:
        """The worst figure that a drop of `budget` allows, where the original's figure is `original`.

        Drops are per cent of the original's loss; per cent of error of the outputs; else points.
        """
        if self.measure == "fidelity":
            return decibels(budget / 100)
        return original * (1 + budget / 100) if self.measure == "loss" else original - budget

    def example(self, program: Program, view: Subset) -> dict[str, Array]:
        """One sample of the data as the model's input, as often as the model fixes: what latency is measured
        on. DataError if it does not fit the model; an evaluation function may cast what it is given."""
        samples = next(iter(view.batches(1))).inputs
        specs = specs_of(program.inputs)
        named = named_inputs(specs, samples, self.preprocess)
        if self.evaluation is not None:
            types = program.inputs
            named = {name: a.astype(types[name].numpy) if name in types else a for name, a in named.items()}
        found = {name: _filled(array, program.inputs.get(name)) for name, array in named.items()}
        try:
            sizes_of(specs, found)
        except EngineError as error:
            raise DataError(f"the data does not fit the model: {error}") from error
        return found

    def outcome(self, session: Session, view: Subset, original: Outcome | None) -> Outcome:
        """What `session` answers on `view`. Agreement is with `original`, or with itself where None."""
        return self.judged(self.answers(session, view), original)

    def session(self, session: Session, engine: str, path: Path) -> Session:
        """What a session of an engine with a file is judged by: of texts, one of any length (`padded`)."""
        return judging_texts(session, engine, path) if self.measure == "loss" else session

    def answers(self, session: Session, view: Subset) -> Answers:
        """What `session` answers on `view`, sample by sample; of the user's evaluation only the score."""
        if self.evaluation is not None:
            return score(session, view, self.evaluation, preprocess=self.preprocess)
        if self.measure == "loss":
            return model_language(session, view)
        if self.measure == "fidelity":
            return all_outputs(session, view, preprocess=self.preprocess)
        if self.head is not None:
            return detect(session, view, self.head, self.classes, preprocess=self.preprocess)
        return classify(session, view, preprocess=self.preprocess)

    def judged(self, answers: Answers, original: Outcome | None) -> Outcome:
        """Answers as what they are judged by; see `outcome`."""
        if isinstance(answers, Outputs):
            return answers.beside(original if isinstance(original, Outputs) else answers)
        if not isinstance(answers, Classification) or self.measure == "accuracy":
            return answers
        truth = original.predicted if isinstance(original, Classification) else answers.predicted
        return Classification(answers.predicted, truth)


def image_form(program: Program, view: Subset) -> ImageForm:
    """How the images of a view go into a program of one input; DataError if they do not fit."""
    ((name, type_),) = program.inputs.items()
    images = next(iter(view.batches(1))).inputs
    assert not isinstance(images, Mapping)
    shape = [size if isinstance(size, int) else None for size in type_.dims]
    return ImageForm.of(shape, type_.numpy, images.shape[1:], name)


def choose_measure(
    dataset: Dataset, wanted: str, evaluation: Callable[..., float] | None, program: Program
) -> Measure:
    """The measure that fits the data; UsageError if `wanted` ("auto" or a name) does not.

    Without labels answers are classes that agree, and where a model answers at several places of a sample,
    or has one number a sample, all its numbers.
    """
    if evaluation is not None:
        return "score"
    first = program.facts[program.outputs[0]].type
    if wanted == "auto" and dataset.task == "unlabelled" and first is not None and first.shape is not None:
        return "agreement" if tells_classes(first.shape) else "fidelity"
    fitting: tuple[Measure, ...] = {
        "classification": ("accuracy", "agreement", "fidelity"),
        "detection": ("average-precision", "fidelity"),
        "language-model": ("loss", "fidelity"),
        "unlabelled": ("agreement", "fidelity"),
        "regression": ("fidelity",),
        "speech": ("fidelity",),
    }[dataset.task]  # type: ignore[assignment]
    for measure in fitting:
        if wanted in ("auto", measure):
            return measure
    raise UsageError(
        f"measure '{wanted}' does not fit {dataset.source or dataset.name} ({dataset.task} data); "
        f"use {' or '.join(fitting)}, or an evaluation function from Python"
    )


def _filled(sample: Array, type_: TensorType | None) -> Array:
    """A sample as many times as an input of a fixed batch takes."""
    batch = type_.shape[0] if type_ and type_.shape else 1
    return np.repeat(sample, batch, axis=0) if isinstance(batch, int) and len(sample) == 1 else sample
