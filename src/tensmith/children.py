"""Other programs: each in a group of its own, within limits, and gone when whoever started it is gone.

A shell stands between, since nothing may run in the child of a process with threads before another program
does. It sets the limits, starts the program, and beside it a watcher that reads from a pipe whose other end
is held here: when that is closed, by `end` or because this process was killed, the whole group is.
"""

from __future__ import annotations

import contextlib
import math
import os
import shutil
import signal
import subprocess
import sys
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, Self

# $1: the pipe's descriptor; $2, $3: limits in seconds and KiB, or "unlimited". POSIX has `ulimit -f` alone,
# so what a shell does not know is left out. A program that takes too long first gets SIGXCPU, which tells
# that apart from a system out of memory.
_SHELL = """
ulimit -c 0
[ "$2" = unlimited ] || { ulimit -S -t "$2"; ulimit -H -t $(($2 + 5)); }
[ "$3" = unlimited ] || ulimit -v "$3" 2>/dev/null
{ read -r never; kill -9 0; } <"/dev/fd/$1" >/dev/null 2>&1 &
watcher=$!
shift 3
exec 3>&2 2>/dev/null  # a shell says what ended its program; so do we
(exec "$@" 2>&3 3>&-)
code=$?
kill -9 $watcher 2>/dev/null
wait $watcher 2>/dev/null
exit $code
"""


def memory_bytes() -> int:
    """The memory of this machine."""
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


@dataclass(frozen=True)
class Limits:
    """Seconds of processor time and bytes of address space of each process; None: as this one's."""

    seconds: float | None = None
    memory: int | None = None

    @property
    def _words(self) -> tuple[str, str]:
        seconds = "unlimited" if self.seconds is None else str(math.ceil(self.seconds))
        return seconds, "unlimited" if self.memory is None else str(self.memory // 1024)


@dataclass(frozen=True)
class ProcessResult:
    """How a program ended, and what it printed."""

    code: int
    stdout: str
    stderr: str

    @property
    def ending(self) -> str:
        """In words: "ended with 1", or the signal's name and what mostly sends it."""
        if self.code >= 0:
            return f"ended with {self.code}"
        causes = {"SIGXCPU": "it took too much processor time", "SIGKILL": "was there too little memory?"}
        name = signal_name(self.code)
        return f"was ended by {name}" + (f"; {causes[name]}" if name in causes else "")


class Ending(ABC):
    """What has an end: as a context, it is ended however the context is left."""

    @abstractmethod
    def end(self) -> object:
        """Ends it; more than once does no harm."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.end()


class Child(Ending):
    """A running program; OSError if it cannot be started. Use as a context, or call `end`.

    `how` is as subprocess.Popen's. Its process id is that of the group.
    """

    def __init__(self, command: Sequence[str], limits: Limits = Limits(), **how: Any) -> None:
        if shutil.which(command[0]) is None:
            raise FileNotFoundError(2, os.strerror(2), command[0])
        watched, self._alive = os.pipe()
        try:
            self._process: subprocess.Popen[Any] = subprocess.Popen(
                ["/bin/sh", "-c", _SHELL, "sh", str(watched), *limits._words, *command],
                pass_fds=(watched,),
                start_new_session=True,  # Ctrl-C is for this process, which ends its children in order
                **how,
            )
        except BaseException:
            os.close(self._alive)
            raise
        finally:
            os.close(watched)

    @property
    def stdin(self) -> IO[Any] | None:
        """Its standard input, if that is a pipe."""
        return self._process.stdin

    @property
    def stdout(self) -> IO[Any] | None:
        """Its standard output, if that is a pipe."""
        return self._process.stdout

    @property
    def pid(self) -> int:
        """The id of its group."""
        return self._process.pid

    @property
    def returncode(self) -> int | None:
        """As `wait`, None while it is not known to have ended."""
        code = self._process.returncode
        return None if code is None else _own(code)

    def communicate(self, timeout: float | None = None) -> tuple[Any, Any]:
        """As subprocess.Popen's."""
        return self._process.communicate(timeout=timeout)

    def wait(self, timeout: float | None = None) -> int:
        """Its exit code when it ends, minus the signal's number if a signal ended it."""
        return _own(self._process.wait(timeout))

    def kill(self) -> None:
        """Ends all of its group at once; `wait` tells when that is done."""
        with contextlib.suppress(ProcessLookupError, PermissionError):
            if self._process.returncode is None:  # else its number may be another's by now
                os.killpg(self._process.pid, signal.SIGKILL)

    def end(self) -> int:
        """Ends it, whatever it is doing, and closes its pipes; the exit code."""
        self.kill()
        code = self.wait()
        alive, self._alive = self._alive, -1
        if alive >= 0:
            os.close(alive)
        for stream in (self._process.stdin, self._process.stdout, self._process.stderr):
            if stream is not None:
                with contextlib.suppress(BrokenPipeError):
                    stream.close()
        return code


def _own(code: int) -> int:
    """A program's exit code from that of the shell, which adds 128 to a signal's number."""
    return 128 - code if 128 < code < 128 + signal.NSIG else code


def run(
    command: Sequence[str],
    seconds: float,
    limits: Limits = Limits(),
    *,
    folder: str | Path | None = None,
    environment: Mapping[str, str] | None = None,
) -> ProcessResult:
    """Runs a program without input to its end; OSError if it cannot be started.

    subprocess.TimeoutExpired after `seconds`, when it and all that it started are ended.
    """
    pipes = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    with Child(command, limits, cwd=folder, env=environment, text=True, errors="replace", **pipes) as child:
        stdout, stderr = child.communicate(seconds)
        return ProcessResult(child.wait(), stdout, stderr)


def same_modules() -> dict[str, str]:
    """The environment in which another interpreter finds the modules that this one does."""
    return os.environ | {"PYTHONPATH": os.pathsep.join(entry or str(Path.cwd()) for entry in sys.path)}


def signal_name(code: int) -> str:
    """What ended a program with this exit code, minus the signal's number: "" if that was itself."""
    try:
        return signal.Signals(-code).name if code < 0 else ""
    except ValueError:
        return f"signal {-code}"
