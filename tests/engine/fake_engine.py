"""An engine that misbehaves on request; a worker imports this file by its module name."""

from __future__ import annotations

import errno
import os
import signal
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from tensmith.engine.base import Arrays, Engine, Session, engine
from tensmith.engine.signature import TensorSpec
from tensmith.errors import EngineError, OutputError

# What some libraries give as objects.
_OBJECTS: dict[str, list[Any]] = {"texts": ["a", "", "übel"], "objects": ["a", None]}


class FakeSession(Session):
    """Doubles its input x [n], unless told to fail."""

    inputs = outputs = (TensorSpec("x", "float32", ("n",)),)

    def __init__(self, behaviour: str) -> None:
        self._behaviour = behaviour

    def run(self, inputs: Arrays) -> dict[str, np.ndarray[Any, Any]]:
        if self._behaviour == "crash":
            os.write(2, b"something native went wrong\n")
            os.kill(os.getpid(), signal.SIGSEGV)
        if self._behaviour == "hang":
            time.sleep(60)
        if self._behaviour == "stopped":
            os.kill(os.getpid(), signal.SIGSTOP)
        if self._behaviour == "raise":
            raise RuntimeError("no such kernel")
        if self._behaviour == "grow":
            np.ones(64 << 20, np.uint8).sum()
        if self._behaviour == "print":
            os.write(1, b"a chatty library\n")
        if self._behaviour in _OBJECTS:
            return {"x": np.array(_OBJECTS[self._behaviour], dtype=object)}
        return {"x": 2 * inputs["x"]}


@engine
class FakeEngine(Engine):
    """Not among the engines that can run, so that no other test picks it."""

    name = "fake"

    def missing(self) -> str | None:
        return "it is for tests only"

    def version(self) -> str:
        return "0"

    def start(self) -> None:
        pass

    def prepare(
        self,
        path: Path,
        threads: int,
        *,
        sizes: Mapping[str, int] | None = None,
        behaviour: str = "",
        **settings: str,
    ) -> Session:
        if behaviour == "refuse":
            raise EngineError(f"fake cannot load {path}: it does not want to")
        if behaviour == "full":
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), "/full/scratch")
        if behaviour == "unwritten":
            raise OutputError("cannot write /full/made") from OSError(errno.EROFS, os.strerror(errno.EROFS))
        if behaviour == "exit":
            os._exit(3)
        return FakeSession(behaviour)
