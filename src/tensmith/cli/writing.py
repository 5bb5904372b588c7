"""Files that commands write where users say, unless another file stands there."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated, TypeAlias

import typer

from tensmith.errors import OutputError, UsageError
from tensmith.files import sha256_bytes, sha256_file, write_bytes
from tensmith.gate import ANY, open_file

PackedFile: TypeAlias = Annotated[Path, typer.Argument(metavar="SRC", help="The .packed file.")]
Force: TypeAlias = Annotated[bool, typer.Option("--force", help="Replace DST if it is another file.")]

_ANOTHER = "exists and is another file"


def place_of(source: Path, target: Path | None, suffix: str) -> Path:
    """Where a file made of `source` goes: beside it, into a folder, or to the very target. UsageError where
    neither gives it a name."""
    if not source.name and (target is None or target.is_dir()):
        raise UsageError(f"{source} gives DST no name; name it, as model{suffix}")
    place = source.with_suffix(suffix) if target is None else target
    if place.is_dir():
        place = place / f"{source.stem}{suffix}"
    refuse_source(place, source)
    return place


def refuse_source(place: Path, *sources: Path) -> None:
    """OutputError where a file would be written over one that it is made of."""
    for source in sources:
        if place.exists() and source.exists() and place.samefile(source):
            raise OutputError(f"{place} is the file that is read, which would be lost; name another DST")


def files_of(place: Path) -> tuple[Path, Path]:
    """A model's file, and that of its weights where they are large."""
    return place, place.with_name(f"{place.name}.data")


def refuse_existing(place: Path, force: bool) -> None:
    """OutputError where a file stands at a place, or one of weights beside it, unless it may be replaced."""
    for file in files_of(place):
        _refuse(file, force, "exists")


def refuse_unwritable(place: Path) -> None:
    """OutputError where no file can be written at a place: before the work that it would hold."""
    folder = next(each for each in place.absolute().parents if each.exists())
    if not folder.is_dir() or not os.access(folder, os.W_OK | os.X_OK):
        raise OutputError(f"{folder} is no folder that can be written, so {place} cannot; name another file")


def refuse_other(place: Path, force: bool, magic: bytes) -> None:
    """OutputError where a file stands at a place that does not begin as what will be written."""
    if place.exists() and not force:
        with open_file(place, ANY) as file:
            if file.read(len(magic)) != magic:
                _refuse(place, force, _ANOTHER)


def _refuse(file: Path, force: bool, found: str) -> None:
    if file.exists() and not force:
        raise OutputError(f"{file} {found}; name another DST, or replace it by --force")


def write_unless_other(place: Path, content: bytes, force: bool) -> str:
    """Writes a file, unless it is there already; its SHA-256. OutputError if another is, without `force`."""
    digest = sha256_bytes(content)
    if not place.exists() or sha256_file(place) != digest:
        _refuse(place, force, _ANOTHER)
        write_bytes(place, content)
    return digest
