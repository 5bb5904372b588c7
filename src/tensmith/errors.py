"""The errors a user sees: each says what is wrong, where, and what to do about it."""

from __future__ import annotations

import difflib
import errno
from collections.abc import Iterator, Sequence
from contextlib import contextmanager


def nearest(word: str, known: Sequence[str], most: int | None = None) -> str:
    """How a sentence about an unknown word goes on: what may have been meant, else what is known."""
    close = difflib.get_close_matches(word, known, 1, 0.5)
    if close:
        return f"; did you mean '{close[0]}'?"
    more = ", ..." if most is not None and len(known) > most else ""
    return f"; known: {', '.join(known[:most]) or 'none'}{more}"


_SYSTEM_ADVICE = {
    errno.ENOSPC: "free some space",
    errno.EDQUOT: "free some space",
    errno.EFBIG: "raise the limit on file sizes (ulimit -f)",
    errno.EACCES: "check the permissions",
    errno.EPERM: "check the permissions",
    errno.EROFS: "choose a place that can be written",
    errno.EMFILE: "raise the limit on open files (ulimit -n)",
}


# What a disk says that takes nothing more.
_OF_DISK = (errno.ENOSPC, errno.EDQUOT, errno.EROFS)


def system_advice(error: OSError, otherwise: str) -> str:
    """What to do about what the system refused."""
    return _SYSTEM_ADVICE.get(error.errno or 0, otherwise)


def unwritten(place: object, error: OSError, otherwise: str = "choose another place") -> OutputError:
    """What cannot be written, why, and what to do about it."""
    return OutputError(f"cannot write {place}: {error.strerror or error}; {system_advice(error, otherwise)}")


def system_sentence(error: OSError, otherwise: str) -> str:
    """What the system refused, where, and what to do about it."""
    where = f" ({error.filename})" if error.filename else ""
    return f"the system refused{where}: {error.strerror or error}; {system_advice(error, otherwise)}"


class TensmithError(Exception):
    """Base of every error that tensmith raises on purpose; the CLI prints it and exits with `exit_code`."""

    exit_code = 1


def first_line(error: BaseException) -> str:
    """What an error says, in one line; of one without words, its kind."""
    return (str(error).strip().splitlines() or [type(error).__name__])[0]


def our_fault(error: Exception) -> str:
    """What is said of an error that nothing raises on purpose."""
    what = f"{type(error).__name__}: {first_line(error)}"
    return f"tensmith failed here ({what}); the fault is ours, please report it"


class UsageError(TensmithError):
    """The command, its options or a configuration file are wrong."""

    exit_code = 2


class ModelError(TensmithError):
    """A model file is missing, damaged, or holds something that cannot be imported."""


class DataError(TensmithError):
    """A dataset is missing, damaged, empty, or does not match the model."""


class ProgramError(TensmithError):
    """A TensIR program is not well formed: an undefined value, a type mismatch, a wrong attribute."""


class OutputError(TensmithError):
    """An output folder cannot be written, belongs to another run, or holds a damaged file."""


def is_of_disk(error: TensmithError) -> bool:
    """Whether the system or a database would not write: the fault of no candidate, and of all that come."""
    if not isinstance(error, OutputError):
        return False
    import sqlite3  # which takes a while to load

    return isinstance(error.__cause__, OSError | sqlite3.OperationalError)


def of_disk(error: OSError) -> OutputError | None:
    """What `is_of_disk` knows of a disk that takes nothing more; None of whatever else the system refused."""
    if error.errno not in _OF_DISK:
        return None
    found = OutputError(system_sentence(error, "choose another place"))
    found.__cause__ = error
    return found


@contextmanager
def spared() -> Iterator[None]:
    """What fails inside costs what it was for, and not the run; a disk that is full costs the run."""
    try:
        yield
    except TensmithError as error:
        if is_of_disk(error):
            raise


class EngineError(TensmithError):
    """An engine is not installed, or cannot run a program."""


class VerificationError(TensmithError):
    """A certificate, a hash or a proof does not hold."""


class MissingExtra(TensmithError):
    """An optional dependency is not installed."""

    def __init__(self, feature: str, extra: str) -> None:
        super().__init__(f"{feature} needs an optional dependency: pip install 'tensmith[{extra}]'")


@contextmanager
def needing(feature: str, extra: str) -> Iterator[None]:
    """What is imported inside is of an extra, for a feature: MissingExtra where it is not installed."""
    try:
        yield
    except ImportError as error:
        raise MissingExtra(feature, extra) from error
