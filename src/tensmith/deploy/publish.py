"""Puts a finished front in the place of the one before; a single rename decides which of the two holds.

Points never replace points: new ones take numbers that are free beside the old, and the rename of front.json,
which names every file by its hash, makes them the front. Then best/ is exchanged, old points are swept and
numbers close up. So whoever looks, or is killed, at any moment finds a front.json whose points are all there,
each file whole; a point is found by what it holds (`point_folder`), and `mend` finishes what was begun.
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import shutil
from collections.abc import Mapping
from pathlib import Path

from tensmith.errors import OutputError
from tensmith.files import sha256_file, write_text
from tensmith.report.document import FrontDocument
from tensmith.report.schema import read_front
from tensmith.verify.schema import NAME as CERTIFICATE

FRONT, CANDIDATES, BEST = "front.json", "candidates", "best"
TRAINED = "trained"  # what training finds, which is not made again
WORK = "work"  # what is made of plans
_CWD, _EXCHANGE = -100, 2  # linux/fcntl.h AT_FDCWD, linux/fs.h RENAME_EXCHANGE


def staged(out: Path, name: str) -> Path:
    """An empty folder beside the final one of that name, to be filled and then published."""
    path = _staging(out, name)
    shutil.rmtree(path, ignore_errors=True)
    path.mkdir(parents=True)
    return path


def publish(out: Path, document: FrontDocument) -> None:
    """Makes the staged candidates/NNN and best/ the front of the run folder `out`, described by `document`.

    OutputError where front.json cannot be written; what was there before then stays the front.
    """
    _demand_own(out)
    candidates = out / CANDIDATES
    candidates.mkdir(exist_ok=True)
    free = 1 + max((int(each.name) for each in _numbered(candidates)), default=-1)
    for number, point in enumerate(sorted(_staging(out, CANDIDATES).iterdir())):
        point.rename(candidates / f"{free + number:03d}")
    write_text(out / FRONT, json.dumps(document, indent=1))
    _replace(_staging(out, BEST), out / BEST)
    _tidy(out, document)


def mend(out: Path) -> None:
    """Finishes or takes back what a run that was killed had begun to publish."""
    _demand_own(out)
    document = _front(out)
    staging = _staging(out, BEST)
    if document and _is_point(staging, document) and not _is_point(out / BEST, document):
        _replace(staging, out / BEST)
    if (old := _old(out, BEST)).exists() and not (out / BEST).exists():
        old.rename(out / BEST)
    swept = (old for old in out.glob(".*.old") if old.name[1 : -len(".old")].isdecimal())
    begun = (_staging(out, CANDIDATES), staging, _old(out, BEST), *swept)
    for left in (*begun, *out.glob(".*.tmp-*"), *(out / TRAINED).glob(".*.tmp-*")):
        _remove(left)
    if document:
        _tidy(out, document)


def point_folder(out: Path, number: int, files: Mapping[str, str]) -> Path:
    """The folder of the point that front.json lists at `number`: the one with its certificate.

    That is candidates/NNN, but while a front is published, or where that was broken off.
    """
    usual, wanted = out / CANDIDATES / f"{number:03d}", files.get(CERTIFICATE)
    if wanted is None or _certificate(usual) == wanted or not usual.parent.is_dir():
        return usual
    others = reversed(_numbered(usual.parent))  # the latest: an old front may hold its like
    return next((folder for folder in others if _certificate(folder) == wanted), usual)


def _demand_own(out: Path) -> None:
    """OutputError where a folder that is swept is a link: what lies there is not ours to remove."""
    for name in (CANDIDATES, BEST, TRAINED, WORK):
        for folder in (out / name, _staging(out, name), _old(out, name)):
            if folder.is_symlink():
                raise OutputError(f"{folder} is a symbolic link; put the folder itself there")


def _tidy(out: Path, document: FrontDocument) -> None:
    """Sweeps points that are not of the front, and gives those that are the numbers of their places. What
    has no number was put there by others, and stays."""
    listed = [point_folder(out, number, point["files"]) for number, point in enumerate(document["points"])]
    (out / CANDIDATES).mkdir(exist_ok=True)  # somebody may have deleted it
    for folder in _numbered(out / CANDIDATES):
        if folder not in listed:
            _remove(folder.rename(_old(out, folder.name)))
    for number, folder in enumerate(listed):
        final = out / CANDIDATES / f"{number:03d}"
        if folder.exists() and not final.exists():
            folder.rename(final)
    for name in (CANDIDATES, BEST):
        _remove(_staging(out, name))


def _numbered(candidates: Path) -> list[Path]:
    """The folders of points, as publishing names them, in the order of their numbers."""
    return sorted((each for each in candidates.iterdir() if each.name.isdecimal()), key=lambda x: int(x.name))


def _replace(new: Path, final: Path) -> None:
    """Puts a folder in place of another, which goes; at no moment is neither there for good."""
    if final.exists() and not _exchanged(new, final):
        old = _old(final.parent, final.name)
        shutil.rmtree(old, ignore_errors=True)
        final.rename(old)
    if new.exists() and not final.exists():
        new.rename(final)
    for left in (new, _old(final.parent, final.name)):
        _remove(left)


def _exchanged(one: Path, other: Path) -> bool:
    """Whether the system could give both folders each other's name, in one step (renameat2(2))."""
    with contextlib.suppress(AttributeError, OSError):
        call = ctypes.CDLL(None).renameat2
        return int(call(_CWD, os.fsencode(one), _CWD, os.fsencode(other), _EXCHANGE)) == 0
    return False


def _front(out: Path) -> FrontDocument | None:
    """The document that is published; None where it is missing or damaged, which its readers tell."""
    with contextlib.suppress(OutputError):
        return read_front(out / FRONT)
    return None


def _is_point(folder: Path, document: FrontDocument) -> bool:
    """Whether a folder holds the files of one of the front's points; certificates name their own place."""
    if not folder.is_dir():
        return False
    held = {file.name: sha256_file(file) for file in folder.iterdir() if file.name != CERTIFICATE}
    wanted = ({name: sha for name, sha in point["files"].items() if name != CERTIFICATE}
              for point in document["points"])  # fmt: skip
    return any(held == files for files in wanted)


def _certificate(folder: Path) -> str | None:
    file = folder / CERTIFICATE
    return sha256_file(file) if file.is_file() else None


def _staging(out: Path, name: str) -> Path:
    return out / f".{name}.new"


def _old(out: Path, name: str) -> Path:
    return out / f".{name}.old"


def _remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path, ignore_errors=True)
    else:
        path.unlink(missing_ok=True)
