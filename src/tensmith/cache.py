"""What is kept for this user between runs, and trusted as far as its hashes go.

An entry is a folder. Its name is the hash of what it was made of, and `kept.json` in it says that in words,
with the hash of every file. An entry that is not as it was written counts for nothing and is made again. All
lies in a folder that is this user's alone, for whoever may write there could write hashes too.
"""

from __future__ import annotations

import contextlib
import functools
import json
import os
import shutil
import stat
import tempfile
import time
import warnings
from collections.abc import Callable, Mapping
from pathlib import Path

from tensmith.errors import OutputError, unwritten
from tensmith.files import TemporaryFolder, sha256_bytes, sha256_file

RECORD = "kept.json"
# What a killed process was writing goes after so long.
_ABANDONED_SECONDS = 86_400.0


class CacheWarning(UserWarning):
    """Something in the user's cache is not used; the message says what and why."""


def user_cache(name: str) -> Path:
    """Where a thing of that name is kept for this user (XDG Base Directory Specification, which has an
    XDG_CACHE_HOME that is not absolute ignored).

    A cache that others can write to, or that is another user's, is not used but a folder that goes with this
    process; a CacheWarning says so.
    """
    base = Path(os.environ.get("XDG_CACHE_HOME", ""))
    try:
        home = base if base.is_absolute() else Path.home() / ".cache"
    except RuntimeError:
        return _instead(Path("~/.cache/tensmith"), "this user has no home folder; set XDG_CACHE_HOME") / name
    return _private(home / "tensmith") / name


def _private(folder: Path) -> Path:
    """A folder for this user alone, or one of this process if that cannot be."""
    reason = ""
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        with contextlib.suppress(FileExistsError):
            folder.mkdir(mode=0o700)
        found = folder.stat()
        if found.st_uid != os.geteuid():
            reason = f"it belongs to user {found.st_uid}; give it to yourself"
        elif found.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
            reason = "others may write to it; remove it, or chmod it to 700 if you trust what is there"
        elif stat.S_IMODE(found.st_mode) != 0o700:
            folder.chmod(0o700)
    except OSError as error:
        reason = f"{error.strerror or error}; free it, or set XDG_CACHE_HOME"
    return _instead(folder, reason) if reason else folder


@functools.cache
def _instead(folder: Path, reason: str) -> Path:
    warnings.warn(f"the cache {folder} is not used: {reason}", CacheWarning, stacklevel=5)
    scratch = TemporaryFolder("tensmith-cache-")
    _KEPT.append(scratch)
    return Path(scratch.name)


_KEPT: list[TemporaryFolder] = []


def find(room: Path, of: Mapping[str, str]) -> Path | None:
    """The entry of `room` that was made of this, if it is there and as it was written."""
    entry = room / _name(of)
    return entry if _whole(entry, of) else None


def keep(room: Path, of: Mapping[str, str], make: Callable[[Path], None], replace: bool = True) -> Path:
    """Makes the entry of `room` for this, in place of one there; `make` writes a folder at a path.

    Without `replace`, what another process has made meanwhile stays: somebody may be reading it.
    OutputError if there is no space; whatever `make` raises.
    """
    entry = room / _name(of)
    try:
        room.mkdir(parents=True, exist_ok=True, mode=0o700)
        _sweep(room)
        with tempfile.TemporaryDirectory(prefix=f".{entry.name}.tmp-", dir=room) as name:
            made = Path(name) / "made"
            make(made)
            files = {path.name: sha256_file(path) for path in sorted(made.iterdir())}
            (made / RECORD).write_text(json.dumps({"of": dict(of), "files": files}), encoding="utf-8")
            if not replace and _whole(entry, of):
                return entry
            with contextlib.suppress(FileNotFoundError):
                entry.rename(Path(name) / "damaged")
            try:
                made.rename(entry)
            except OSError:
                if not _whole(entry, of):  # another process has just made it
                    raise
    except OSError as error:
        raise unwritten(entry, error, "choose another place for tensmith's cache") from error
    return entry


def fetch(room: Path, of: Mapping[str, str], make: Callable[[Path], None]) -> Path:
    """`find`, else `keep`."""
    return find(room, of) or keep(room, of, make, replace=False)


def cached(room: Path, of: Mapping[str, str], make: Callable[[Path], None], most_bytes: int) -> Path:
    """`fetch`, in a room whose entries take so many bytes at most: those used least recently go (`tidy`).

    What is not there is made in a folder that goes with this process, if nothing can be written to the room.
    """
    entry = find(room, of)
    if entry is None:
        entry = fetch(_writable(room), of, make)
        tidy(entry, most_bytes)
    with contextlib.suppress(OSError):  # who may only read cannot say when
        os.utime(entry)
    return entry


def _writable(room: Path) -> Path:
    """The room, or one of this process if nothing can be written there."""
    nearest = next(path for path in (room, *room.parents) if os.access(path, os.F_OK))
    if os.access(nearest, os.W_OK):
        return room
    return _instead(room.parent, "nothing can be written there; set XDG_CACHE_HOME") / room.name


def entries(room: Path) -> list[Path]:
    """The entries of a room, whole or not; a file beside them is none."""
    if not room.is_dir():
        return []
    return [path for path in room.iterdir() if not path.name.startswith(".") and path.is_dir()]


def tidy(newest: Path, most_bytes: int) -> None:
    """Removes the entries beside `newest` used least recently until all are small enough; never that one.

    One that cannot be read or removed is passed over.
    """
    found: list[tuple[float, int, Path]] = []
    for folder in entries(newest.parent):
        with contextlib.suppress(OSError):  # another process tidies as well
            size = sum(file.stat().st_size for file in folder.iterdir())
            found.append((folder.stat().st_mtime, size, folder))
    total = 0
    for _, size, folder in sorted(found, reverse=True):
        total += size
        if total > most_bytes and folder != newest:
            shutil.rmtree(folder, ignore_errors=True)


def files_of(entry: Path) -> list[Path]:
    """The files that were made, without what the cache says of them."""
    return sorted(path for path in entry.iterdir() if path.name != RECORD)


def _name(of: Mapping[str, str]) -> str:
    return sha256_bytes(json.dumps(dict(of), sort_keys=True).encode())[:40]


def _whole(entry: Path, of: Mapping[str, str]) -> bool:
    """Whether an entry holds exactly the files that were written, made of what is asked for."""
    try:
        record = json.loads((entry / RECORD).read_text(encoding="utf-8"))
        files = {path.name: sha256_file(path) for path in files_of(entry)}
        return bool(record == {"of": dict(of), "files": files})
    except (OSError, OutputError, ValueError):  # as where another process is removing it
        return False


def _sweep(room: Path) -> None:
    """Removes what processes that were killed left unfinished."""
    for path in room.glob(".*.tmp-*"):
        with contextlib.suppress(OSError):
            if time.time() - path.stat().st_mtime > _ABANDONED_SECONDS:
                shutil.rmtree(path) if path.is_dir() else path.unlink()
