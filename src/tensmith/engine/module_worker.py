"""A process that answers one request at a time, and that what it runs may crash or hang."""

from __future__ import annotations

import contextlib
import subprocess
import threading
from collections.abc import Mapping
from typing import Any

from tensmith.children import Child, Ending
from tensmith.engine.frame import Array, read_frame, write_frame
from tensmith.errors import EngineError
from tensmith.fork_server import ForkedChild, start_module

_FAREWELL_SECONDS = 5.0


class WorkerEnded(EngineError):
    """The process gave no answer: its text says how, as "died"."""


class ModuleWorker(Ending):
    """`python -m ARGUMENTS`, started when it is first asked; see engine.frame. Use as a context.

    `patience` are the seconds that an answer may take.
    """

    def __init__(self, arguments: tuple[str, ...], patience: float) -> None:
        self._arguments = arguments
        self._patience = patience
        self._process: Child | ForkedChild | None = None

    def ask(
        self, request: Mapping[str, Any], arrays: Mapping[str, Array] | None = None
    ) -> tuple[dict[str, Any], dict[str, Array]]:
        """The answer; WorkerEnded if there is none, and the next request starts another process."""
        process = self._started()
        expired = threading.Event()

        def expire() -> None:
            expired.set()
            process.kill()

        watch = threading.Timer(self._patience, expire)
        watch.start()
        try:
            write_frame(process.stdin, request, arrays)  # type: ignore[arg-type]
            return read_frame(process.stdout)  # type: ignore[arg-type]
        except (EOFError, OSError, ValueError) as error:
            self.end()
            how = f"did not end within {self._patience:g} s" if expired.is_set() else "died"
            raise WorkerEnded(how) from error
        except BaseException:
            self.end()  # the answer of an interrupted request must not pass for the next one's
            raise
        finally:
            watch.cancel()

    def kill(self) -> None:
        """Ends the process at once, from another thread than the one that asks: that one is told it died."""
        process = self._process
        if process is not None:
            process.kill()

    def end(self) -> None:
        """Ends the process, which may say goodbye to others; a later request starts another one."""
        process, self._process = self._process, None
        if process is None:
            return
        for stream in (process.stdin, process.stdout):
            if stream is not None:
                with contextlib.suppress(BrokenPipeError):
                    stream.close()
        try:
            process.wait(_FAREWELL_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
        process.end()

    def _started(self) -> Child | ForkedChild:
        if self._process is None:
            module, *arguments = self._arguments
            self._process = start_module(
                module, arguments, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
            )
        return self._process
