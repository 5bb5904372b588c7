"""What stands between 0..255 images and a model's input: an affine map a channel."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass

import numpy as np

from tensmith.data.dataset import Array
from tensmith.errors import DataError, UsageError


@dataclass(frozen=True)
class Preprocess:
    """`(x - mean) / std` a channel, on images in 0..255. One number stands for every channel."""

    name: str
    mean: tuple[float, ...]
    std: tuple[float, ...]

    def __call__(self, images: Array) -> Array:
        """float32 [n, channels, height, width] in 0..255 to the model's range; DataError on other shapes."""
        count = max(len(self.mean), len(self.std))
        if images.ndim != 4 or (count > 1 and images.shape[1] != count):
            raise DataError(
                f"preprocessing '{self.name}' is for images of {count if count > 1 else 'any'} channels, "
                f"not for {list(images.shape)}; choose another with --preprocess"
            )
        mean = np.asarray(self.mean, np.float32).reshape(1, -1, 1, 1)
        std = np.asarray(self.std, np.float32).reshape(1, -1, 1, 1)
        return (images.astype(np.float32, copy=False) - mean) / std


def _of_unit(name: str, mean: tuple[float, ...], std: tuple[float, ...]) -> Preprocess:
    """From the mean and standard deviation of images in 0..1, as papers print them."""
    return Preprocess(name, tuple(255 * value for value in mean), tuple(255 * value for value in std))


RAW = Preprocess("raw", (0.0,), (1.0,))
UNIT = Preprocess("unit", (0.0,), (255.0,))
TF = Preprocess("tf", (127.5,), (127.5,))
IMAGENET = _of_unit("imagenet", (0.485, 0.456, 0.406), (0.229, 0.224, 0.225))
CIFAR10 = _of_unit("cifar10", (0.4914, 0.4822, 0.4465), (0.2470, 0.2435, 0.2616))
MNIST = _of_unit("mnist", (0.1307,), (0.3081,))

NAMED = {preprocess.name: preprocess for preprocess in (RAW, UNIT, TF, IMAGENET, CIFAR10, MNIST)}


def parse_preprocess(text: str) -> Preprocess:
    """A name (raw, unit, tf, imagenet, ...), or MEAN/STD of images in 0..1: "0.5/0.5", "0.4,0.5,0.6/0.2"."""
    if text in NAMED:
        return NAMED[text]
    try:
        mean, std = (tuple(float(value) for value in side.split(",")) for side in text.split("/"))
    except ValueError:
        raise UsageError(
            f"unknown preprocessing '{text}'; use {', '.join(NAMED)}, "
            "or MEAN/STD such as 0.5/0.5 or 0.5,0.5,0.5/0.2,0.2,0.2"
        ) from None
    if not all(map(math.isfinite, mean + std)) or min(std) <= 0 or len({len(mean), len(std)} - {1}) > 1:
        raise UsageError(
            f"preprocessing '{text}' needs finite numbers, a positive STD, and as many of each (or one)"
        )
    return _of_unit(text, mean, std)


def candidates(channels: int) -> tuple[Preprocess, ...]:
    """The usual preprocessings of images with so many channels, most usual first: what `auto` tries."""
    own = {1: (MNIST,), 3: (IMAGENET, CIFAR10)}.get(channels, ())
    return (RAW, UNIT, TF, *own)


@dataclass(frozen=True)
class Choice:
    """The preprocessing with the best score, and the score of each that was tried."""

    best: Preprocess
    scores: tuple[tuple[Preprocess, float], ...]


def choose(tried: Iterable[Preprocess], score: Callable[[Preprocess], float]) -> Choice:
    """Scores every candidate (higher is better) and keeps the best; of equals, the earlier one.

    The mean log-likelihood of the labels makes a good score: accuracy ties between near candidates, most of
    all on training images. A score of NaN never wins. Raises DataError when no candidate has a score.
    """
    scores = tuple((preprocess, score(preprocess)) for preprocess in tried)
    scored = [(preprocess, value) for preprocess, value in scores if not math.isnan(value)]
    if not scored:
        raise DataError(
            "no preprocessing gives the model a finite score; name the right one with --preprocess"
        )
    return Choice(max(scored, key=lambda pair: pair[1])[0], scores)
