"""What must outlive a killed process: tables in an SQLite file, each change on disk when `write` returns."""

from __future__ import annotations

import contextlib
import functools
import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tensmith import gate
from tensmith.errors import OutputError

_UNWRITABLE = "make it and its folder writable, and go on"
# What to do about errors of SQLite.
_ADVICE = {
    sqlite3.SQLITE_BUSY: "let the process that writes it end, and go on",
    sqlite3.SQLITE_READONLY: _UNWRITABLE,
    sqlite3.SQLITE_CANTOPEN: _UNWRITABLE,
}


class Unwritten(OutputError):
    """A database that cannot be written."""

    def __init__(self, problem: str, advice: str, kept: str = "what it held is kept") -> None:
        super().__init__(f"{problem}; {kept}: {advice}")
        self._problem, self._advice = problem, advice

    def keeping(self, kept: str) -> Unwritten:
        """The same where something else is kept, or nothing."""
        found = Unwritten(self._problem, self._advice, kept)
        found.__cause__ = self.__cause__
        return found


class Database:
    """The tables of a file, which is made if there is none; `tables` are statements that may be repeated.

    OutputError where the file is damaged, cannot be written, or is of another version. `patience`: seconds
    to wait for other processes that write. `looked_at`: it is there, and only read.
    """

    def __init__(
        self,
        path: Path,
        kind: gate.FileKind,
        tables: str,
        version: int = 0,
        patience: float = 5.0,
        looked_at: bool = False,
    ) -> None:
        self.path, self._kind = path, kind
        if path.exists():
            gate.check(path, kind)
        with self._told():
            place = _looked_at(path) if looked_at else path
            self._db = sqlite3.connect(place, timeout=patience, uri=looked_at)
            self._db.execute("PRAGMA trusted_schema=OFF")  # a foreign file's views call nothing
            self._db.execute("PRAGMA synchronous=FULL")
            (found,) = self._db.execute("PRAGMA user_version").fetchone()
            if found not in (0, version):
                known = f"schema {found}, this one reads {version}"
                raise OutputError(f"{path} is of another tensmith ({known}); {kind.smaller}")
            if foreign := _made_of(self._db) - _made_by(tables):
                what, name, _ = min(foreign)
                raise self.damaged(ValueError(f"its {what} {name!r} is not as tensmith makes it"))
            if not found and not looked_at:
                self._db.execute("PRAGMA journal_mode=WAL")
                # To write the version where there is none would change a file that is only looked at.
                self._db.executescript(f"{tables} PRAGMA user_version={version};" if version else tables)

    def rows(self, statement: str, values: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
        """What a query finds."""
        try:
            return self._db.execute(statement, values).fetchall()
        except sqlite3.Error as error:
            raise self.damaged(error) from error

    def write(self, statement: str, values: tuple[Any, ...] = ()) -> None:
        """One change, whole or not at all."""
        with self._told(), self._db:
            self._db.execute(statement, values)

    def damaged(self, error: Exception) -> OutputError:
        """What to say of a row that is not as it was written."""
        return OutputError(f"{self.path} is damaged ({error}); nothing was changed: {self._kind.smaller}")

    def close(self) -> None:
        """Ends the connection; what was written is on disk already."""
        self._db.close()

    @contextlib.contextmanager
    def _told(self) -> Iterator[None]:
        try:
            yield
        except sqlite3.OperationalError as error:
            code = getattr(error, "sqlite_errorcode", sqlite3.SQLITE_FULL) & 0xFF
            advice = _ADVICE.get(code, "free some space, and go on")
            raise Unwritten(f"cannot write {self.path}: {error}", advice) from error
        except sqlite3.Error as error:
            raise self.damaged(error) from error


def _made_of(db: sqlite3.Connection) -> set[tuple[str, str, str]]:
    """(type, name, text without spaces) of all that a database holds. A view could be without end, and SQLite
    hears no Ctrl-C."""
    rows = db.execute("SELECT type, name, sql FROM sqlite_master")
    return {(str(what), str(name), "".join(str(text).split())) for what, name, text in rows}


@functools.cache
def _made_by(tables: str) -> set[tuple[str, str, str]]:
    """As `_made_of`, of a database that statements have made."""
    with contextlib.closing(sqlite3.connect(":memory:")) as db:
        db.executescript(tables)
        return _made_of(db)


def _looked_at(path: Path) -> str:
    """A file as one that is only read. Where nobody writes it, no files are put beside it for that."""
    written = path.with_name(f"{path.name}-wal").exists()
    return f"{path.absolute().as_uri()}?mode=ro{'' if written else '&immutable=1'}"
