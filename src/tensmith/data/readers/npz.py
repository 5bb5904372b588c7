"""NumPy's .npz archives: arrays x, y, or x_train, y_train, x_test, y_test (the naming of Keras).

In place of x, one array for each of a model's inputs, under its name.
"""

from __future__ import annotations

import lzma
import math
import struct
import zipfile
import zlib
from collections.abc import Collection
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.lib import format as npy

from tensmith.data.arrays import dataset_of_arrays
from tensmith.data.dataset import ALL, TEST, TRAIN, VALIDATION, Array, Dataset, Inputs
from tensmith.data.opening import reader
from tensmith.errors import DataError

MEMBER_LIMIT = 8 << 30
_NUMBERS = "iufb"
PARTS = {"": ALL, "_train": TRAIN, "_val": VALIDATION, "_validation": VALIDATION, "_test": TEST}

# what zipfile and NumPy raise on a damaged archive; RuntimeError: it is encrypted
_DAMAGED = (zipfile.BadZipFile, zlib.error, lzma.LZMAError, struct.error, ValueError, EOFError, RuntimeError)


@reader("npz", example="FILE.npz")
def open_npz(path: str, /) -> Dataset:
    """Arrays x and y, or x_train, y_train, x_test, y_test (also x_val, y_val); y may be missing.

    For a model with several inputs, in place of x one array an input, under its name: input_ids,
    attention_mask and y, or input_ids_train, attention_mask_train, y_train and so on. Beside an x, an array
    of as many samples is an input too.
    uint8 is images ([n,h,w], [n,h,w,c] or [n,c,h,w]), other integers are tokens, floats are fed as they are.
    Integer labels [n] make it a classification. Uncompressed archives (numpy.savez) are mapped, not loaded.
    """
    file = Path(path).expanduser()
    try:
        with zipfile.ZipFile(file) as archive:
            members = {info.filename.removesuffix(".npy"): info for info in archive.infolist()}
            pairs = {
                part: (
                    _inputs(file, archive, {name: members[member] for name, member in names.items()}),
                    _member(file, archive, members[label]) if label in members else None,
                )
                for part, (names, label) in _parts(members).items()
            }
    except FileNotFoundError as error:
        raise DataError(f"no such file: {file}; check the path given after 'npz:'") from error
    except (OSError, *_DAMAGED) as error:
        raise DataError(f"{file} is not a readable .npz file ({error}); write it with numpy.savez") from error
    if not pairs:
        raise DataError(
            f"{file} has no array x or x_train, nor one for a model's input (it has {sorted(members)[:8]}); "
            "save with savez(x=..., y=...)"
        )
    return dataset_of_arrays("npz", pairs, str(file))


def _parts(members: Collection[str]) -> dict[str, tuple[dict[str, str], str]]:
    """({input: member}, labels' member) by part.

    Parts go by the suffixes of x if there is one, else by suffixes if all members end in one: inputs may be
    called what they like.
    """
    ends = tuple(filter(None, PARTS))
    alike = ends if all(name.endswith(ends) for name in members) else ("",)
    suffixes = [suffix for suffix in PARTS if f"x{suffix}" in members] or alike
    found = {}
    for suffix in suffixes:
        others = tuple(other for other in suffixes if other.endswith(suffix) and other != suffix)
        own = [name for name in members if name.endswith(suffix) and not name.endswith(others)]
        inputs = {name.removesuffix(suffix): name for name in own if name != f"y{suffix}"}
        if inputs:
            found[PARTS[suffix]] = inputs, f"y{suffix}"
    return found


def _inputs(file: Path, archive: zipfile.ZipFile, members: dict[str, zipfile.ZipInfo]) -> Inputs:
    """The array of each input; beside an x only what has as many samples is one."""
    headers = {name: _header(file, archive, info) for name, info in members.items()}
    if "x" in members:
        samples = headers["x"].shape[:1]
        members = {
            name: info
            for name, info in members.items()
            if name == "x" or (headers[name].shape[:1] == samples and headers[name].dtype.kind in _NUMBERS)
        }
    return {name: _member(file, archive, info) for name, info in members.items()}


class _Header(NamedTuple):
    """What an array is, and where its data begins."""

    shape: tuple[int, ...]
    fortran: bool
    dtype: np.dtype[Any]
    start: int


def _header(file: Path, archive: zipfile.ZipFile, info: zipfile.ZipInfo) -> _Header:
    with archive.open(info) as stream:
        version = npy.read_magic(stream)
        read_header = {(1, 0): npy.read_array_header_1_0, (2, 0): npy.read_array_header_2_0}.get(version)
        if read_header is None:
            raise DataError(
                f"{file}:{info.filename} is of .npy version {version}; save arrays with plain dtypes"
            )
        return _Header(*read_header(stream), stream.tell())


def _member(file: Path, archive: zipfile.ZipFile, info: zipfile.ZipInfo) -> Array:
    """One array: mapped from the file where it is stored plain, else decompressed into memory."""
    where = f"{file}:{info.filename}"
    shape, fortran, dtype, start = _header(file, archive, info)
    if dtype.hasobject or dtype.kind not in _NUMBERS:
        raise DataError(f"{where} holds {dtype}, not numbers; save numeric arrays")
    size = math.prod(shape) * dtype.itemsize
    if size != info.file_size - start or size > MEMBER_LIMIT:
        raise DataError(
            f"{where} should hold {size} bytes (at most {MEMBER_LIMIT}), has {info.file_size - start}"
        )
    order: Literal["F", "C"] = "F" if fortran else "C"
    if info.compress_type == zipfile.ZIP_STORED and size:
        offset = _data_offset(file, info) + start
        return np.memmap(file, dtype, "r", offset, shape, order)
    with archive.open(info) as stream:
        stream.read(start)
        data = stream.read(size)
    if len(data) != size:
        raise DataError(f"{where} ends early; get the file again")
    return np.frombuffer(data, dtype).reshape(shape, order=order)


def _data_offset(file: Path, info: zipfile.ZipInfo) -> int:
    """Where a member's bytes start: after its local header, whose lengths differ from the directory's."""
    with file.open("rb") as raw:
        raw.seek(info.header_offset + 26)
        name, extra = struct.unpack("<HH", raw.read(4))
    return int(info.header_offset) + 30 + int(name) + int(extra)
