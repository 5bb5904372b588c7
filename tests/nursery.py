"""Processes of tensmith's own modules without the seconds that Python takes to start and import.

A nursery is a process that has imported tensmith. It forks a child for each `python -m MODULE ARGUMENTS` that
it is asked for through a socket, in a group of its own, with the folder, environment, limits and streams of
whoever asks; that one hears how it ended, and it is killed when that one is gone, as by `tensmith.children`.
"""

from __future__ import annotations

import contextlib
import ctypes
import gc
import json
import os
import resource
import runpy
import select
import signal
import socket
import subprocess
import sys
import tempfile
import traceback
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, NoReturn

from tensmith.children import Child, Ending, Limits, ProcessResult

_SET_PARENT_DEATH_SIGNAL = 1  # linux/prctl.h
_LONGEST_REQUEST = 1 << 20
# What a child has from whoever asks for it: bytes of data and of a file.
_LIMITS = (resource.RLIMIT_DATA, resource.RLIMIT_FSIZE)


class Forked(Ending):
    """As children.Child, from the nursery at `address`: `command` is [PYTHON, "-P"?, "-m", MODULE, ...]."""

    def __init__(
        self, address: bytes, command: Sequence[str], *, stdin: Any, stdout: Any, stderr: Any,
        env: Mapping[str, str] | None = None, cwd: str | Path | None = None,
    ) -> None:  # fmt: skip
        self._code: int | None = None
        request = {
            "arguments": command[command.index("-m") + 1 :],
            "folder": str(cwd or Path.cwd()),
            "environment": dict(os.environ if env is None else env),
            "limits": {kind: resource.getrlimit(kind)[0] for kind in _LIMITS},
        }
        self._line = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with contextlib.ExitStack() as theirs:
            self.stdin, reading = _stream(stdin, theirs, written=True)
            self.stdout, writing = _stream(stdout, theirs)
            self.stderr, complaining = _stream(stderr, theirs)
            self._line.connect(address)
            streams = [reading, writing, complaining]
            socket.send_fds(self._line, [json.dumps(request).encode()], streams)
            self.pid = int(self._line.recv(64))

    @property
    def returncode(self) -> int | None:
        """Its exit code once `wait` has returned."""
        return self._code

    def wait(self, timeout: float | None = None) -> int:
        """Its exit code when it ends, minus the signal's number if a signal ended it."""
        if self._code is None:
            self._line.settimeout(timeout)
            try:
                self._code = int(self._line.recv(64))
            except TimeoutError as error:
                raise subprocess.TimeoutExpired("a forked module", timeout or 0) from error
        return self._code

    def kill(self) -> None:
        """Has all of its group ended at once."""
        with contextlib.suppress(OSError):
            self._line.shutdown(socket.SHUT_WR)

    def end(self) -> int:
        """Ends it, whatever it is doing, and closes its pipes; the exit code."""
        self.kill()
        code = self.wait()
        self._line.close()
        for stream in (self.stdin, self.stdout, self.stderr):
            if stream is not None:
                with contextlib.suppress(BrokenPipeError):
                    stream.close()
        return code


def _stream(wanted: Any, theirs: contextlib.ExitStack, written: bool = False) -> tuple[IO[bytes] | None, int]:
    """Our end of a pipe, if that is wanted, and the descriptor of the child, which `theirs` closes."""
    if wanted == subprocess.PIPE:
        reading, writing = os.pipe()
        theirs.callback(os.close, reading if written else writing)
        if written:
            return os.fdopen(writing, "wb"), reading
        return os.fdopen(reading, "rb"), writing
    if wanted == subprocess.DEVNULL:
        nothing = os.open(os.devnull, os.O_RDWR)
        theirs.callback(os.close, nothing)
        return None, nothing
    return None, int(wanted.fileno())


@dataclass(frozen=True)
class Nursery:
    """The nursery that listens at `address`."""

    address: bytes

    def child(self, command: Sequence[str], **how: Any) -> Forked | Child:
        """As children.Child; another program than a module of tensmith's is started as ever."""
        if not _is_ours(command):
            return Child(command, **how)
        return Forked(self.address, command, **how)

    def run(
        self, command: Sequence[str], seconds: float, _: Limits, environment: Mapping[str, str] | None = None
    ) -> ProcessResult:
        """As children.run of a module of tensmith's, without limits but that of `seconds`."""
        with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as complaints:
            streams = {"stdin": subprocess.DEVNULL, "stdout": out, "stderr": complaints}
            with Forked(self.address, command, **streams, env=environment) as child:
                code = child.wait(seconds)
            for file in (out, complaints):
                file.seek(0)
            return ProcessResult(code, *(file.read().decode(errors="replace") for file in (out, complaints)))


