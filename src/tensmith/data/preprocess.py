"""What stands between 0..255 images and a model's input: an affine map a channel."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from tensmith.data.dataset import Array
from tensmith.errors import DataError, UsageError

_TIED_ERRORS = 2
_REVERSED = "-bgr"


@dataclass(frozen=True)
class Preprocess:
    """`(x - mean) / std` a channel, on images in 0..255. One number stands for every channel.

    reversed: the model takes blue, green, red, as OpenCV reads images; mean and std are in its order.
    """

    name: str
    mean: tuple[float, ...]
    std: tuple[float, ...]
    reversed: bool = False

    def __call__(self, images: Array) -> Array:
        """float32 [n, channels, height, width] in 0..255 to the model's range; DataError on other shapes."""
        count = max(len(self.mean), len(self.std))
        if self.reversed and count == 1 and images.ndim == 4 and images.shape[1] != 1:
            count = 3
        if images.ndim != 4 or (count > 1 and images.shape[1] != count):
            raise DataError(
                f"preprocessing '{self.name}' is for images of {count if count > 1 else 'any'} channels, "
                f"not for {list(images.shape)}; choose another with --preprocess"
            )
        if self.reversed:
            images = images[:, ::-1]
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
INT8 = Preprocess("int8", (128.0,), (1.0,))

NAMED = {preprocess.name: preprocess for preprocess in (RAW, UNIT, TF, IMAGENET, CIFAR10, MNIST, INT8)}


def parse_preprocess(text: str) -> Preprocess:
    """A name (raw, unit, tf, imagenet, ...), or MEAN/STD of images in 0..1: "0.5/0.5", "0.4,0.5,0.6/0.2".

    With "-bgr" behind it, for models that take blue first: "unit-bgr".
    """
    if text.endswith(_REVERSED):
        return reversed_channels(parse_preprocess(text.removesuffix(_REVERSED)))
    if text in NAMED:
        return NAMED[text]
    try:
        mean, std = (tuple(float(value) for value in side.split(",")) for side in text.split("/"))
    except ValueError:
        raise UsageError(
            f"unknown preprocessing '{text}'; use {', '.join(NAMED)}, "
            "or MEAN/STD such as 0.5/0.5 or 0.5,0.5,0.5/0.2,0.2,0.2; with -bgr behind it where blue is first"
        ) from None
    if not all(map(math.isfinite, mean + std)) or min(std) <= 0 or len({len(mean), len(std)} - {1}) > 1:
        raise UsageError(
            f"preprocessing '{text}' needs finite numbers, a positive STD, and as many of each (or one)"
        )
    return _of_unit(text, mean, std)


def reversed_channels(preprocess: Preprocess) -> Preprocess:
    """The same for a model that takes channels the other way round: mean and std stay with their colour."""
    if preprocess.reversed:
        raise UsageError(f"preprocessing '{preprocess.name}' turns channels round already")
    name = f"{preprocess.name}{_REVERSED}"
    return Preprocess(name, preprocess.mean[::-1], preprocess.std[::-1], reversed=True)


def candidates(channels: int, dtype: npt.DTypeLike = np.float32) -> tuple[Preprocess, ...]:
    """The usual preprocessings of images with so many channels, most usual first: what `auto` tries.

    Integers are taken as they are; those of a signed byte, as TFLite's converter has them, begin at -128.
    """
    if np.dtype(dtype).kind in "iu":
        return (INT8 if np.dtype(dtype) == np.int8 else RAW,)
    if channels == 3:
        return (IMAGENET, RAW, UNIT, TF, CIFAR10)
    return (RAW, UNIT, TF, *((MNIST,) if channels == 1 else ()))


@dataclass(frozen=True)
class PreprocessChoice:
    """`best` is what to use; `tied` are the others that `samples` samples cannot tell from it."""

    best: Preprocess
    tied: tuple[Preprocess, ...]
    samples: int

    def __str__(self) -> str:
        if not self.tied:
            return f"preprocessing '{self.best.name}' was chosen: the model works best under it"
        others = " and ".join(f"'{preprocess.name}'" for preprocess in self.tied)
        return (
            f"preprocessing '{self.best.name}' was chosen as the more usual: under {others} the model finds "
            f"the labels of {self.samples} images as likely, within {_TIED_ERRORS} standard errors; "
            "if you know the right one, name it by --preprocess"
        )


def choose(
    tried: Sequence[Preprocess],
    likelihoods: Callable[[Preprocess, int, int], Array],
    looks: Sequence[int] = (100, 300, 1200),
) -> PreprocessChoice:
    """The preprocessing, of those tried (most usual first), under which labels are most likely.

    `likelihoods(preprocess, start, stop)` are the log-likelihoods of the labels of samples start..stop,
    float64 [n], the same samples for each preprocessing; fewer where samples end. (Accuracy would tie too
    often, most of all on training images.) One is beaten when the mean of the paired differences to the best
    is over two of its standard errors; after the samples of a look those not beaten get those of the next,
    and in the end the most usual is taken. NaN is always beaten. DataError when no candidate is left.
    """
    standing = list(tried)
    scores = {preprocess: np.zeros(0) for preprocess in standing}
    for start, stop in pairwise((0, *looks)):
        for preprocess in standing:
            scores[preprocess] = np.append(scores[preprocess], likelihoods(preprocess, start, stop))
        standing = [p for p in standing if scores[p].size and np.isfinite(scores[p]).all()]
        if not standing:
            raise DataError(
                "no preprocessing gives the model a finite score; see whether the data holds NaN or "
                "infinity, or name the right one with --preprocess"
            )
        best = scores[max(standing, key=lambda p: float(scores[p].mean()))]
        standing = [p for p in standing if not _beaten(best - scores[p])]
        if len(standing) == 1 or best.size < stop:
            break
    return PreprocessChoice(standing[0], tuple(standing[1:]), best.size)


def _beaten(lost: Array) -> bool:
    """Whether the mean of `lost` [n] is above 0 by more than chance makes it."""
    error = lost.std(ddof=1) / math.sqrt(lost.size) if lost.size > 1 else math.inf
    return bool(lost.mean() > _TIED_ERRORS * error)
