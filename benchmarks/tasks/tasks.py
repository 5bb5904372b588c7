"""What each task reads, through tensmith's own readers, how its network learns, and what is asked of it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from benchmarks.compress.asked import Asked
from benchmarks.models import mobilenet_v1, mobilenet_v2, resnet, vgg16_small
from benchmarks.tasks.networks import (
    CharacterModel,
    DigitRecogniser,
    MobileNetV3,
    SentimentEncoder,
    VisionTransformer,
    begun,
)
from benchmarks.training import Schedule
from tensmith.data import Dataset, DatasetPart, parse_preprocess

CONTEXT, TOKENS, VOCABULARY, SAMPLES = 128, 64, 8000, 8000
_TRAINING_SHARE = 0.9

Tensors = list[Tensor]


@dataclass(frozen=True)
class Task:
    """A task: its data and network.

    data: where it lies below the folder of all data. spec: from there, and a folder to write into, to what
    `tensmith compress --data` takes. inputs: the network's. alter: what training does to inputs. asked: of
    `tensmith compress`, and recovered: with `--recover`; nothing of networks that studies are about.
    """

    data: str
    spec: Callable[[Path, Path], str]
    network: Callable[[Dataset], nn.Module]
    inputs: tuple[str, ...]
    schedule: Schedule
    asked: Asked | None = None
    recovered: Asked | None = None
    smoothing: float = 0.0
    alter: Callable[[Tensors], Tensors] = lambda inputs: inputs
    preprocess: str = "raw"
    also: str = ""

    def samples(self, part: DatasetPart, rows: Sequence[int]) -> tuple[Tensors, Tensor]:
        """Inputs and labels of samples by their numbers."""
        inputs, labels = part.inputs(rows), part.labels(rows)
        assert labels is not None
        named = inputs if isinstance(inputs, Mapping) else {self.inputs[0]: inputs}
        if self.inputs == ("images",):
            named = {"images": parse_preprocess(self.preprocess)(named["images"])}
        return [torch.from_numpy(named[name]) for name in self.inputs], torch.from_numpy(labels)

    def loss(self, scores: Tensor, labels: Tensor) -> Tensor:
        """The cross entropy of labels [...] under scores [..., classes]."""
        return F.cross_entropy(scores.flatten(0, -2), labels.flatten(), label_smoothing=self.smoothing)


def mirrored_and_shifted(inputs: Tensors) -> Tensors:
    """Each image mirrored or not, and moved by up to four pixels; what comes in is the edge's colour."""
    (images,) = inputs
    count, _, height, width = images.shape
    with torch.device(images.device):
        images = torch.where(torch.rand(count, 1, 1, 1) < 0.5, images.flip(3), images)
        padded = F.pad(images, (4, 4, 4, 4), mode="replicate")
        down, right = torch.randint(9, (2, count, 1, 1))
        rows, columns = down + torch.arange(height)[:, None], right + torch.arange(width)
        return [padded[torch.arange(count)[:, None, None], :, rows, columns].permute(0, 3, 1, 2)]


def trimmed(inputs: Tensors) -> Tensors:
    """Tokens and mask, as long as the longest text."""
    longest = int(inputs[1].sum(1).max())
    return [each[:, :longest] for each in inputs]


def _images(data: Path, _: Path) -> str:
    return f"cifar10:{data}"


def _digits(data: Path, _: Path) -> str:
    return f"wav:{data}?length={SAMPLES}"


def _sentences(data: Path, folder: Path) -> str:
    """Writes the tokenizer, learnt from the sentences of the training part."""
    from benchmarks.tasks.words import learnt

    file = folder / "tokenizer.json"
    if not file.exists():
        learnt(f"sst2:{data}", VOCABULARY, file)
    return f"sst2:{data}?tokenizer={file}&max_length={TOKENS}"


