"""What kernels were measured to take: one SQLite database in the user's cache, shared by all processes.

An entry holds for one machine (CPU model and instruction set), one problem, and one memory that the weights
come from. It counts as long as the kernel's C text is the one that was timed. Entries are committed one by
one, so that whatever ends a process loses none of those before.
"""

from __future__ import annotations

import json
import math
import os
import warnings
from collections.abc import Iterable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from tensmith import gate
from tensmith.cache import CacheWarning, user_cache
from tensmith.database import Database
from tensmith.errors import OutputError
from tensmith.files import sha256_bytes
from tensmith.hardware.cpu import detect_cpu
from tensmith.kernel.algorithm import Kernel
from tensmith.kernel.alone import code_version
from tensmith.kernel.isa import Isa
from tensmith.kernel.problem import ConvolutionProblem, distance
from tensmith.kernel.scheduled import Scheduled

_VERSION = 1
_PATIENCE_SECONDS = 30.0
_TABLE = """
CREATE TABLE IF NOT EXISTS timings (
    number INTEGER PRIMARY KEY AUTOINCREMENT,
    machine TEXT NOT NULL, problem TEXT NOT NULL, memory INTEGER NOT NULL, kernel TEXT NOT NULL,
    code TEXT NOT NULL, seconds REAL NOT NULL, UNIQUE (machine, problem, memory, kernel));
CREATE TABLE IF NOT EXISTS settled (
    machine TEXT NOT NULL, problem TEXT NOT NULL, memory INTEGER NOT NULL, kernels TEXT NOT NULL,
    PRIMARY KEY (machine, problem, memory));
"""


