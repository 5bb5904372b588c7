"""Large arrays that lie in files: mapped into memory rather than read, put away, and let go."""

from __future__ import annotations

import mmap
import tempfile
from pathlib import Path
from typing import Self

import numpy as np

from tensmith.data.dataset import Array
from tensmith.errors import OutputError, system_advice

# Smaller arrays are not worth a mapping.
_SMALLEST = 1 << 16
_PAGE = mmap.ALLOCATIONGRANULARITY


def mapping_of(array: Array) -> mmap.mmap | None:
    """The mapped file, for reading alone, that an array is a view of; None for arrays in memory."""
    base: object = array
    while isinstance(base, np.ndarray):
        base = base.base
    source = base.obj if isinstance(base, memoryview) else base
    return source if isinstance(source, mmap.mmap) and memoryview(source).readonly else None


def let_go(array: Array) -> None:
    """Gives back the memory that a mapped array takes: who reads it again has it read from its file again.

    An array in memory stays as it is, and so does any where the system offers no such thing.
    """
    source = mapping_of(array)
    if source is None or not array.size or not hasattr(source, "madvise"):
        return
    begin = np.frombuffer(source, np.uint8).ctypes.data
    low, high = np.lib.array_utils.byte_bounds(array)
    start = (low - begin) // _PAGE * _PAGE
    source.madvise(mmap.MADV_DONTNEED, start, high - begin - start)


class Shelf:
    """An unnamed file in a folder that arrays are put into, to be mapped from there.

    It goes with the last of its arrays; a `with` block ends what can be put into it.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        try:
            self._file = tempfile.TemporaryFile(prefix=".tensmith-", dir=folder)  # noqa: SIM115 - kept open
        except OSError as error:
            raise self._refused(error) from error

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()

    def put(self, array: Array) -> Array:
        """The same array, mapped. A small one, one of objects, and one that is mapped already stay."""
        if array.nbytes < _SMALLEST or array.dtype.hasobject or mapping_of(array) is not None:
            return array
        try:
            offset = self._file.seek(-(-self._file.seek(0, 2) // _PAGE) * _PAGE)
            self._file.write(np.ascontiguousarray(array).reshape(-1).view(np.uint8).data)
            self._file.flush()
            mapped = mmap.mmap(self._file.fileno(), array.nbytes, access=mmap.ACCESS_READ, offset=offset)
        except OSError as error:
            raise self._refused(error) from error
        return np.frombuffer(mapped, np.uint8).view(array.dtype).reshape(array.shape)

    def _refused(self, error: OSError) -> OutputError:
        return OutputError(
            f"there is no room for weights in {self._folder}: {error.strerror or error}; "
            f"{system_advice(error, 'write elsewhere')}"
        )
