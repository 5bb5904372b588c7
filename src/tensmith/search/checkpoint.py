"""`run.sqlite`: every candidate tried, written when it is known, so that a killed run loses at most one."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tensmith import gate
from tensmith.database import Database
from tensmith.errors import OutputError
from tensmith.search.candidate import Candidate

# What it is called in a run's folder.
DATABASE = "run.sqlite"
# The fact that holds the sizes of what is timed, by their symbols.
SIZES = "sizes"
_VERSION = 1
_TABLES = """
CREATE TABLE IF NOT EXISTS facts (name TEXT PRIMARY KEY, value TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS candidates (
    number INTEGER PRIMARY KEY, key TEXT UNIQUE NOT NULL, body TEXT NOT NULL);
"""


class Checkpoint(Database):
    """A database of candidates in the order they were tried, and of facts about the run.

    OutputError if the file is damaged, from another version, or (with `resume`) from another configuration.
    looked_at: nothing is written.
    """

    def __init__(self, path: Path, looked_at: bool = False) -> None:
        super().__init__(path, gate.RUN, _TABLES, _VERSION, looked_at=looked_at)

    def note(self, name: str, value: Any) -> None:
        """Stores a fact (any JSON value) under `name`."""
        self.write("INSERT OR REPLACE INTO facts VALUES (?, ?)", (name, json.dumps(value)))

    def fact(self, name: str) -> Any:
        """The fact stored under `name`, or None."""
        rows = self.rows("SELECT value FROM facts WHERE name = ?", (name,))
        return self._json(rows[0][0]) if rows else None

    def settled(self, name: str, value: Any) -> Any:
        """The fact of an earlier start under `name`; else `value`, which is that from now on."""
        if (known := self.fact(name)) is None:
            self.note(name, known := value)
        return known

    def forget(self, prefix: str) -> None:
        """Removes every fact whose name begins with `prefix`."""
        self.write("DELETE FROM facts WHERE substr(name, 1, ?) = ?", (len(prefix), prefix))

    def add(self, candidate: Candidate) -> None:
        """Stores a candidate; one with the same plan is replaced."""
        body = json.dumps(candidate.to_json())
        self.write(
            "INSERT INTO candidates (key, body) VALUES (?, ?) "
            "ON CONFLICT (key) DO UPDATE SET body = excluded.body",
            (candidate.plan.key, body),
        )

    def remove(self, candidate: Candidate) -> None:
        """Removes the candidate with this plan."""
        self.write("DELETE FROM candidates WHERE key = ?", (candidate.plan.key,))

    def candidates(self) -> Iterator[Candidate]:
        """Every stored candidate, in the order they were tried."""
        for (body,) in self.rows("SELECT body FROM candidates ORDER BY number"):
            document = self._json(body)
            try:
                yield Candidate.from_json(document)
            except (KeyError, TypeError, AttributeError, ValueError, OutputError) as error:
                raise self.damaged(error) from error

    def _json(self, text: str) -> Any:
        try:
            return json.loads(text)
        except (ValueError, RecursionError) as error:
            raise self.damaged(error) from error
