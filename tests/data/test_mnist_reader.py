"""IDX files: read, paired, and refused when damaged."""

from __future__ import annotations

import gzip
import struct
from pathlib import Path

import numpy as np
import pytest

from tensmith.data import open_dataset
from tensmith.errors import DataError

PIXELS = np.random.default_rng(1).integers(0, 256, (5, 4, 6), np.uint8)
LABELS = np.array([7, 2, 1, 0, 4], np.uint8)


def idx(array: np.ndarray) -> bytes:
    return bytes((0, 0, 8, array.ndim)) + struct.pack(f">{array.ndim}I", *array.shape) + array.tobytes()


def write(
    folder: Path, part: str = "train", images: bytes | None = None, labels: bytes | None = None
) -> None:
    (folder / f"{part}-images-idx3-ubyte").write_bytes(idx(PIXELS) if images is None else images)
    (folder / f"{part}-labels-idx1-ubyte.gz").write_bytes(
        gzip.compress(idx(LABELS) if labels is None else labels)
    )


def test_images_and_labels_are_read_by_index(tmp_path: Path) -> None:
    write(tmp_path)
    write(tmp_path, "t10k")
    dataset = open_dataset(f"fashion_mnist:{tmp_path}")
    assert (dataset.name, sorted(dataset.parts), dataset.classes) == ("fashion_mnist", ["test", "train"], 10)
    part = dataset.part("test")
    assert np.array_equal(part.inputs([4, 1]), PIXELS[[4, 1], None].astype(np.float32))
    assert part.labels([4, 1]).tolist() == [4, 2]


@pytest.mark.parametrize(
    ("images", "labels", "message"),
    [
        (idx(PIXELS)[:-1], None, "should hold"),
        (b"\0\0\x0d" + idx(PIXELS)[3:], None, "wrong magic"),
        (b"", None, "wrong magic"),
        (idx(PIXELS[:4]), None, "4 images but .* 5 labels"),
        (idx(PIXELS[:0]), idx(LABELS[:0]), "should hold"),
        (None, idx(LABELS + 6), "label 13 of sample 0"),
        (None, idx(PIXELS), "wrong magic"),
        (bytes((0, 0, 8, 3)) + b"\xff" * 12, None, "should hold"),
    ],
)
def test_damage_is_refused(tmp_path: Path, images: bytes | None, labels: bytes | None, message: str) -> None:
    write(tmp_path, images=images, labels=labels)
    with pytest.raises(DataError, match=message):
        open_dataset(f"mnist:{tmp_path}").part("train")


def test_images_without_labels_name_the_missing_file(tmp_path: Path) -> None:
    (tmp_path / "train-images-idx3-ubyte.gz").write_bytes(gzip.compress(idx(PIXELS)))
    with pytest.raises(DataError, match="put train-labels-idx1-ubyte"):
        open_dataset(f"mnist:{tmp_path}")


def test_a_cut_gzip_file_is_refused(tmp_path: Path) -> None:
    write(tmp_path)
    labels = tmp_path / "train-labels-idx1-ubyte.gz"
    labels.write_bytes(labels.read_bytes()[:-6])
    with pytest.raises(DataError, match="damaged or cut off"):
        open_dataset(f"mnist:{tmp_path}").part("train")