def _characters(data: Path, folder: Path) -> str:
    """Writes the text's beginning as train.txt, and its last tenth as test.txt, as is usual for it."""
    texts = folder / "text"
    if not texts.exists():
        whole = data.read_bytes()
        cut = int(len(whole) * _TRAINING_SHARE)
        texts.mkdir(parents=True)
        (texts / "train.txt").write_bytes(whole[:cut])
        (texts / "test.txt").write_bytes(whole[cut:])
    return f"text:{texts}?tokenizer=char&max_length={CONTEXT}"


def _classes(dataset: Dataset) -> int:
    assert dataset.classes is not None
    return dataset.classes


_VIT = Task(
    data="cifar10",
    spec=_images,
    network=lambda dataset: begun(VisionTransformer(_classes(dataset))),
    inputs=("images",),
    schedule=Schedule(seconds=480, epochs=200, batch=256, rate=1e-3, decay=0.05, warm=0.05),
    asked=Asked(budget=0.5, faster=3, smaller=6),
    recovered=Asked(budget=0.5, faster=4, smaller=10),
    smoothing=0.1,
    alter=mirrored_and_shifted,
    preprocess="cifar10",
)

# The networks of the DLAS paper that are for CIFAR-10.
_CIFAR = replace(
    _VIT,
    schedule=Schedule(
        seconds=3600, epochs=40, batch=256, rate=0.2, decay=5e-4, warm=0.1, momentum=0.9,
    ),
    asked=None,
)  # fmt: skip
_CIFAR_NETWORKS: dict[str, Callable[[int], nn.Module]] = {
    "resnet18": lambda classes: resnet((2, 2, 2, 2), bottleneck=False, classes=classes, small=True),
    "mobilenet_v1": lambda classes: mobilenet_v1(classes=classes, small=True),
    "mobilenet_v2": lambda classes: mobilenet_v2(classes=classes, small=True),
    "vgg16": lambda classes: vgg16_small(classes=classes),
}


def _network(build: Callable[[int], nn.Module]) -> Callable[[Dataset], nn.Module]:
    return lambda dataset: build(_classes(dataset))


TASKS = {
    **{name: replace(_CIFAR, network=_network(build)) for name, build in _CIFAR_NETWORKS.items()},
    "vit": _VIT,
    "mobilenet_v3": replace(
        _VIT,
        network=_network(MobileNetV3),
        schedule=Schedule(seconds=480, epochs=100, batch=256, rate=4e-3, warm=0.05),
    ),
    "sentiment": Task(
        data="sst2",
        spec=_sentences,
        network=lambda dataset: begun(SentimentEncoder(VOCABULARY, _classes(dataset))),
        inputs=("input_ids", "attention_mask"),
        schedule=Schedule(seconds=360, epochs=6, rate=7e-4, warm=0.05),
        asked=Asked(budget=1, faster=4, smaller=6),
        recovered=Asked(budget=1, faster=6, smaller=10),
        alter=trimmed,
        also="aclimdb:imdb/aclImdb_subset.tar.xz",
    ),
    "digits": Task(
        data="fsdd/fsdd_recordings.tar.xz",
        spec=_digits,
        network=lambda dataset: DigitRecogniser(_classes(dataset)),
        inputs=("sound",),
        schedule=Schedule(seconds=120, epochs=30, rate=3e-3, warm=0.05),
        asked=Asked(budget=0.5, faster=3, smaller=6),
        recovered=Asked(budget=0.5, faster=4, smaller=12),
    ),
    "characters": Task(
        data="lm/tinyshakespeare.txt",
        spec=_characters,
        network=lambda dataset: begun(CharacterModel(_classes(dataset), CONTEXT)),
        inputs=("tokens",),
        schedule=Schedule(seconds=480, epochs=10, batch=16, rate=1e-3, decay=0.1, warm=0.05),
        asked=Asked(budget=1, faster=1, smaller=1),
    ),
}


def all_rows(part: DatasetPart, batch: int) -> list[list[int]]:
    """The numbers of all samples of a part, in batches."""
    starts = range(0, len(part), batch)
    return [np.arange(start, min(start + batch, len(part))).tolist() for start in starts]
