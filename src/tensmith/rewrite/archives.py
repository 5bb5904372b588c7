"""Arrays by name in one file, hashed: a zip of .npy files, read with bounds and without pickles."""

from __future__ import annotations

import hashlib
import io
import math
import re
import zipfile
import zlib
from collections.abc import Mapping
from pathlib import Path

import numpy as np

from tensmith import gate
from tensmith.errors import ProgramError, VerificationError
from tensmith.files import atomic_path
from tensmith.formula.arith import Array

# Training keeps five arrays of each tensor that learns.
_MOST_ENTRIES = 100_000
# What zipfile says of a file that is damaged, encrypted or packed in another way.
_UNREADABLE = (OSError, ValueError, zipfile.BadZipFile, RuntimeError, EOFError, zlib.error)


def digest_of(arrays: Mapping[str, Array]) -> str:
    """SHA-256 of arrays, names, types and shapes included."""
    digest = hashlib.sha256()
    for name, array in sorted(arrays.items()):
        digest.update(f"{name} {array.dtype.str} {array.shape} ".encode())
        digest.update(np.ascontiguousarray(array).tobytes())
    return digest.hexdigest()


def write_arrays(path: Path, arrays: Mapping[str, Array]) -> None:
    """Writes a file, atomically; equal arrays make equal files."""
    with atomic_path(path) as temporary, zipfile.ZipFile(temporary, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, array in sorted(arrays.items()):
            stream = io.BytesIO()
            np.lib.format.write_array(stream, array, version=(1, 0), allow_pickle=False)
            member = zipfile.ZipInfo(f"{name}.npy")
            member.compress_type = zipfile.ZIP_DEFLATED
            archive.writestr(member, stream.getvalue())


def read_arrays(path: Path, most_bytes: int, what: str) -> dict[str, Array]:
    """The arrays in a file that may be a stranger's; VerificationError if it holds no `what`, or too much."""
    found: dict[str, Array] = {}
    try:
        with zipfile.ZipFile(path) as archive:
            members = archive.infolist()
            if len(members) > _MOST_ENTRIES:
                raise ValueError(f"it holds more than {_MOST_ENTRIES:,} arrays")
            if sum(m.file_size for m in members) > most_bytes:
                raise ValueError(f"it holds more than {most_bytes >> 20} MB")
            for member in members:
                with archive.open(member) as file:
                    found[member.filename.removesuffix(".npy")] = _array(file.read(member.file_size))
    except _UNREADABLE as error:
        raise VerificationError(f"{path} holds no {what}: {error}") from error
    return found


def _array(data: bytes) -> Array:
    """The array of an .npy file, whose header may lie; ValueError if it does."""
    stream = io.BytesIO(data)
    version = np.lib.format.read_magic(stream)
    if version != (1, 0):
        raise ValueError(f"unknown version {version}")
    try:
        shape, fortran, dtype = np.lib.format.read_array_header_1_0(stream)
    except Exception as error:  # of whatever kind: the header is read as Python
        raise ValueError(f"an array has no header: {error}") from error
    body = data[stream.tell() :]
    if dtype.kind not in "fiu" or len(body) != math.prod(shape) * dtype.itemsize:
        raise ValueError("an array does not have the size it states")
    return np.frombuffer(body, dtype).reshape(shape, order="F" if fortran else "C")


# Weights that training found


def trained_path(folder: Path, weights: str) -> Path:
    """Where a folder keeps the trained weights of that hash."""
    return folder / f"trained-{re.sub('[^0-9a-f]', '', weights)[:16]}.npz"


def read_trained(folder: Path | None, weights: str) -> dict[str, Array]:
    """The trained weights of that hash, as a folder keeps them; ProgramError if they are not there."""
    path = None if folder is None else trained_path(folder, weights)
    if path is None or not path.is_file():
        raise ProgramError(f"the trained weights {weights[:16]} are not at hand")
    return read_arrays(path, gate.most_decompressed(path.stat().st_size), "trained weights")
