"""An engine in a process of its own: what it loads, how fast it is, and what happens when it dies.

Engines are native code that reads foreign files, and their thread pools disturb each other inside one
process. A worker keeps one engine with one file apart: a crash or a hang becomes an EngineError here.
"""

from __future__ import annotations

import contextlib
import os
import subprocess
import tempfile
import threading
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from tensmith.children import Ending, signal_name
from tensmith.engine.base import ENGINES, Arrays, Engine, PackageEngine, Session
from tensmith.engine.frame import read_frame, write_frame
from tensmith.engine.signature import TensorSpec
from tensmith.engine.stopwatch import Turn
from tensmith.errors import EngineError
from tensmith.fork_server import start_module

_ORPHAN_GRACE_S = 5


@dataclass(frozen=True)
class Peak:
    """The highest resident bytes while running; `exact` is false where the system lets it only be sampled."""

    resident: int
    exact: bool


class SessionWorker(Session, Ending):
    """A session in another process. Every request is killed after `timeout` seconds; use as a context."""

    def __init__(
        self,
        engine: str,
        path: Path,
        threads: int = 1,
        *,
        sizes: Mapping[str, int] | None = None,
        timeout: float = 120.0,
        fresh: bool = False,
        **settings: str,
    ) -> None:
        """Starts the process and loads the file; EngineError if either fails.

        fresh: see fork_server.start_module.
        """
        self.engine, self.path = engine, path
        self._timeout = timeout
        self._asking = threading.Lock()  # one request at a time is on the way
        by = ENGINES[engine]
        self._log: BinaryIO = tempfile.TemporaryFile()  # noqa: SIM115 - lives as long as the worker
        self._process = start_module(
            "tensmith.engine.serve",
            (type(by).__module__, engine),
            _packages(by),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._log,
            fresh=fresh,
        )
        try:
            answer, _ = self._ask(
                "load",
                "loading",
                path=str(path.absolute()),
                threads=threads,
                sizes=dict(sizes or {}),
                settings=settings,
            )
        except BaseException:
            self.close()
            raise
        self.resident_before = int(answer["before"])  # bytes of the process, the model not yet loaded
        self.inputs, self.outputs = _specs(answer["inputs"]), _specs(answer["outputs"])
        self.operators = frozenset(answer["operators"])
        self.samples = answer["samples"]

    def run(self, inputs: Arrays) -> dict[str, np.ndarray[Any, Any]]:
        return self._ask("run", "running", inputs)[1]

    def run_in_parts(self, inputs: Arrays, size: int) -> list[dict[str, np.ndarray[Any, Any]]]:
        answer, results = self._ask("run_in_parts", "running", inputs, size=size)
        names = answer["names"]
        return [{name: results[f"{part} {name}"] for name in names} for part in range(answer["parts"])]

    def feed(self, inputs: Arrays) -> None:
        """Sets the inputs of every `time` and `peak` that follows, and runs once on them."""
        self._ask("feed", "running", inputs)

    def time(self, count: int) -> Turn:
        """Times `count` inferences on the fed inputs."""
        answer, results = self._ask("time", "timing", count=count)
        return Turn(results["nanoseconds"], answer["waited"])

    def peak(self, count: int) -> Peak:
        """The highest resident memory over `count` inferences on the fed inputs."""
        answer, _ = self._ask("peak", "running", count=count)
        return Peak(answer["bytes"], answer["exact"])

    def close(self) -> None:
        """Ends the process, whatever it is doing."""
        self._process.end()
        self._log.close()

    def end(self) -> None:
        """See Ending."""
        self.close()

    def _ask(
        self, do: str, doing: str, arrays: Arrays | None = None, **request: Any
    ) -> tuple[dict[str, Any], dict[str, np.ndarray[Any, Any]]]:
        stdin, stdout = self._process.stdin, self._process.stdout
        assert stdin is not None and stdout is not None
        if stdin.closed:
            raise EngineError(f"the {self.engine} worker of {self.path} is closed")
        header = {"do": do, "alarm": int(self._timeout) + _ORPHAN_GRACE_S, **request}
        with self._asking, self._deadline() as expired:
            try:
                write_frame(stdin, header, arrays)  # type: ignore[arg-type]
                answer, results = read_frame(stdout)  # type: ignore[arg-type]
            except (EOFError, OSError, ValueError, KeyError) as error:
                raise EngineError(self._epitaph(doing, expired.is_set())) from error
        if "error" in answer:
            raise EngineError(answer["error"])
        return answer, results

    @contextlib.contextmanager
    def _deadline(self) -> Iterator[threading.Event]:
        """Kills the process after the timeout; reads and writes then end by themselves."""
        expired = threading.Event()

        def expire() -> None:
            expired.set()
            self._process.kill()

        timer = threading.Timer(self._timeout, expire)
        timer.daemon = True
        timer.start()
        try:
            yield expired
        finally:
            timer.cancel()

    def _epitaph(self, doing: str, expired: bool) -> str:
        what = f"{self.engine} {{}} while {doing} {self.path}"
        if expired:
            return what.format(f"did not answer within {self._timeout:g} s") + "; it was stopped"
        self._process.kill()
        code = self._process.wait()
        how = signal_name(code) or f"exit code {code}"
        self._log.seek(0, os.SEEK_END)
        self._log.seek(max(0, self._log.tell() - 4096))
        lines = self._log.read().decode(errors="replace").strip().splitlines()
        return what.format(f"died ({how})") + (f": {lines[-1][:300]}" if lines else "")


def _packages(engine: Engine) -> tuple[str, ...]:
    """What is imported before a worker is forked: nothing of others' engines, which may start threads."""
    module = type(engine).__module__
    if not module.startswith("tensmith."):
        return ()
    return (module, engine.module) if isinstance(engine, PackageEngine) else (module,)


def _specs(rows: list[list[Any]]) -> tuple[TensorSpec, ...]:
    return tuple(
        TensorSpec(name, dtype, None if shape is None else tuple(shape)) for name, dtype, shape in rows
    )
