"""An engine in a process of its own: what it loads, how fast it is, and what happens when it dies.

Engines are native code that reads foreign files, and their thread pools disturb each other inside one
process. A worker keeps one engine with one file apart: a crash or a hang becomes an EngineError here.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from tensmith.children import Ending
from tensmith.engine.base import ENGINES, Arrays, Engine, PackageEngine, Session
from tensmith.engine.frame import Answer
from tensmith.engine.module_worker import ModuleWorker, WorkerEnded
from tensmith.engine.signature import TensorSpec
from tensmith.engine.stopwatch import Turn, in_a_row
from tensmith.errors import EngineError, TensmithError, is_of_disk

_ORPHAN_GRACE_S = 5
# No request is to take longer, by what the inferences before it took.
_LONGEST_SECONDS = 60.0


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
        compiled: Path | None = None,
        **settings: str,
    ) -> None:
        """Starts the process and loads the file, or what it was `compiled` to; EngineError if either fails,
        OutputError where a disk takes nothing more.

        fresh: see fork_server.start_module.
        """
        self.engine, self.path = engine, path
        self._worker = serving(engine, timeout, fresh=fresh)
        self._asking = threading.Lock()  # one request at a time is on the way
        self._over = ""  # why nothing is asked any more
        self._each = 0.0  # seconds of an inference on the fed inputs, as the last ones took
        try:
            answer, _ = self._ask(
                "load",
                "loading",
                path=str((compiled or path).absolute()),
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
        began = time.monotonic()
        self._ask("feed", "running", inputs)
        self._each = time.monotonic() - began

    def time(self, count: int) -> Turn:
        """Times `count` inferences on the fed inputs, in several requests where they take long."""
        return in_a_row([self._timed(part) for part in self._parts(count)])

    def _timed(self, count: int) -> Turn:
        answer, results = self._ask("time", "timing", count=count)
        self._each = float(results["nanoseconds"].mean()) / 1e9
        return Turn(results["nanoseconds"], answer["waited"], answer["held"])

    def peak(self, count: int) -> Peak:
        """The highest resident memory over `count` inferences on the fed inputs."""
        answers = [self._ask("peak", "running", count=part)[0] for part in self._parts(count)]
        return Peak(max(answer["bytes"] for answer in answers), all(answer["exact"] for answer in answers))

    def _parts(self, count: int) -> Iterator[int]:
        """How many inferences go into each request, by what those before it took."""
        while count > 0:
            part = min(count, max(1, int(_LONGEST_SECONDS / max(self._each, 1e-9))))
            yield part
            count -= part

    def close(self) -> None:
        """Ends the process, whatever it is doing."""
        self._over = self._closed
        self._worker.kill()
        with self._asking:
            self._worker.end()

    def end(self) -> None:
        self.close()

    @property
    def _closed(self) -> str:
        return f"the {self.engine} worker of {self.path} is closed"

    def _ask(self, do: str, doing: str, arrays: Arrays | None = None, **request: Any) -> Answer:
        """The answer; what has ended is not started again, since it has loaded nothing then."""
        asked = {"do": do, "alarm": int(self._worker.patience) + _ORPHAN_GRACE_S, **request}
        with self._asking:
            if self._over:
                raise EngineError(self._over)
            try:
                return self._worker.ask(asked, arrays)
            except WorkerEnded as ended:
                self._over = self._epitaph(doing, ended)
                raise EngineError(self._over) from ended
            except TensmithError as error:
                if is_of_disk(error):
                    raise
                raise EngineError(str(error)) from error
            except BaseException:
                self._over = self._closed
                raise

    def _epitaph(self, doing: str, ended: WorkerEnded) -> str:
        what = f"{self.engine} {{}} while {doing} {self.path}"
        if ended.expired:
            return what.format(f"did not answer within {self._worker.patience:g} s") + "; it was stopped"
        return what.format(f"died ({ended.ending})") + ended.last_words


def serving(engine: str, patience: float, *, fresh: bool = False) -> ModuleWorker:
    """A process with an engine, which takes the requests of engine.serve.Server."""
    by = ENGINES[engine]
    words = ("tensmith.engine.serve", type(by).__module__, engine)
    return ModuleWorker(words, patience, _packages(by), fresh=fresh, farewell=0.0)


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
