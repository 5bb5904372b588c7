"""The child's side of a worker: one engine, one file, requests answered over stdin and stdout.

    python -m tensmith.engine.serve MODULE NAME

MODULE registers engine NAME; nothing but NumPy and that engine is imported. The process ends when its parent
closes the pipe, and SIGALRM ends it when a request outlives its time and no parent is left to kill it.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from tensmith.engine.base import ENGINES, Engine, Session
from tensmith.engine.frame import Answer, Array, serve, take_stdout
from tensmith.engine.profile import Profiled
from tensmith.engine.resident import peak_bytes, reset_peak, resident_bytes
from tensmith.engine.signature import TensorSpec
from tensmith.engine.stopwatch import time_calls
from tensmith.errors import EngineError


def _describe(specs: tuple[TensorSpec, ...]) -> list[list[Any]]:
    return [[spec.name, spec.dtype, spec.shape] for spec in specs]


class Server:
    """Answers one request at a time; each method is a request of that name."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._session: Session | None = None
        self._step: Callable[[], object] | None = None
        self._requests = {"load": self.load, "run": self.run, "run_in_parts": self.run_in_parts}
        self._requests |= {"feed": self.feed, "time": self.time, "peak": self.peak, "profile": self.profile}

    def answer(self, request: dict[str, Any], arrays: dict[str, Array]) -> Answer:
        """The answer of the method that is asked for."""
        return self._requests[request["do"]](request, arrays)

    def load(self, request: Mapping[str, Any], arrays: Mapping[str, Array]) -> Answer:
        """Prepares the model; `before` are the process's resident bytes without it."""
        self._engine.start()
        before = resident_bytes()
        self._session = self._engine.prepare(
            Path(request["path"]), request["threads"], sizes=request["sizes"], **request["settings"]
        )
        answer = {
            "before": before,
            "inputs": _describe(self._session.inputs),
            "outputs": _describe(self._session.outputs),
            "operators": sorted(self._session.operators),
            "samples": self._session.samples,
        }
        return answer, {}

    def run(self, request: Mapping[str, Any], arrays: Mapping[str, Array]) -> Answer:
        """One inference on the arrays sent along."""
        return {}, self._loaded().run(arrays)

    def run_in_parts(self, request: Mapping[str, Any], arrays: Mapping[str, Array]) -> Answer:
        """Inferences on parts of the arrays sent along, the answers of each named by its number."""
        parts = self._loaded().run_in_parts(arrays, request["size"])
        named = {f"{number} {name}": part[name] for number, part in enumerate(parts) for name in part}
        return {"parts": len(parts), "names": list(parts[0])}, named

    def feed(self, request: Mapping[str, Any], arrays: Mapping[str, Array]) -> Answer:
        """Keeps the arrays as the inputs of every `time` and `peak` that follows."""
        self._step = self._loaded().bind(arrays)
        return {}, {}

    def time(self, request: Mapping[str, Any], arrays: Mapping[str, Array]) -> Answer:
        """The turn of `count` inferences."""
        turn = time_calls(self._fed(), request["count"])
        return {"waited": turn.waited, "held": turn.held}, {"nanoseconds": turn.nanoseconds}

    def peak(self, request: Mapping[str, Any], arrays: Mapping[str, Array]) -> Answer:
        """The highest resident bytes over `count` inferences; `exact` is false if it was only sampled."""
        step = self._fed()
        exact = reset_peak()
        highest = resident_bytes()
        for _ in range(request["count"]):
            step()
            highest = max(highest, resident_bytes())
        marked = peak_bytes() if exact else None
        return {"bytes": max(highest, marked or 0), "exact": marked is not None}, {}

    def profile(self, request: Mapping[str, Any], arrays: Mapping[str, Array]) -> Answer:
        """The steps of an inference on the arrays sent along, of a model that is loaded for that alone."""
        assert isinstance(self._engine, Profiled)
        path, threads, seconds = Path(request["path"]), request["threads"], request["seconds"]
        steps = self._engine.profile(path, threads, arrays, seconds, **request["settings"])
        return {"steps": [asdict(step) for step in steps]}, {}

    def _loaded(self) -> Session:
        if self._session is None:
            raise EngineError("no model is loaded")
        return self._session

    def _fed(self) -> Callable[[], object]:
        if self._step is None:
            raise EngineError("no inputs were fed")
        return self._step


def main() -> None:
    """Serves until the pipe closes."""
    module, name = sys.argv[1:]
    answers = take_stdout()
    importlib.import_module(module)
    serve(answers, Server(ENGINES[name]).answer)


def warm(*packages: str) -> None:
    """Finds out which code compiles, by which engines that compile know their folders."""
    if "tensmith.engine.compiled" in sys.modules:
        sys.modules["tensmith.engine.compiled"].code_revision()


if __name__ == "__main__":
    main()
