"""Samples to train on, batch by batch, changed in ways that the original does not mind."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from tensmith.data import Subset
from tensmith.data.dataset import Inputs, by_name, sample_count
from tensmith.engine.base import fixed_batch, specs_of
from tensmith.errors import ProgramError
from tensmith.evaluate.accuracy import Preprocess
from tensmith.formula.arith import Array
from tensmith.ir import Program, TensorType

# By input of the model.
Samples = Mapping[str, Array]
# Images [n, channels, height, width] and a generator to images of that shape.
Change = Callable[[Array, np.random.Generator], Array]

# Images are shifted by up to this share of their sides: 4 of 32 pixels.
_SHIFT = 1 / 8
# Of samples that differ in shape: as many elements a batch has at most, and so many are looked at.
_ELEMENTS, _MEASURED = 2048, 4096
# Where parts of texts are taken: so many batches of all, with as large a share of the elements, are of whole
# ones, so that places far from a beginning are learned too and no step costs much more than others.
_WHOLE = 0.25
# A change is borne where it leaves so many answers as they are, of so many images.
_BORNE, _LOOKED_AT = 0.9, 256


def mirrored(images: Array, random: np.random.Generator) -> Array:
    """Half of the images, left and right exchanged."""
    turned = random.random(len(images)) < 0.5
    return np.where(turned[:, None, None, None], images[..., ::-1], images)


def shifted(images: Array, random: np.random.Generator) -> Array:
    """Each image a few pixels aside; what comes in at an edge repeats it."""
    height, width = images.shape[2:]
    most = (round(height * _SHIFT), round(width * _SHIFT))
    wide = np.pad(images, ((0, 0), (0, 0), *((n, n) for n in most)), mode="edge")
    result = np.empty_like(images)
    for number, image in enumerate(wide):
        top, left = (int(random.integers(2 * n + 1)) for n in most)
        result[number] = image[:, top : top + height, left : left + width]
    return result


@dataclass(frozen=True)
class Feed:
    """Batches of a view. prepare: from images to what the model takes; changes are made before it.

    Which samples a step sees, and how they are changed, depends on the seed and the step alone. Of samples
    that differ in shape some of about one size are cut to what all of them have, and are as many as
    `_ELEMENTS` allow: the original answers what is left of a text, too.

    longest: the places that a text [1, length] has at most, from anywhere in it: many short parts tell more
    than few whole texts and cost less, as attention takes the square of a length. 0: whole texts.
    """

    view: Subset
    types: Mapping[str, TensorType]
    prepare: Preprocess | None
    batch: int
    seed: int
    changes: Sequence[Change] = ()
    longest: int = 0

    def at(self, step: int) -> Samples:
        """The samples of a step."""
        random = np.random.default_rng((self.seed, step))
        part, count = self.view.part, min(self.batch, len(self.view))
        if not part.ragged:
            chosen = self.view.indices[random.choice(len(self.view), count, replace=False)]
            return self.prepared(part.inputs(chosen), self.changes, random)
        return self.prepared(_cut_alike(self._neighbours(count, random)), self.changes, random)

    def _neighbours(self, count: int, random: np.random.Generator) -> list[Inputs]:
        """At most so many samples of about one size, or parts of one size."""
        order, sizes = _by_size(self.view, self.seed)
        whole = not self.longest or random.random() < _WHOLE
        elements = int(_ELEMENTS * _WHOLE) if self.longest and whole else _ELEMENTS
        first = int(random.integers(len(order)))
        longest = int(sizes[first]) if whole else min(self.longest, int(sizes[first]))
        fitting = max(1, min(count, elements // max(1, longest)))
        if longest < sizes[first]:
            longer = random.choice(order[np.searchsorted(sizes, longest) :], fitting)
            return [_somewhere(self.view.part.inputs([index]), longest, random) for index in longer]
        first = min(first, len(order) - fitting)
        return [self.view.part.inputs([index]) for index in order[first : first + fitting]]

    def prepared(self, inputs: Inputs, changes: Sequence[Change], random: np.random.Generator) -> Samples:
        """A batch as the model takes it."""
        if isinstance(inputs, Mapping):
            named = dict(inputs)
        else:
            for change in changes:
                inputs = change(inputs, random)
            (name,) = self.types
            named = {name: self.prepare(inputs) if self.prepare else inputs}
        return {name: named[name].astype(t.numpy) for name, t in self.types.items()}

    def changed_as_borne(self, classes: Callable[[Samples], Array]) -> Feed:
        """With the changes of images after which `classes` [n] are nearly all as before."""
        if self.prepare is None:
            return self
        images = next(iter(self.view.take(_LOOKED_AT).batches(_LOOKED_AT))).inputs
        random = np.random.default_rng(self.seed)
        plain = classes(self.prepared(images, (), random))

        def borne(change: Change) -> bool:
            return bool(np.mean(classes(self.prepared(images, (change,), random)) == plain) >= _BORNE)

        return replace(self, changes=tuple(filter(borne, (mirrored, shifted))))


@lru_cache(maxsize=1)
def _by_size(view: Subset, seed: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Samples that differ in shape, the smallest first, and how many elements the first input of each has.

    All that is trained of a run sees them in one order: each is read for that once.
    """
    some = np.random.default_rng(seed).permutation(view.indices)[:_MEASURED]
    first = (next(iter(by_name(view.part.inputs([index])).values())) for index in some)
    sizes = np.array([array.size for array in first], np.int64)
    order = np.argsort(sizes, kind="stable")
    return some[order], sizes[order]


def _somewhere(text: Inputs, longest: int, random: np.random.Generator) -> Inputs:
    """So many places of a text [1, length], from one that is drawn on; the same of all inputs."""
    named = by_name(text)
    length = min(array.shape[1] for array in named.values())
    start = int(random.integers(max(1, length - longest + 1)))
    cut = {name: array[:, start : start + longest] for name, array in named.items()}
    return cut if isinstance(text, Mapping) else cut[""]


def _cut_alike(singles: Sequence[Inputs]) -> Inputs:
    """Samples as a batch: of each input the beginning that all have, along each axis."""
    named = [by_name(each) for each in singles]
    joined = {}
    for name in named[0]:
        cut = tuple(slice(size) for size in np.min([each[name].shape for each in named], axis=0))
        joined[name] = np.concatenate([each[name][cut] for each in named])
    return joined if isinstance(singles[0], Mapping) else joined[""]


def parts_of(samples: Samples, program: Program, most: int) -> Iterator[Samples]:
    """The samples in as many at a time as the program takes, or at most so many.

    ProgramError where it takes more than there are.
    """
    count = sample_count(samples)
    size = fixed_batch(specs_of(program.inputs)) or min(count, most)
    if count < size:
        raise ProgramError("it takes more samples at a time than a batch has, or there are")
    for start in range(0, count - size + 1, size):
        yield {name: array[start : start + size] for name, array in samples.items()}