def adopt(nursery: Callable[[], Nursery]) -> None:
    """From now on this process has engines' workers, timers and what compiles models from a nursery."""
    from tensmith.engine import compiled, module_worker, worker

    child = lambda *command, **how: nursery().child(*command, **how)  # noqa: E731
    worker.Child = module_worker.Child = child  # type: ignore[assignment,misc]
    compiled.run = lambda *command, **how: nursery().run(*command, **how)  # type: ignore[assignment]


def _is_ours(command: Sequence[str]) -> bool:
    """Whether it is `python [-P] -m tensmith...`."""
    words = [word for word in command[1:4] if word != "-P"]
    return command[0] == sys.executable and words[0] == "-m" and words[1].startswith("tensmith.")


def listening() -> socket.socket:
    """A socket at an address of its own, which no file holds."""
    line = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    line.bind("")
    line.listen(64)
    return line


def open_nursery(line: socket.socket) -> int:
    """Forks this process into a nursery that listens on `line` while this one lives; its process id."""
    parent = os.getpid()
    nursery = os.fork()
    if nursery == 0:
        try:
            ctypes.CDLL(None).prctl(_SET_PARENT_DEATH_SIGNAL, signal.SIGKILL)
            if os.getppid() == parent:
                os.setsid()
                _serve(line)
        finally:
            os._exit(1)
    return nursery


def _serve(line: socket.socket) -> None:
    """Forks what is asked for, tells who asked how it ended, and ends it when they hang up."""
    asking: list[socket.socket] = []
    born: dict[int, tuple[int, socket.socket]] = {}  # by the descriptor of the process
    while True:
        hung_up = [asker for _, asker in born.values()]
        ready = select.select([line, *asking, *born, *hung_up], [], [])[0]
        for descriptor in [each for each in ready if each in born]:
            child, asker = born.pop(descriptor)
            code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
            os.close(descriptor)
            with contextlib.suppress(OSError):
                asker.send(str(code).encode())
            asker.close()
        for child, asker in born.values():
            if asker in ready:
                for end in (os.killpg, os.kill):  # it may have no group yet
                    with contextlib.suppress(ProcessLookupError):
                        end(child, signal.SIGKILL)
        for asker in [each for each in asking if each in ready]:
            asking.remove(asker)
            text, streams, _, _ = socket.recv_fds(asker, _LONGEST_REQUEST, 3)
            if text:
                child = _forked(json.loads(text), streams)
                born[os.pidfd_open(child)] = child, asker
                with contextlib.suppress(OSError):
                    asker.send(str(child).encode())
        if line in ready:
            asking.append(line.accept()[0])


def _forked(request: dict[str, Any], streams: list[int]) -> int:
    """The process id of a child that runs what is asked for; `streams` are its own from now on."""
    child = os.fork()
    if child == 0:
        run_as_child(lambda: _module(request), request, streams)
    for stream in streams:
        os.close(stream)
    return child


def _module(request: dict[str, Any]) -> int:
    """Runs a module as `python -m` does."""
    named = request["environment"].get("PYTHONPATH", "").split(os.pathsep)
    sys.path[:0] = filter(None, named)
    sys.argv = request["arguments"]
    runpy.run_module(sys.argv[0], run_name="__main__", alter_sys=True)
    return 0


def run_as_child(command: Callable[[], int], request: Mapping[str, Any], streams: Sequence[int]) -> NoReturn:
    """Ends this forked process with what `command` returns, in a group, folder and environment of its own."""
    code = 70
    try:
        os.setsid()
        for number, stream in enumerate(streams):
            os.dup2(stream, number)
        os.chdir(request["folder"])
        os.environ.clear()
        os.environ.update(request["environment"])
        for kind, limit in request["limits"].items():
            if limit is not None:
                resource.setrlimit(int(kind), (limit, limit))
        code = command()
    except SystemExit as ended:
        code = ended.code if isinstance(ended.code, int) else int(ended.code is not None)
    except BaseException:
        traceback.print_exc()
        code = 1
    finally:
        gc.collect()  # closes what the command left open, as the end of a process does
        for stream in (sys.stdout, sys.stderr):
            with contextlib.suppress(Exception):
                stream.flush()
        os._exit(code)