class Timings:
    """The database at `path`; it is created by the first `add`, an OutputError if it is damaged or full.

    Who only reads takes a damaged or foreign one for none, with a CacheWarning, and one in a folder that
    cannot be written as it is; who is `writing` too is told at once. `cpu` is the model that kernels run on:
    this machine's if not said.
    """

    def __init__(self, path: Path | None = None, cpu: str | None = None, *, writing: bool = False) -> None:
        self.path = path or user_cache("timings.sqlite")
        self._cpu = cpu
        self._db: Database | None = None
        self._unusable: OutputError | None = None
        if self.path.exists():
            try:
                self._open(looked_at=not writing and not os.access(self.path.parent, os.W_OK))
            except OutputError as error:
                if writing:
                    raise
                self._ignore(error)

    def known(self, kernels: Iterable[Kernel], memory: int) -> dict[Kernel, float]:
        """Seconds of those kernels that were timed as they are now."""
        found: dict[Kernel, float] = {}
        stored: dict[tuple[ConvolutionProblem, Isa], dict[str, tuple[str, float]]] = {}
        for kernel in kernels:
            place = (kernel.problem, kernel.isa)
            if place not in stored:
                stored[place] = self._of(*place, memory)
            code, seconds = stored[place].get(str(kernel), ("", 0.0))
            if code and code == code_version(kernel):
                found[kernel] = seconds
        return found

    def _of(self, problem: ConvolutionProblem, isa: Isa, memory: int) -> dict[str, tuple[str, float]]:
        where = (self._machine(isa), _described(problem), memory)
        statement = (
            "SELECT kernel, code, seconds FROM timings WHERE machine = ? AND problem = ? AND memory = ?"
        )
        rows = self._rows(statement, where)
        return {name: (code, seconds) for name, code, seconds in rows if isinstance(seconds, float)}

    def near(self, problem: ConvolutionProblem, isa: Isa, memory: int) -> list[tuple[float, str]]:
        """(distance, name) of our kernels that were best at the three nearest other shapes, in order."""
        statement = (
            "SELECT problem, kernel, min(seconds) FROM timings WHERE machine = ? AND memory = ? "
            "AND kernel <> ? GROUP BY problem"
        )
        rows = self._rows(statement, (self._machine(isa), memory, Scheduled.name))
        try:
            found = [(distance(problem, _problem(text)), str(name)) for text, name, _ in rows]
        except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as error:
            if self._db is not None:
                self._ignore(self._db.damaged(error))
            return []
        return sorted(near for near in found if 0 < near[0] < math.inf)[:3]

    def add(self, kernel: Kernel, memory: int, seconds: float) -> None:
        """Stores what a kernel took, in place of what was known of it."""
        where = (self._machine(kernel.isa), _described(kernel.problem), memory)
        self._write(
            "INSERT OR REPLACE INTO timings (machine, problem, memory, kernel, code, seconds) "
            "VALUES (?, ?, ?, ?, ?, ?)",
            (*where, str(kernel), code_version(kernel), seconds),
        )

    def settle(self, problem: ConvolutionProblem, kernels: Sequence[Kernel], memory: int) -> None:
        """Notes that more trials of a problem's kernels are not worth their time."""
        where = (self._machine(kernels[0].isa), _described(problem), memory)
        self._write("INSERT OR REPLACE INTO settled VALUES (?, ?, ?, ?)", (*where, _digest(kernels)))

    def settled(self, problem: ConvolutionProblem, kernels: Sequence[Kernel], memory: int) -> bool:
        """Whether `settle` was told the same, and the first of them still is as it was timed."""
        where = (self._machine(kernels[0].isa), _described(problem), memory)
        statement = "SELECT kernels FROM settled WHERE machine = ? AND problem = ? AND memory = ?"
        same = self._rows(statement, where) == [(_digest(kernels),)]
        return same and bool(self.known(kernels[:1], memory))

    def revision(self) -> str:
        """A hash of what is stored: the same entries are the same revision, in a new file too."""
        order = "machine, problem, memory, kernel"
        rows = self._rows(f"SELECT {order}, code, seconds FROM timings ORDER BY {order}", ())
        return sha256_bytes("\n".join(map(repr, rows)).encode())[:32]

    def close(self) -> None:
        """Ends the connection; what was added is on disk already."""
        if self._db is not None:
            self._db.close()
            self._db = None

    def _machine(self, isa: Isa) -> str:
        return f"{self._cpu or detect_cpu().model}, {isa.name} {' '.join(sorted(isa.features))}"

    def _write(self, statement: str, values: tuple[Any, ...]) -> None:
        if self._unusable is not None:
            raise self._unusable
        (self._db or self._open()).write(statement, values)

    def _open(self, looked_at: bool = False) -> Database:
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise OutputError(
                f"cannot use {self.path}: {error.strerror or error}; free some space"
            ) from error
        self._db = Database(self.path, gate.KEPT, _TABLE, _VERSION, _PATIENCE_SECONDS, looked_at)
        return self._db

    def _rows(self, statement: str, values: tuple[Any, ...]) -> list[tuple[Any, ...]]:
        try:
            return self._db.rows(statement, values) if self._db is not None else []
        except OutputError as error:
            self._ignore(error)
            return []

    def _ignore(self, reason: OutputError) -> None:
        """Nothing more is read from it, and nothing is written there."""
        self.close()
        self._unusable = reason
        warnings.warn(f"{reason}; until then kernels are chosen without it", CacheWarning, stacklevel=3)


def _described(problem: ConvolutionProblem) -> str:
    """What was timed before there were narrow weights is of others."""
    fields = asdict(problem)
    if not problem.narrow:
        del fields["narrow"]
    return json.dumps(fields, sort_keys=True)


def _digest(kernels: Sequence[Kernel]) -> str:
    return sha256_bytes("\n".join(sorted(map(str, kernels))).encode())[:32]


def _problem(text: str) -> ConvolutionProblem:
    """What `_described` wrote."""
    fields: dict[str, Any] = json.loads(text)
    fields |= {key: tuple(value) for key, value in fields.items() if isinstance(value, list)}
    return ConvolutionProblem(**fields)
