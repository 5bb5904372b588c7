"""IDX files (LeCun, Cortes, Burges: the MNIST database), as they are or as .gz or .xz."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np

from tensmith.data.dataset import Array, Dataset, DatasetPart, LazyParts, part_name
from tensmith.data.opening import reader
from tensmith.data.parts import ArrayPart, checked_labels
from tensmith.data.storage import open_random
from tensmith.errors import DataError
from tensmith.files import at_home

CLASSES = 10
_IMAGES = re.compile(r"(?P<part>train|t10k|test)-images[-.]idx3-ubyte(\.gz|\.xz)?")


@reader("mnist", "fashion_mnist", example="DIR")
def open_idx(path: str, /) -> Dataset:
    """MNIST, Fashion-MNIST and others in IDX files: 28x28 grey images of 10 classes.

    DIR holds train-images-idx3-ubyte, train-labels-idx1-ubyte, t10k-images-idx3-ubyte and
    t10k-labels-idx1-ubyte (either pair suffices), each as it is or as .gz or .xz.
    """
    root = at_home(path)
    names = sorted(child.name for child in root.iterdir()) if root.is_dir() else []
    openers: dict[str, Callable[[], DatasetPart]] = {}
    for name in names:
        if match := _IMAGES.fullmatch(name):
            opener = partial(_open_part, root / name, _labels_beside(root, name))
            openers.setdefault(str(part_name(match["part"])), opener)
    if not openers:
        raise DataError(
            f"no IDX images at {root}: expected train-images-idx3-ubyte or t10k-images-idx3-ubyte (or .gz)"
        )
    return Dataset("", "classification", CLASSES, LazyParts(openers), "image")


def _labels_beside(root: Path, images: str) -> Path:
    wanted = (
        images.replace("images", "labels").replace("idx3", "idx1").removesuffix(".gz").removesuffix(".xz")
    )
    for suffix in ("", ".gz", ".xz"):
        if (root / (wanted + suffix)).is_file():
            return root / (wanted + suffix)
    raise DataError(f"{root / images} has no labels beside it; put {wanted} (or .gz) there")


def _open_part(images: Path, labels: Path) -> DatasetPart:
    pixels, numbers = _open_idx(images, 3), _open_idx(labels, 1)
    if len(pixels) != len(numbers):
        raise DataError(
            f"{images} has {len(pixels)} images but {labels} has {len(numbers)} labels; they do not belong "
            "together"
        )
    return ArrayPart(pixels, checked_labels(numbers, CLASSES, labels))


def _open_idx(path: Path, dimensions: int) -> Array:
    """An IDX file of bytes, mapped: magic 0 0 8 dimensions, then big-endian int32 sizes, then the data."""
    file = open_random(path)
    header = 4 + 4 * dimensions
    if file.size < header or file.read_at(0, 4) != bytes((0, 0, 8, dimensions)):
        raise DataError(
            f"{path} is not an IDX file of bytes with {dimensions} dimensions (wrong magic number)"
        )
    shape = tuple(np.frombuffer(file.read_at(4, 4 * dimensions), ">u4").tolist())
    if header + math.prod(shape) != file.size or not math.prod(shape):
        raise DataError(
            f"{path} should hold {list(shape)} bytes after its header, but has {file.size - header}; "
            "get it again"
        )
    return file.mapped(header, shape)
