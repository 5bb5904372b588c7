"""The one gate by which files come in: every path that a user, or a file of a user, names is opened here.

What is opened is a regular file (links are followed) of bounded size. So nothing waits for a pipe, reads a
device without end, or fills memory before anybody looked at what it is. What a file holds is the business of
its reader; how far compressed data may grow is said here too, since it is known before memory is spent.
"""

from __future__ import annotations

import mmap
import os
import stat
from collections.abc import Iterator
from dataclasses import dataclass
from io import BufferedReader
from pathlib import Path

from tensmith.errors import (
    DataError,
    EngineError,
    ModelError,
    OutputError,
    TensmithError,
    UsageError,
    VerificationError,
)

_KINDS = (
    (stat.S_ISDIR, "a folder"),
    (stat.S_ISFIFO, "a pipe"),
    (stat.S_ISSOCK, "a socket"),
    (stat.S_ISCHR, "a device"),
    (stat.S_ISBLK, "a device"),
)
_GROWTH, _ROOM = 200, 64 << 20
MODEL_BYTES = 2**31 - 1  # more than this protobuf neither writes nor reads


@dataclass(frozen=True)
class FileKind:
    """What a file should be: its name in sentences, the error that refuses it, and its most bytes.

    `smaller` says what to do about a larger one; without `most` any size may come, as it is mapped or read
    by offset.
    """

    noun: str
    error: type[TensmithError]
    most: int | None = None
    smaller: str = ""
    missing: str = "check the path"


MODEL = FileKind("an .onnx file", ModelError, MODEL_BYTES, "save its weights as external data")
ENGINE_MODEL = FileKind("an .onnx file", EngineError, MODEL.most, MODEL.smaller)
GGUF = FileKind("a .gguf file", ModelError)
PACKED = FileKind("a .packed file", ModelError, MODEL.most, "no packed model is that large")
WEIGHTS = FileKind("a file of weights", ModelError, missing="put the file beside the model")
COMPILED = FileKind("a compiled model's file", ModelError, missing="compile the model again")
DATA = FileKind("a data file", DataError, missing="check the path given after the dataset's kind")
ANNOTATIONS = FileKind("an annotation file", DataError, 1 << 30, "split it")
WORDS = FileKind("a text file", DataError, 64 << 20, "split it")
CONFIG = FileKind("a configuration, a short YAML file", UsageError, 1 << 20, "keep only the options")
TARGET = FileKind("a target, a short TOML file", UsageError, 1 << 20, "keep only the device's numbers")
FRONT = FileKind("a run's front.json", OutputError, 64 << 20, "it is damaged", "run tensmith compress")
REPORT = FileKind("a run's report.json", OutputError, 256 << 20, "it is damaged", "run tensmith compress")
RUN = FileKind("a run's database", OutputError, 4 << 30, "choose another --output")
KEPT = FileKind("a file of tensmith's cache", OutputError, 4 << 30, "remove it")
ORIGINAL = FileKind(
    "the original model", VerificationError, missing="give the original model with --original"
)
ANY = FileKind("a file", OutputError)


def check(path: Path, kind: FileKind) -> int:
    """The bytes of a regular file of `kind`; its error where it is none, is missing or too large."""
    try:
        return _fit(path, Path(path).stat(), kind)
    except (OSError, ValueError) as error:
        raise _unreadable(path, kind, error) from error


def open_file(path: Path, kind: FileKind) -> BufferedReader:
    """Opens a regular file of `kind` for reading; its error where that cannot be."""
    check(path, kind)  # opening a device may already do something
    try:
        # What became a pipe meanwhile must not be waited for.
        file = os.fdopen(os.open(path, os.O_RDONLY | os.O_CLOEXEC | getattr(os, "O_NONBLOCK", 0)), "rb")
    except (OSError, ValueError) as error:
        raise _unreadable(path, kind, error) from error
    try:
        _fit(path, os.fstat(file.fileno()), kind)
    except TensmithError:
        file.close()
        raise
    return file


def read_bytes(path: Path, kind: FileKind) -> bytes:
    """The whole content of a file of `kind`; its error where it cannot be read."""
    with open_file(path, kind) as file:
        try:
            data = file.read() if kind.most is None else file.read(kind.most + 1)
        except OSError as error:
            raise _unreadable(path, kind, error) from error
    if kind.most is not None and len(data) > kind.most:
        raise _too_large(path, len(data), kind)
    return data


def read_text(path: Path, kind: FileKind) -> str:
    """The whole content of a UTF-8 file of `kind`; its error where it cannot be read or is no text."""
    try:
        return read_bytes(path, kind).decode()
    except UnicodeDecodeError as error:
        raise kind.error(
            f"{path} is not UTF-8 text at byte {error.start}; give the path of {kind.noun}"
        ) from error


def mapped(path: Path, kind: FileKind) -> mmap.mmap | bytes:
    """The content of a file of `kind`, mapped into memory rather than read."""
    with open_file(path, kind) as file:
        try:
            size = os.fstat(file.fileno()).st_size
            return mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) if size else b""
        except (OSError, ValueError) as error:
            raise _unreadable(path, kind, error) from error


def most_decompressed(compressed: int) -> int:
    """How many bytes so many compressed ones may become: real data shrinks far less, and room is given."""
    return _ROOM + _GROWTH * compressed


def bounded(pieces: Iterator[bytes], compressed: int, where: str) -> Iterator[bytes]:
    """The pieces of decompressed data; DataError at the first that is over `most_decompressed`."""
    total = 0
    for piece in pieces:
        total += len(piece)
        refuse_growth(total, compressed, where)
        yield piece


def refuse_growth(size: int, compressed: int, where: str) -> None:
    """DataError where `size` bytes are more than `compressed` ones may become."""
    if size > (limit := most_decompressed(compressed)):
        raise DataError(
            f"{where} decompresses to more than {limit} bytes from {compressed}, as bombs do; "
            "decompress it yourself if you trust it"
        )


def _fit(path: Path, found: os.stat_result, kind: FileKind) -> int:
    for is_kind, noun in _KINDS:
        if is_kind(found.st_mode):
            raise kind.error(f"{path} is {noun}, not a file; give the path of {kind.noun}")
    if kind.most is not None and found.st_size > kind.most:
        raise _too_large(path, found.st_size, kind)
    return found.st_size


def _too_large(path: Path, size: int, kind: FileKind) -> TensmithError:
    return kind.error(f"{path} has {size} bytes, and {kind.noun} has at most {kind.most}; {kind.smaller}")


def _unreadable(path: Path, kind: FileKind, error: Exception) -> TensmithError:
    if isinstance(error, FileNotFoundError):
        return kind.error(f"{path} does not exist; {kind.missing}")
    if isinstance(error, PermissionError):
        return kind.error(f"cannot read {path}: {error.strerror}; check its permissions")
    reason = error.strerror if isinstance(error, OSError) else str(error)
    return kind.error(f"cannot read {path}: {reason or error}; check the path")
