"""Source files, as far as they are read."""

from __future__ import annotations

from pathlib import Path

from tensmith.errors import TensmithError


class SourceError(TensmithError):
    """A file cannot be read as a program of its language."""


def source_bytes(path: Path, most: int) -> bytes:
    """What a file holds; SourceError if it is missing, no file or too large."""
    if path.exists() and not path.is_file():
        raise SourceError(f"{path}:1:1: not a file; give the path of a source")
    try:
        with path.open("rb") as file:
            content = file.read(most + 1)
    except OSError as error:
        raise SourceError(f"{path}:1:1: cannot be read: {error.strerror}; check the path") from error
    if len(content) > most:
        raise SourceError(
            f"{path}:1:1: larger than {most} bytes: lift a file that holds only the functions in question"
        )
    return content
