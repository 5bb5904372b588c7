"""A process that answers one request at a time, and that what it runs may crash or hang."""

from __future__ import annotations

import contextlib
import os
import subprocess
import tempfile
import threading
from collections.abc import Mapping
from typing import Any, BinaryIO

from tensmith.children import Child, Ending, signal_name
from tensmith.engine.frame import Answer, Array, checked, read_frame, sendable, write_frame
from tensmith.errors import EngineError
from tensmith.fork_server import ForkedChild, start_module

# The end of what a process wrote in which its last line is looked for; the most characters of that.
_TAIL_BYTES, _LONGEST_LINE = 4096, 300


class WorkerEnded(EngineError):
    """The process gave no answer: its text says how, as "died".

    `expired` if it took too long. `ending` is the signal that ended it or its exit code, in words; `last` the
    last line of what it complained of, "" if it did not.
    """

    def __init__(self, how: str, expired: bool = False, ending: str = "", last: str = "") -> None:
        super().__init__(how)
        self.expired, self.ending, self.last = expired, ending, last

    @property
    def last_words(self) -> str:
        """How a sentence about it goes on."""
        return f": {self.last}" if self.last else ""


class ModuleWorker(Ending):
    """`python -m ARGUMENTS`, started when it is first asked; see engine.frame. Use as a context.

    `patience` are the seconds that an answer may take, `farewell` those that the process has at its end;
    packages and fresh: see fork_server.start_module.
    """

    def __init__(
        self,
        arguments: tuple[str, ...],
        patience: float,
        packages: tuple[str, ...] = (),
        *,
        fresh: bool = False,
        farewell: float = 5.0,
    ) -> None:
        self.patience, self._farewell = patience, farewell
        self._arguments, self._packages, self._fresh = arguments, packages, fresh
        self._running: tuple[Child | ForkedChild, BinaryIO] | None = None

    def ask(self, request: Mapping[str, Any], arrays: Mapping[str, Array] | None = None) -> Answer:
        """The answer; raises the error that it tells, as a TensmithError.

        WorkerEnded if there is none, and the next request starts another process.
        """
        given = sendable(arrays or {})
        process, log = self._started()
        expired = threading.Event()

        def expire() -> None:
            expired.set()
            process.kill()

        watch = threading.Timer(self.patience, expire)
        watch.daemon = True
        watch.start()
        try:
            write_frame(process.stdin, request, given)  # type: ignore[arg-type]
            answer = read_frame(process.stdout)  # type: ignore[arg-type]
        except (EOFError, OSError, ValueError) as error:
            process.kill()
            code = process.wait()
            how = self._late if expired.is_set() else "died"
            ending = signal_name(code) or f"exit code {code}"
            ended = WorkerEnded(how, expired.is_set(), ending, _last_line(log))
            self.end()
            raise ended from error
        except BaseException:
            self.end()  # the answer of an interrupted request must not pass for the next one's
            raise
        finally:
            watch.cancel()
            watch.join()
        if expired.is_set():  # just when it had answered: another one may not know what it was told
            self.end()
            raise WorkerEnded(self._late, True)
        return checked(answer)

    @property
    def _late(self) -> str:
        return f"did not end within {self.patience:g} s"

    def kill(self) -> None:
        """Ends the process at once, from another thread than the one that asks: that one is told it died."""
        running = self._running
        if running is not None:
            running[0].kill()

    def end(self) -> None:
        """Ends the process, which may say goodbye to others; a later request starts another one."""
        running, self._running = self._running, None
        if running is None:
            return
        process, log = running
        for stream in (process.stdin, process.stdout):
            if stream is not None:
                with contextlib.suppress(BrokenPipeError):
                    stream.close()
        if self._farewell:
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(self._farewell)
        process.end()
        log.close()

    def _started(self) -> tuple[Child | ForkedChild, BinaryIO]:
        """The process, and the file of its complaints."""
        if self._running is None:
            module, *arguments = self._arguments
            log: BinaryIO = tempfile.TemporaryFile()  # noqa: SIM115 - lives as long as the process
            pipe = subprocess.PIPE
            process = start_module(
                module, arguments, self._packages, stdin=pipe, stdout=pipe, stderr=log, fresh=self._fresh
            )
            self._running = process, log
        return self._running


def _last_line(log: BinaryIO) -> str:
    log.seek(0, os.SEEK_END)
    log.seek(max(0, log.tell() - _TAIL_BYTES))
    lines = log.read().decode(errors="replace").strip().splitlines()
    return lines[-1][:_LONGEST_LINE] if lines else ""
