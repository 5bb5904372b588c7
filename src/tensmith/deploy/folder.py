"""The output folder of a run: nobody else's, locked while the run goes on."""

from __future__ import annotations

import contextlib
import shutil
from pathlib import Path
from types import TracebackType

from tensmith.config import CONFIG_FILE, Config
from tensmith.database import Unwritten
from tensmith.deploy.identity import Identity, difference
from tensmith.deploy.publish import TRAINED, WORK, mend
from tensmith.errors import OutputError
from tensmith.files import locked, write_text
from tensmith.search.checkpoint import DATABASE, Checkpoint

# What a run that was killed before its first candidate leaves behind.
_LEFTOVERS = {".lock", WORK}
# What an interrupt leaves behind.
_KEPT = "whatever was measured is kept in {}: go on with it by --resume"
_NOTHING_KEPT = "nothing was measured yet, so nothing is kept"


def demand_usable(path: Path, identity: Identity, resume: bool) -> None:
    """Raises what `RunFolder` would raise of what a folder holds; nothing is written."""
    _demand_ours(path, resume)
    if resume:
        with contextlib.closing(Checkpoint(path / DATABASE, looked_at=True)) as checkpoint:
            _demand_same(path, checkpoint, identity)


class RunFolder:
    """OUT of `tensmith compress`. Use as a context: the lock is held until its end.

    OutputError if the folder cannot be written, holds something else, holds another run, or is in use.
    """

    def __init__(self, path: Path, config: Config, identity: Identity, resume: bool) -> None:
        self.path = path
        self.work = path / WORK
        self._resumed, self._made = resume, not path.exists()
        self._prepare(resume)
        self._lock = locked(path)
        try:
            self.checkpoint = Checkpoint(path / DATABASE)
            if resume:
                _demand_same(path, self.checkpoint, identity)
            self.checkpoint.note("identity", identity)
            mend(path)
            shutil.rmtree(self.work)  # made anew from the plans: not trusted across runs
            self.work.mkdir()
            write_text(path / CONFIG_FILE, config.to_yaml())
        except BaseException as error:
            if not resume:
                self._withdraw()
            self._lock.close()
            if not resume and isinstance(error, Unwritten):
                raise error.keeping(_NOTHING_KEPT) from error.__cause__
            raise

    def _prepare(self, resume: bool) -> None:
        _demand_ours(self.path, resume)
        try:
            self.work.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise OutputError(
                f"cannot make {self.path}: {error.strerror}; choose another --output"
            ) from error

    def __enter__(self) -> RunFolder:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        empty = kind is not None and not self._resumed and next(self.checkpoint.candidates(), None) is None
        self.checkpoint.close()
        if empty:
            self._withdraw()
        self._lock.close()
        if kind is KeyboardInterrupt:
            raise KeyboardInterrupt(_NOTHING_KEPT if empty else _KEPT.format(self.path)) from error
        if empty and isinstance(error, Unwritten):
            raise error.keeping(_NOTHING_KEPT) from error.__cause__

    def _withdraw(self) -> None:
        """Takes back a folder in which nothing was measured, so that the same command can be given again."""
        for made in (self.work, self.path / TRAINED):
            shutil.rmtree(made, ignore_errors=True)
        for item in (*self.path.glob(f"{DATABASE}*"), self.path / CONFIG_FILE, self.path / ".lock"):
            item.unlink(missing_ok=True)
        if self._made:
            with contextlib.suppress(OSError):  # somebody put something into it
                self.path.rmdir()


def _demand_ours(path: Path, resume: bool) -> None:
    ours = (path / DATABASE).exists()
    if path.exists() and not path.is_dir():
        raise OutputError(f"{path} is a file; choose another --output")
    if ours and not resume:
        raise OutputError(
            f"{path} holds a run already; go on with it by --resume, or choose another --output"
        )
    if path.exists() and not ours and any(_foreign(item) for item in path.iterdir()):
        raise OutputError(f"{path} is not empty and not a run of tensmith; choose another --output")
    if resume and not ours:
        raise OutputError(f"{path} holds no run to resume; leave --resume out")


def _foreign(item: Path) -> bool:
    return item.name not in _LEFTOVERS or (item.is_dir() and any(item.iterdir()))


def _demand_same(path: Path, checkpoint: Checkpoint, identity: Identity) -> None:
    before = checkpoint.fact("identity")
    if before is not None and (changed := difference(before, identity)):
        raise OutputError(
            f"{path} was made with {changed}; resume with what it began with, or choose another --output"
        )
