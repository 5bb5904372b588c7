"""Writing files so that nothing is lost: a temporary name, then an atomic rename. Folders that go by
themselves.
"""

from __future__ import annotations

import contextlib
import functools
import glob
import hashlib
import os
import shutil
import stat
import tempfile
import time
import weakref
from collections.abc import Iterator
from pathlib import Path
from typing import IO

from tensmith import gate
from tensmith.errors import OutputError, unwritten

try:
    import fcntl
except ImportError:  # no POSIX: nothing tells whose folder has lost its owner
    fcntl = None  # type: ignore[assignment]

# The file in a temporary folder that its owner has locked, as long as it lives.
_OWNER = ".owner"
# A folder younger than this may be one whose owner is about to lock it.
_YOUNG_SECONDS = 10.0


def at_home(path: str | os.PathLike[str]) -> Path:
    """What a user's words name: ~ is the home folder, as in a shell, which leaves `--output=~/x` as it is."""
    try:
        return Path(path).expanduser()
    except RuntimeError:  # no such user: a file whose name begins with ~
        return Path(path)


def sha256_bytes(data: bytes | memoryview) -> str:
    """Hex SHA-256 of `data`."""
    return hashlib.sha256(data).hexdigest()


def sha256_file(path: Path) -> str:
    """Hex SHA-256 of a file's contents, read in pieces."""
    with gate.open_file(path, gate.ANY) as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


class TemporaryFolder(tempfile.TemporaryDirectory[str]):
    """A folder that goes away with its process: what a killed one left is swept when the next is made.

    It lies among other temporary files, or beside what it becomes: `prefix` and `folder` as in tempfile. A
    lock tells the living from the dead, whoever shares the place. Forked copies of the process leave it be.
    """

    def __init__(self, prefix: str = "tensmith-", folder: Path | None = None) -> None:
        _sweep(prefix, folder or Path(tempfile.gettempdir()))
        super().__init__(prefix=prefix, dir=folder)
        self._owner = (Path(self.name) / _OWNER).open("wb")
        if fcntl is not None:
            with contextlib.suppress(OSError):  # where nothing can be locked, nobody sweeps either
                fcntl.flock(self._owner, fcntl.LOCK_EX)
        _OWN.add(self)

    def cleanup(self) -> None:
        """Removes the folder."""
        self._owner.close()
        super().cleanup()


_OWN: weakref.WeakSet[TemporaryFolder] = weakref.WeakSet()


def _forked() -> None:
    for folder in list(_OWN):
        folder._finalizer.detach()  # type: ignore[attr-defined]


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forked)


@functools.cache
def _sweep(prefix: str, folder: Path) -> None:
    """Removes folders of processes that are gone, once a process; those just made may not be locked yet."""
    for owner in folder.glob(f"{glob.escape(prefix)}*/{_OWNER}") if fcntl is not None else ():
        with contextlib.suppress(OSError), open(owner, "rb", opener=_without_waiting) as file:
            found = os.fstat(file.fileno())
            if (
                stat.S_ISREG(found.st_mode)
                and found.st_uid == os.geteuid()
                and time.time() - found.st_mtime > _YOUNG_SECONDS
            ):
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                shutil.rmtree(owner.parent, ignore_errors=True)


def _without_waiting(path: str, flags: int) -> int:
    """Opens what others may have put there: a pipe would be waited for."""
    return os.open(path, flags | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_NOFOLLOW", 0))


def locked(folder: Path) -> IO[str]:
    """The lock of an output folder, held until it is closed or its process ends; OutputError where another
    holds it, or it cannot be made."""
    try:
        file = (folder / ".lock").open("a+")
    except OSError as error:
        raise OutputError(f"cannot write to {folder}: {error.strerror}; choose another --output") from error
    try:
        if fcntl is not None:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
        file.close()
        raise OutputError(
            f"another run is working in {folder}; wait for it or choose another --output"
        ) from error
    except OSError as error:
        file.close()
        raise OutputError(
            f"cannot lock {folder}: {error.strerror}; choose an --output on a file system with locks"
        ) from error
    return file


@contextlib.contextmanager
def atomic_path(path: Path) -> Iterator[Path]:
    """Yields a temporary path beside `path`; on success it is flushed to disk and renamed to `path`.

    On any error the temporary file is removed, whatever stood at `path` stays, and an OSError becomes an
    OutputError that names the file.
    """
    temporary: Path | None = None
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, name = tempfile.mkstemp(prefix=f".{path.name}.tmp-", dir=path.parent)
        os.close(handle)
        temporary = Path(name)
        yield temporary
        with temporary.open("rb") as file:
            os.fsync(file.fileno())
        umask = os.umask(0)
        os.umask(umask)
        temporary.chmod(0o666 & ~umask)
        temporary.replace(path)
    except OSError as error:
        raise unwritten(path, error) from error
    finally:
        if temporary is not None:
            temporary.unlink(missing_ok=True)


def write_bytes(path: Path, data: bytes) -> None:
    """Writes `data` to `path` atomically."""
    with atomic_path(path) as temporary:
        temporary.write_bytes(data)


def write_text(path: Path, text: str) -> None:
    """Writes `text` (UTF-8) to `path` atomically."""
    write_bytes(path, text.encode())
