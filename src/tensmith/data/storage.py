"""Files read by offset, compressed or not, without holding them in memory."""

from __future__ import annotations

import gzip
import lzma
import os
import tempfile
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import IO

import numpy as np

from tensmith import gate
from tensmith.data.dataset import Array
from tensmith.errors import DataError, OutputError, of_disk

PIECE = 1 << 20
XZ_MEMORY = 256 << 20  # `xz -9` needs 65 MiB; a stranger's file may ask for 4 GiB
COMPRESSED_SUFFIXES = (".xz", ".gz", ".tgz")

_DAMAGED = (lzma.LZMAError, gzip.BadGzipFile, zlib.error, EOFError)


class RandomFile:
    """Bytes that are read by offset. Reading holds no position, so threads may share one."""

    def __init__(self, file: IO[bytes], name: str) -> None:
        self._file, self.name = file, name
        self.size = os.fstat(file.fileno()).st_size

    def __del__(self) -> None:
        self._file.close()

    def read_at(self, offset: int, size: int) -> bytes:
        """Exactly `size` bytes from `offset`; DataError when the file ends before."""
        data = os.pread(self._file.fileno(), size, offset)
        if len(data) != size:
            raise DataError(
                f"{self.name} ends early: {size} bytes at {offset} asked, {len(data)} there; get it again"
            )
        return data

    def pieces(self, size: int = PIECE) -> Iterator[bytes]:
        """The whole contents in order, `size` bytes at a time."""
        for offset in range(0, self.size, size):
            yield self.read_at(offset, min(size, self.size - offset))

    def mapped(self, offset: int, shape: tuple[int, ...]) -> Array:
        """Bytes from `offset`, uint8 of that shape, mapped for reading; they outlive this object."""
        return np.memmap(self._file, np.uint8, "r", offset, shape)

    def stream(self) -> IO[bytes]:
        """The underlying file at its start, for a library that reads a stream."""
        self._file.seek(0)
        return self._file


def open_random(path: Path) -> RandomFile:
    """Opens `path`; a `.xz` or `.gz` file is decompressed once, into an unnamed temporary file.

    Neither memory nor time grows with which bytes are read later. Raises DataError when the file is missing,
    damaged, or grows as decompression bombs do.
    """
    suffix = path.suffix.lower()
    try:
        if suffix not in COMPRESSED_SUFFIXES:
            return RandomFile(gate.open_file(path, gate.DATA), str(path))
        with gate.open_file(path, gate.DATA) as file:
            pieces = _xz_pieces(file) if suffix == ".xz" else _gzip_pieces(file)
            size = os.fstat(file.fileno()).st_size
            return spilled(gate.bounded(pieces, size, str(path)), str(path))
    except _DAMAGED as error:
        raise DataError(f"{path} is damaged or cut off ({error}); get it again") from error
    except OSError as error:
        raise DataError(
            f"cannot read {path}: {error.strerror or error}; check its permissions and disk space"
        ) from error


def spilled(pieces: Iterator[bytes], name: str) -> RandomFile:
    """The bytes of `pieces` in an unnamed temporary file, which goes away with the object."""
    file = tempfile.TemporaryFile(prefix="tensmith-")  # noqa: SIM115 - lives as long as the RandomFile
    for piece in pieces:
        _write(file, piece, name)
    return RandomFile(file, name)


def _write(file: IO[bytes], piece: bytes, name: str) -> None:
    try:
        file.write(piece)
        file.flush()
    except OSError as error:
        where = tempfile.gettempdir()
        kind = OutputError if of_disk(error) else DataError
        raise kind(f"no room in {where} to decompress {name} ({error.strerror}); set TMPDIR") from error


def _gzip_pieces(file: IO[bytes]) -> Iterator[bytes]:
    with gzip.open(file, "rb") as plain:
        while piece := plain.read(PIECE):
            yield piece


def _xz_pieces(file: IO[bytes]) -> Iterator[bytes]:
    """Like lzma.open, with a limit on the decoder's own memory; a file may hold several streams."""
    pending = file.read(PIECE)
    if not pending:
        raise EOFError("the file is empty")
    while pending:
        decoder = lzma.LZMADecompressor(memlimit=XZ_MEMORY)
        while not decoder.eof:
            if decoder.needs_input and not pending and not (pending := file.read(PIECE)):
                raise EOFError("the compressed data stops before its end mark")
            piece, pending = decoder.decompress(pending, PIECE), b""
            if piece:
                yield piece
        pending = decoder.unused_data.lstrip(b"\0")
        while not pending and (piece := file.read(PIECE)):  # zeros may stand between streams
            pending = piece.lstrip(b"\0")
