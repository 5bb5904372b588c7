"""CIFAR-10 batches, binary and python, plain and compressed, whole and damaged."""

from __future__ import annotations

import lzma
import pickle  # to write samples the way Python 3 tools do; the package never imports it
import struct
from pathlib import Path

import numpy as np
import pytest

from tensmith.data import open_dataset
from tensmith.errors import DataError

RANDOM = np.random.default_rng(0)
PIXELS = RANDOM.integers(0, 256, (7, 3072), np.uint8)
LABELS = [3, 0, 9, 9, 1, 5, 2]


def binary(pixels: np.ndarray = PIXELS, labels: list[int] = LABELS) -> bytes:
    return np.hstack([np.array(labels, np.uint8)[:, None], pixels]).tobytes()


def python2_pickle() -> bytes:
    """A batch as the official archive has it: protocol 2 of Python 2, where every string is a byte string."""

    def text(value: bytes) -> bytes:
        return b"U" + bytes([len(value)]) + value

    state = (
        b"(K\x01K\x07M\x00\x0c\x86" + dtype() + b"\x89T" + struct.pack("<i", PIXELS.size) + PIXELS.tobytes()
    )
    return (
        b"\x80\x02}q\x01("
        + (text(b"batch_label") + text(b"training batch 1 of 5"))
        + (text(b"labels") + b"](" + b"".join(b"K" + bytes([label]) for label in LABELS) + b"e")
        + (text(b"data") + b"cnumpy.core.multiarray\n_reconstruct\ncnumpy\nndarray\nK\x00\x85U\x01b\x87R")
        + (state + b"tb" + b"u.")
    )


def dtype() -> bytes:
    return b"cnumpy\ndtype\nU\x02u1K\x00K\x01\x87R(K\x03U\x01|NNNJ\xff\xff\xff\xffJ\xff\xff\xff\xffK\x00tb"


def python3_pickle(protocol: int) -> bytes:
    return pickle.dumps({b"data": PIXELS, b"labels": LABELS, b"filenames": ["a"] * 7}, protocol)


CONTENTS = {
    "data_batch_1.bin": binary(),
    "data_batch_1.bin.xz": lzma.compress(binary()),
    "data_batch_1": python2_pickle(),
    "data_batch_1.xz": lzma.compress(python2_pickle()),
    "data_batch_2": python3_pickle(2),
    "data_batch_3": python3_pickle(4),
    "data_batch_4": python3_pickle(5),
}


@pytest.mark.parametrize("name", CONTENTS)
def test_every_form_of_a_batch_reads_the_same(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_bytes(CONTENTS[name])
    dataset = open_dataset(f"cifar10:{tmp_path}")
    part = dataset.part("train")
    assert (len(part), dataset.classes, list(dataset.parts)) == (7, 10, ["train"])
    images = part.inputs([6, 0])
    assert images.dtype == np.float32
    assert np.array_equal(images, PIXELS[[6, 0]].reshape(2, 3, 32, 32))
    assert part.labels([6, 0]).tolist() == [2, 3]


def test_batches_follow_each_other_across_files(tmp_path: Path) -> None:
    (tmp_path / "data_batch_1.bin").write_bytes(binary())
    (tmp_path / "data_batch_2.bin.xz").write_bytes(lzma.compress(binary(255 - PIXELS)))
    (tmp_path / "data_batch_3").write_bytes(python3_pickle(4))
    (tmp_path / "test_batch.bin").write_bytes(binary(PIXELS[:1], [8]))
    dataset = open_dataset(f"cifar10:{tmp_path}")
    assert {name: len(part) for name, part in dataset.parts.items()} == {"train": 21, "test": 1}
    found = dataset.part("train").inputs([13, 6, 20])
    assert np.array_equal(found[0], 255 - found[1]) and np.array_equal(found[1], found[2])
    assert dataset.part("train").labels([13, 6, 14]).tolist() == [2, 2, 3]


def test_a_batch_in_two_forms_counts_once(tmp_path: Path) -> None:
    (tmp_path / "test_batch.bin").write_bytes(binary())
    (tmp_path / "test_batch.bin.xz").write_bytes(lzma.compress(binary()))
    assert len(open_dataset(f"cifar10:{tmp_path}").part("test")) == 7


def test_listing_parts_reads_nothing(tmp_path: Path) -> None:
    (tmp_path / "test_batch.bin.xz").write_bytes(b"damaged")
    assert list(open_dataset(f"cifar10:{tmp_path}").parts) == ["test"]


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("test_batch.bin", binary()[:-1], "not a whole number of 3073-byte"),
        ("test_batch.bin", b"", "not a whole number"),
        ("test_batch.bin", binary(labels=[3, 0, 10, 9, 1, 5, 2]), "label 10 of sample 2 is out of range"),
        ("test_batch.bin.xz", lzma.compress(binary())[:-20], "damaged or cut off"),
        ("test_batch.bin.xz", b"no xz at all", "damaged or cut off"),
        ("test_batch", pickle.dumps({"data": PIXELS, "labels": LABELS[:3]}), "one label an image"),
        ("test_batch", pickle.dumps({"data": PIXELS[:0], "labels": []}), "one label an image"),
        ("test_batch", pickle.dumps({"data": PIXELS, "labels": ["cat"] * 7}), "not integers"),
        ("test_batch", pickle.dumps({"data": PIXELS, "labels": [2**70] * 7}), "not integers of 0 to 9"),
        ("test_batch", pickle.dumps({"data": PIXELS, "labels": [-1] * 7}), "not integers of 0 to 9"),
        ("test_batch", pickle.dumps([PIXELS]), "holds a list"),
        ("test_batch", python2_pickle()[:-4000], "not a plain pickle"),
        ("test_batch", b"\x80\x02cposix\nsystem\n(S'true'\ntR.", "posix.system"),
    ],
)
def test_damage_is_named_with_its_file(tmp_path: Path, name: str, content: bytes, message: str) -> None:
    (tmp_path / name).write_bytes(content)
    with pytest.raises(DataError, match=message) as caught:
        open_dataset(f"cifar10:{tmp_path}").part("test")
    assert name in str(caught.value)


def test_a_missing_or_empty_folder_says_what_was_expected(tmp_path: Path) -> None:
    for path in (tmp_path, tmp_path / "missing"):
        with pytest.raises(DataError, match=r"expected data_batch_\*\.bin"):
            open_dataset(f"cifar10:{path}")


def test_an_index_out_of_range_is_an_error_not_the_last_image(tmp_path: Path) -> None:
    (tmp_path / "test_batch.bin").write_bytes(binary())
    for index in (-1, 7):
        with pytest.raises(IndexError):
            open_dataset(f"cifar10:{tmp_path}").part("test").inputs([index])
