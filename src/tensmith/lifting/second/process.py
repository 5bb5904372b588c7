"""A confined process (`cell`) at the other end of two pipes."""

from __future__ import annotations

import contextlib
import json
import os
import select
import subprocess
import sys
import time
import weakref
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tensmith.errors import EngineError

_CELL = Path(__file__).with_name("cell.py")


class ProcessGone(Exception):
    """The process is gone; `crashed` if it was not a limit that ended it."""

    def __init__(self, crashed: bool) -> None:
        super().__init__("crashed" if crashed else "took too long, or too much memory")
        self.crashed = crashed


class Process:
    """A cell that was told what to become. Ends with `close`, or when nobody holds it any more."""

    def __init__(self, wanted: Mapping[str, Any], seconds: float) -> None:
        """seconds: by the clock, for all answers together."""
        try:
            self.child = subprocess.Popen(
                [sys.executable, "-I", "-S", str(_CELL)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                bufsize=0,
                env={},
            )
        except OSError as error:
            raise EngineError(f"no process can be started: {error.strerror}") from error
        self.left = seconds
        self.close = weakref.finalize(self, _end, self.child)
        self.buffer = bytearray()
        self.write(json.dumps(wanted).encode() + b"\n")

    def write(self, data: bytes) -> None:
        """Send bytes; ProcessGone if nobody reads them."""
        assert self.child.stdin is not None
        view = memoryview(data)
        try:
            while view:
                view = view[os.write(self.child.stdin.fileno(), view) :]
        except OSError:
            self.gone()

    def read(self, size: int) -> bytes:
        """So many bytes of answers; ProcessGone if they do not come."""
        while len(self.buffer) < size:
            self.fill()
        found = bytes(self.buffer[:size])
        del self.buffer[:size]
        return found

    def line(self) -> Any:
        """An answer that is a line of JSON."""
        while b"\n" not in self.buffer:
            self.fill()
        return json.loads(self.read(self.buffer.index(b"\n") + 1))

    def fill(self) -> None:
        assert self.child.stdout is not None
        began = time.monotonic()
        ready, _, _ = select.select([self.child.stdout], [], [], max(0.0, self.left))
        self.left -= time.monotonic() - began
        if not ready:
            self.close()
            raise ProcessGone(crashed=False)
        data = os.read(self.child.stdout.fileno(), 1 << 16)
        if not data:
            self.gone()
        self.buffer += data

    def gone(self) -> None:
        """Why nobody answers."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.child.wait(1.0)
        code = self.child.returncode
        self.close()
        raise ProcessGone(crashed=code is not None and -code not in (9, 24))  # SIGKILL, SIGXCPU


def _end(child: subprocess.Popen[bytes]) -> None:
    child.kill()
    for pipe in (child.stdin, child.stdout):
        if pipe is not None:
            with contextlib.suppress(OSError):
                pipe.close()
    child.wait()
