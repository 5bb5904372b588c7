"""`run.sqlite`: every candidate tried, written when it is known, so that a killed run loses at most one."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tensmith import gate
from tensmith.errors import OutputError
from tensmith.search.candidate import Candidate

# 1 had the name of a file in every candidate, which is read over.
_SCHEMA = 2
_READABLE = (1, 2)


class Checkpoint:
    """A database of candidates in the order they were tried, and of facts about the run.

    OutputError if the file is damaged, from another version, or (with `resume`) from another configuration.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        if path.exists():
            gate.check(path, gate.RUN)
        try:
            self._db = sqlite3.connect(path, timeout=5.0)
            self._db.execute("PRAGMA journal_mode=WAL")
            self._db.execute("PRAGMA synchronous=FULL")
            self._db.executescript(
                "CREATE TABLE IF NOT EXISTS facts (name TEXT PRIMARY KEY, value TEXT NOT NULL);"
                "CREATE TABLE IF NOT EXISTS candidates "
                "(number INTEGER PRIMARY KEY, key TEXT UNIQUE NOT NULL, body TEXT NOT NULL);"
            )
            version = self.fact("schema")
        except sqlite3.OperationalError as error:
            raise self._unwritable(error) from error
        except sqlite3.Error as error:
            raise self._damaged(error) from error
        if version is not None and version not in _READABLE:
            known = " and ".join(map(str, _READABLE))
            raise OutputError(
                f"{path} has schema {version}, this tensmith reads {known}; choose another --output"
            )
        if version != _SCHEMA:
            self.note("schema", _SCHEMA)

    def note(self, name: str, value: Any) -> None:
        """Stores a fact (any JSON value) under `name`."""
        self._write("INSERT OR REPLACE INTO facts VALUES (?, ?)", (name, json.dumps(value)))

    def fact(self, name: str) -> Any:
        """The fact stored under `name`, or None."""
        row = self._read("SELECT value FROM facts WHERE name = ?", (name,)).fetchone()
        return None if row is None else self._json(row[0])

    def forget(self, prefix: str) -> None:
        """Removes every fact whose name begins with `prefix`."""
        self._write("DELETE FROM facts WHERE substr(name, 1, ?) = ?", (len(prefix), prefix))

    def add(self, candidate: Candidate) -> None:
        """Stores a candidate; one with the same plan is replaced."""
        body = json.dumps(candidate.to_json())
        self._write(
            "INSERT INTO candidates (key, body) VALUES (?, ?) "
            "ON CONFLICT (key) DO UPDATE SET body = excluded.body",
            (candidate.plan.key, body),
        )

    def remove(self, candidate: Candidate) -> None:
        """Removes the candidate with this plan."""
        self._write("DELETE FROM candidates WHERE key = ?", (candidate.plan.key,))

    def candidates(self) -> Iterator[Candidate]:
        """Every stored candidate, in the order they were tried."""
        for (body,) in self._read("SELECT body FROM candidates ORDER BY number", ()).fetchall():
            try:
                yield Candidate.from_json(self._json(body))
            except (KeyError, TypeError, AttributeError) as error:
                raise self._damaged(error) from error

    def close(self) -> None:
        """Ends the connection; what was added is on disk already."""
        self._db.close()

    def _read(self, statement: str, values: tuple[Any, ...]) -> sqlite3.Cursor:
        try:
            return self._db.execute(statement, values)
        except sqlite3.Error as error:
            raise self._damaged(error) from error

    def _write(self, statement: str, values: tuple[Any, ...]) -> None:
        try:
            with self._db:
                self._db.execute(statement, values)
        except sqlite3.OperationalError as error:
            raise self._unwritable(error) from error
        except sqlite3.Error as error:
            raise self._damaged(error) from error

    def _json(self, text: str) -> Any:
        try:
            return json.loads(text)
        except ValueError as error:
            raise self._damaged(error) from error

    def _unwritable(self, error: Exception) -> OutputError:
        return OutputError(f"cannot write {self.path}: {error}; free some space, then --resume")

    def _damaged(self, error: Exception) -> OutputError:
        return OutputError(
            f"{self.path} is damaged ({error}); nothing was changed: move it away or choose a new --output"
        )
