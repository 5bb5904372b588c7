"""The side of a worker: whatever it runs on, jobs come to a desk.

    python -m tensmith.workers.serve

serves one in a process: a request is a frame (see engine.frame) of a job, whose files are in the folder that
it names. The process ends when its parent closes the pipe.
"""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Protocol

from tensmith.engine.frame import Answer, Array, serve, take_stdout


class Runner(Protocol):
    """Answers jobs of one kind; it may keep what the next one will need too."""

    def answer(self, request: Mapping[str, Any], arrays: Mapping[str, Array], folder: Path) -> Answer:
        """What comes of a job, whose files lie in `folder`."""


class Desk:
    """Answers jobs of any kind, one at a time."""

    def __init__(self) -> None:
        self._runners: dict[str, Runner] = {}

    def answer(self, job: Mapping[str, Any], arrays: Mapping[str, Array], folder: Path) -> Answer:
        """See Runner."""
        return self._runner(job["runner"]).answer(job["request"], arrays, folder)

    def _runner(self, name: str) -> Runner:
        if name not in self._runners:
            module, _, kind = name.partition(":")
            self._runners[name] = getattr(importlib.import_module(module), kind)()
        return self._runners[name]


def main() -> None:
    """Serves until the pipe closes."""
    desk = Desk()
    serve(take_stdout(), lambda job, arrays: desk.answer(job, arrays, Path(job["folder"])))


if __name__ == "__main__":
    main()
