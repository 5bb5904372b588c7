"""The six models of the comparison: their data, how they are judged, and what tensmith's front must hold."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np

from tensmith.data import Splits, Subset, open_dataset, parse_preprocess, split
from tensmith.engine.signature import read_signature

Arrays = dict[str, np.ndarray[Any, Any]]


@dataclass(frozen=True)
class Case:
    """A model below DATA/models with its data.

    budget: what may be lost, in points of `measure`, or per cent of the loss. goals: (speed-up, size ratio)
    pairs, each to be reached by one point of tensmith's front.
    """

    name: str
    data: str
    preprocess: str | None
    measure: Literal["accuracy", "agreement", "loss"]
    budget: float
    goals: tuple[tuple[float, float], ...]

    def model(self, root: Path) -> Path:
        """The file as delivered."""
        return root / "models" / f"{self.name}.onnx"

    def spec(self, root: Path) -> str:
        """What `tensmith compress --data` takes."""
        kind, _, path = self.data.partition(":")
        return f"{kind}:{root / path}"

    def views(self, root: Path) -> Splits:
        """The very splits that `tensmith compress` makes where it is not told otherwise."""
        return split(open_dataset(self.spec(root)))

    def inputs(self, images: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        """What the model takes, from what the dataset gives."""
        ready = parse_preprocess(self.preprocess)(images) if self.preprocess else images
        return np.ascontiguousarray(ready)

    def singles(self, view: Subset, model: Path) -> Iterator[tuple[Arrays, np.ndarray[Any, Any]]]:
        """Sample by sample: the named input [1, ...] and the label [1] or [1, length]."""
        (spec,) = read_signature(model).inputs
        for batch in view.batches(1):
            assert batch.labels is not None
            yield {spec.name: self.inputs(batch.inputs)}, batch.labels


_CIFAR, _IMAGENET = "cifar10:cifar10", "imagefolder:imagenet/imagenet_sample_1000_224.tar"
_STORIES = "text:lm/tinystories_sample_2MiB.txt"

CASES = {
    case.name: case
    for case in (
        Case("resnet20_cifar10", _CIFAR, "imagenet", "accuracy", 0.5, ((2.2, 0), (0, 5), (2, 3.8))),
        Case("resnet56_cifar10", _CIFAR, "imagenet", "accuracy", 0.5, ((2.7, 0), (0, 5), (2.4, 3.8))),
        Case("resnet8_wide_cifar10", _CIFAR, "raw", "accuracy", 0.5, ((2.8, 0), (0, 6), (2.6, 4))),
        Case("squeezenet1_1_imagenet", _IMAGENET, "imagenet", "accuracy", 1.0, ((2.5, 0), (0, 5))),
        Case("mobilenetv2_imagenet", _IMAGENET, "imagenet", "accuracy", 1.0, ((2.4, 0), (0, 4.5))),
        Case("stories260k", _STORIES, None, "loss", 1.0, ((1, 3.5),)),
    )
}
