"""NumPy's .npz archives: arrays x, y, or x_train, y_train, x_test, y_test (the naming of Keras).

In place of x, one array for each of a model's inputs, under its name.
"""

from __future__ import annotations

import lzma
import math
import os
import struct
import zipfile
import zlib
from collections.abc import Collection
from dataclasses import dataclass
from typing import Any, BinaryIO, Literal, NamedTuple

import numpy as np
from numpy.lib import format as npy

from tensmith import gate
from tensmith.data.arrays import dataset_of_arrays
from tensmith.data.dataset import ALL, TEST, TRAIN, VALIDATION, Array, Dataset, Inputs, by_part
from tensmith.data.opening import reader
from tensmith.data.storage import PIECE, spilled
from tensmith.errors import DataError
from tensmith.files import at_home

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
    uint8 is images ([n,h,w], [n,h,w,c] or [n,c,h,w]), other integers are tokens, floats are fed as they are,
    but for images [n,c,h,w] or [n,h,w,c] of pixels: none below 0, and no fractions of 1.
    Whole numbers above 255 are no pixels where --preprocess is left to tensmith: 16 bits want x // 257.
    Integer labels [n] make it a classification, and so do floats that are class numbers of the model.
    Uncompressed archives (numpy.savez) are mapped, not loaded.
    """
    file = at_home(path)
    try:
        with gate.open_file(file, gate.DATA) as raw, zipfile.ZipFile(raw) as zipped:
            archive = _Archive(str(file), raw, zipped)
            members = archive.members()
            pairs = {
                part: (
                    _inputs(archive, {name: members[member] for name, member in names.items()}),
                    archive.array(members[label]) if label in members else None,
                )
                for part, (names, label) in _parts(members, str(file)).items()
            }
    except (OSError, *_DAMAGED) as error:
        raise DataError(f"{file} is not a readable .npz file ({error}); write it with numpy.savez") from error
    if not pairs:
        raise DataError(
            f"{file} has no array x or x_train, nor one for a model's input (it has {sorted(members)[:8]}); "
            "save with savez(x=..., y=...)"
        )
    return dataset_of_arrays("npz", pairs, str(file))


def _parts(members: Collection[str], where: str) -> dict[str, tuple[dict[str, str], str]]:
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
            found[suffix] = inputs, f"y{suffix}"
    parts = by_part(found, PARTS.__getitem__, where)
    return {part: found[suffix] for part, suffix in parts.items()}


def _inputs(archive: _Archive, members: dict[str, zipfile.ZipInfo]) -> Inputs:
    """The array of each input; beside an x only what has as many samples is one."""
    headers = {name: archive.header(info) for name, info in members.items()}
    if "x" in members:
        samples = headers["x"].shape[:1]
        members = {
            name: info
            for name, info in members.items()
            if name == "x" or (headers[name].shape[:1] == samples and headers[name].dtype.kind in _NUMBERS)
        }
    return {name: archive.array(info) for name, info in members.items()}


class _Header(NamedTuple):
    """What an array is, and where its data begins."""

    shape: tuple[int, ...]
    fortran: bool
    dtype: np.dtype[Any]
    start: int


@dataclass(frozen=True)
class _Archive:
    """An open archive, called `name` in messages."""

    name: str
    raw: BinaryIO
    zipped: zipfile.ZipFile

    def members(self) -> dict[str, zipfile.ZipInfo]:
        """Each member by its array's name. DataError where they are no archive that NumPy writes."""
        found = self.zipped.infolist()
        if any(info.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED) for info in found):
            raise DataError(f"{self.name} is compressed as NumPy does not; write it with numpy.savez")
        gate.refuse_growth(sum(info.file_size for info in found), self.size, self.name)
        return {info.filename.removesuffix(".npy"): info for info in found}

    @property
    def size(self) -> int:
        """Bytes of the file."""
        return os.fstat(self.raw.fileno()).st_size

    def header(self, info: zipfile.ZipInfo) -> _Header:
        """What the array of a member is."""
        with self.zipped.open(info) as stream:
            version = npy.read_magic(stream)
            read_header = {(1, 0): npy.read_array_header_1_0, (2, 0): npy.read_array_header_2_0}.get(version)
            if read_header is None:
                raise DataError(
                    f"{self.name}:{info.filename} is of .npy version {version}; save arrays with plain dtypes"
                )
            try:
                return _Header(*read_header(stream), stream.tell())
            except Exception as error:  # NumPy reads it as Python, which may be anything
                raise ValueError(f"{info.filename} has no header that NumPy reads") from error

    def array(self, info: zipfile.ZipInfo) -> Array:
        """One array, mapped: from the file where it is stored plain, else from a temporary one."""
        where = f"{self.name}:{info.filename}"
        shape, fortran, dtype, start = self.header(info)
        if dtype.hasobject or dtype.kind not in _NUMBERS:
            raise DataError(f"{where} holds {dtype}, not numbers; save numeric arrays")
        size = math.prod(shape) * dtype.itemsize
        if size != info.file_size - start or size > MEMBER_LIMIT:
            raise DataError(
                f"{where} should hold {size} bytes (at most {MEMBER_LIMIT}), has {info.file_size - start}"
            )
        order: Literal["F", "C"] = "F" if fortran else "C"
        if not size:
            return np.empty(shape, dtype, order)
        if info.compress_type == zipfile.ZIP_STORED:
            return np.memmap(self.raw, dtype, "r", self._offset(info) + start, shape, order)
        with self.zipped.open(info) as stream:
            plain = spilled(iter(lambda: stream.read(PIECE), b""), where)
        return np.memmap(plain.stream(), dtype, "r", start, shape, order)

    def _offset(self, info: zipfile.ZipInfo) -> int:
        """Where a member's bytes start: after its local header, whose lengths differ from the directory's."""
        name, extra = struct.unpack("<HH", os.pread(self.raw.fileno(), 4, info.header_offset + 26))
        return int(info.header_offset) + 30 + int(name) + int(extra)
