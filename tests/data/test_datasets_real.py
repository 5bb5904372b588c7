"""The readers on published data: counts, class balance, and what models say about them."""

from __future__ import annotations

import functools
from pathlib import Path

import numpy as np
import onnxruntime
import pytest

from tensmith.data import Preprocess, Subset, candidates, choose, open_dataset, split
from tensmith.data.dataset import Dataset
from tensmith.evaluate.likelihood import log_likelihoods

# One process decompresses a file once for all of these.
pytestmark = [pytest.mark.data, pytest.mark.xdist_group("datasets_real")]


@functools.cache
def opened(data_dir: Path, spec: str) -> Dataset:
    kind, _, path = spec.partition(":")
    if not (data_dir / path.partition("?")[0]).exists():
        pytest.skip(f"no {path} in {data_dir}")
    return open_dataset(f"{kind}:{data_dir / path}")


def class_counts(dataset: Dataset, part: str) -> list[int]:
    chosen = dataset.part(part)
    labels = chosen.labels(np.arange(len(chosen)))
    assert labels is not None and dataset.classes is not None
    return np.bincount(labels, minlength=dataset.classes).tolist()


def session(data_dir: Path, name: str) -> onnxruntime.InferenceSession:
    path = data_dir / "models" / name
    if not path.exists():
        pytest.skip(f"no {path}")
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    return onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])


def accuracy(model: onnxruntime.InferenceSession, view: Subset, preprocess: Preprocess) -> float:
    name = model.get_inputs()[0].name
    right = 0
    for batch in view.batches(50):
        scores = model.run(None, {name: preprocess(batch.inputs)})[0]
        right += int((scores.argmax(1) == batch.labels).sum())
    return right / len(view)


@pytest.fixture(scope="module")
def cifar10(data_dir: Path) -> Dataset:
    return opened(data_dir, "cifar10:cifar10")


def test_cifar10_test_part_has_a_thousand_images_a_class(cifar10: Dataset) -> None:
    assert class_counts(cifar10, "test") == [1000] * 10


IMAGENET_SAMPLE = "imagefolder:imagenet/imagenet_sample_1000_224.tar"


@pytest.mark.parametrize(
    ("model", "source", "expected"),
    [
        ("resnet8_cifar10", "cifar10:cifar10", "raw"),
        ("resnet20_cifar10", "cifar10:cifar10", "imagenet"),
        # Their likelihoods of training images tie with those under cifar10's own statistics.
        ("resnet56_cifar10", "cifar10:cifar10", "imagenet"),
        ("squeezenet1_1_imagenet", IMAGENET_SAMPLE, "imagenet"),
    ],
)
def test_a_model_tells_its_own_preprocessing(data_dir: Path, model: str, source: str, expected: str) -> None:
    path = data_dir / "models" / f"{model}.onnx"
    if not path.exists():
        pytest.skip(f"no {path}")
    view = split(opened(data_dir, source)).training

    def likelihoods(preprocess: Preprocess, start: int, stop: int) -> np.ndarray:
        return log_likelihoods(path, Subset(view.part, view.indices[start:stop]), preprocess, 1)

    assert choose(candidates(3), likelihoods, (100, 200)).best.name == expected


def test_fashion_mnist_has_its_test_part(data_dir: Path) -> None:
    dataset = opened(data_dir, "fashion_mnist:fashion_mnist")
    assert class_counts(dataset, "test") == [1000] * 10
    assert dataset.part("test").inputs([0, 9999]).shape == (2, 1, 28, 28)


def test_mnist_test_part_has_the_official_class_counts(data_dir: Path) -> None:
    dataset = opened(data_dir, "mnist:mnist")
    assert class_counts(dataset, "test") == [980, 1135, 1032, 1010, 982, 892, 958, 1028, 974, 1009]
    assert len(dataset.part("train")) == 14_000


def test_imagenet_sample_is_in_synset_order_and_splits_in_three(data_dir: Path) -> None:
    dataset = opened(data_dir, "imagefolder:imagenet")
    assert class_counts(dataset, "validation") == [1] * 1000
    assert (dataset.class_names[0], dataset.class_names[999]) == ("n01440764", "n15075141")
    splits = split(dataset, 100, 300)
    assert [len(v) for v in (splits.calibration, splits.search, splits.held_out)] == [100, 300, 600]
    assert next(splits.search.batches(2)).inputs.shape == (2, 3, 224, 224)


def test_squeezenet_agrees_with_the_imagenet_labels(data_dir: Path) -> None:
    dataset = opened(data_dir, "imagefolder:imagenet/imagenet_sample_1000_224.tar")
    imagenet = next(preprocess for preprocess in candidates(3) if preprocess.name == "imagenet")
    view = Subset(dataset.part("validation"), np.arange(0, 1000, 20))
    assert accuracy(session(data_dir, "squeezenet1_1_imagenet.onnx"), view, imagenet) > 0.4


def test_spoken_digits_keep_the_official_test_part(data_dir: Path) -> None:
    dataset = opened(data_dir, "wav:fsdd")
    assert class_counts(dataset, "test") == [30] * 10
    assert class_counts(dataset, "train") == [270] * 10
    sound = dataset.part("test").inputs([0])
    assert sound.dtype == np.float32 and 0.01 < np.abs(sound).max() <= 1


def test_librispeech_pairs_sound_and_transcript(data_dir: Path) -> None:
    pytest.importorskip("soundfile")
    part = opened(data_dir, "librispeech:librispeech").part("all")
    labels = part.labels([0])
    assert labels is not None and labels[0].startswith("IF THE READER WILL EXCUSE ME")
    assert part.inputs([0]).shape == (1, 186_560)  # 11.66 s at 16 kHz


def test_sst2_has_the_counts_of_glue(data_dir: Path) -> None:
    dataset = opened(data_dir, "sst2:sst2")
    assert class_counts(dataset, "train") == [29_780, 37_569]
    assert class_counts(dataset, "validation") == [428, 444]
    first = dataset.part("validation").inputs([0])[0]
    assert bytes(first.tolist()) == b"it 's a charming and often affecting journey ."


def test_imdb_is_balanced(data_dir: Path) -> None:
    dataset = opened(data_dir, "aclimdb:imdb")
    assert class_counts(dataset, "train") == [2500, 2500]
    assert class_counts(dataset, "test") == [1250, 1250]


def test_shakespeare_has_65_characters(data_dir: Path) -> None:
    dataset = opened(data_dir, "text:lm/tinyshakespeare.txt?tokenizer=char")
    assert dataset.classes == 65
    assert dataset.part("all").inputs([0]).shape == (1, 512)


def test_stories260k_has_its_known_loss_on_200_stories(data_dir: Path) -> None:
    """1.478 nats a token with the model's own tokenizer; a leading space too few shows at once."""
    dataset = opened(data_dir, "text:lm/tinystories_sample_2MiB.txt")
    model = session(data_dir, "stories260k.onnx")
    assert dataset.classes == 512
    total, count = 0.0, 0
    for batch in Subset(dataset.part("all"), np.arange(200)).batches(1):
        (logits,) = model.run(["logits"], {"tokens": batch.inputs})
        shifted = logits[0].astype(np.float64) - logits[0].max(axis=1, keepdims=True)
        chances = shifted - np.log(np.exp(shifted).sum(axis=1, keepdims=True))
        assert batch.labels is not None and batch.inputs[0, 0] == 1
        total -= float(chances[np.arange(len(shifted)), batch.labels[0]].sum())
        count += batch.labels.size
    assert round(total / count, 3) == 1.478
