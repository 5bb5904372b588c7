"""CIFAR-10 as published: binary batches or python batches (Krizhevsky 2009), also compressed with xz or gzip.

https://www.cs.toronto.edu/~kriz/cifar.html
"""

from __future__ import annotations

import re
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

import numpy as np

from tensmith.data.dataset import TEST, TRAIN, Array, Dataset, DatasetPart, LazyParts
from tensmith.data.opening import reader
from tensmith.data.parts import ArrayPart, checked_labels
from tensmith.data.storage import COMPRESSED_SUFFIXES, RandomFile, open_random, spilled
from tensmith.data.unpickle import load_arrays
from tensmith.errors import DataError
from tensmith.files import at_home

CLASS_NAMES = ("airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck")
SHAPE = (3, 32, 32)
PIXELS = 3 * 32 * 32
RECORD = 1 + PIXELS
PICKLE_LIMIT = 256 << 20
SUBFOLDERS = ("cifar-10-batches-bin", "cifar-10-batches-py")

_FILE = re.compile(r"(?P<part>data|test)_batch(_\d+)?(?P<binary>\.bin)?(\.xz|\.gz)?")


@reader("cifar10", example="DIR")
def open_cifar10(path: str, /) -> Dataset:
    """CIFAR-10: 32x32 colour images of 10 classes.

    DIR holds data_batch_1.bin ... and test_batch.bin (binary version) or the same names without .bin (python
    version), each as it is or as .xz or .gz. One such file works too.
    """
    root = at_home(path)
    files = _batch_files(root)
    openers = {part: partial(_open_part, paths) for part, paths in files.items() if paths}
    if not openers:
        raise DataError(
            f"no CIFAR-10 batches at {root}: expected data_batch_*.bin and test_batch.bin (or the python "
            "version, or .xz of either)"
        )
    return Dataset("cifar10", "classification", 10, LazyParts(openers), "image", CLASS_NAMES)


def _batch_files(root: Path) -> dict[str, list[Path]]:
    folders = [root / name for name in SUBFOLDERS if (root / name).is_dir()] or [root]
    children = [root] if root.is_file() else sorted(folders[0].iterdir()) if folders[0].is_dir() else []
    parts: dict[str, list[Path]] = {TRAIN: [], TEST: []}
    taken: set[str] = set()
    for child in children:
        match = _FILE.fullmatch(child.name)
        stem = child.name.removesuffix(child.suffix) if child.suffix in COMPRESSED_SUFFIXES else child.name
        stem = stem.removesuffix(".bin")
        if match and stem not in taken:  # one batch in two forms counts once
            taken.add(stem)
            parts[TEST if match["part"] == "test" else TRAIN].append(child)
    return parts


def _open_part(paths: list[Path]) -> DatasetPart:
    with ThreadPoolExecutor() as pool:  # decompressing takes a second a file and runs outside Python's lock
        batches = list(pool.map(lambda path: (_binary if ".bin" in path.suffixes else _python)(path), paths))
    records, *others = batches
    if others:
        records = _mapped(spilled(map(np.ndarray.tobytes, batches), str(paths[0].parent)))
    return ArrayPart(records[:, 1:].reshape(-1, *SHAPE), records[:, 0].astype(np.int64))


def _mapped(file: RandomFile) -> Array:
    """Its records, uint8 [n, RECORD]: a label, then the pixels."""
    return file.mapped(0, (file.size // RECORD, RECORD))


def _binary(path: Path) -> Array:
    """The records of a binary batch."""
    file = open_random(path)
    if file.size == 0 or file.size % RECORD:
        raise DataError(
            f"{path} holds {file.size} bytes, not a whole number of {RECORD}-byte CIFAR-10 records; "
            "it is cut off or of another dataset"
        )
    records = _mapped(file)
    checked_labels(records[:, 0], 10, path)
    return records


def _python(path: Path) -> Array:
    """The records of a python batch; they go to a temporary file, so that both versions are read alike."""
    file = open_random(path)
    if file.size > PICKLE_LIMIT:
        raise DataError(f"{path} holds {file.size} bytes, too many for a CIFAR-10 batch; check the path")
    content = load_arrays(file.read_at(0, file.size), str(path))
    pixels, numbers = content.get("data"), content.get("labels")
    if not isinstance(pixels, np.ndarray) or pixels.dtype != np.uint8 or pixels.ndim != 2:
        raise DataError(f"{path} has no uint8 array [n, {PIXELS}] called 'data'; it is not a CIFAR-10 batch")
    if pixels.shape[1] != PIXELS or not isinstance(numbers, list) or not 0 < len(numbers) == len(pixels):
        raise DataError(
            f"{path} must hold {PIXELS} pixels and one label an image; it is not a CIFAR-10 batch"
        )
    if not all(isinstance(number, int) and 0 <= number < 10 for number in numbers):
        raise DataError(f"{path} holds labels that are not integers of 0 to 9; it is not a CIFAR-10 batch")
    labels = np.array(numbers, np.uint8)
    return _mapped(spilled(iter([np.column_stack([labels, pixels]).tobytes()]), str(path)))
