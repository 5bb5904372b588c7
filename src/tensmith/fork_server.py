"""A fork server: modules of tensmith in processes of their own, without the time that Python takes to start.

A server process imports once what a module needs, and forks a child for each `python -m MODULE ARGUMENTS`,
with the folder, environment, limits and streams of whoever asks. That one hears how the child ended; when it
hangs up or is gone, the child is killed. A child holds what the module and the packages named beside it
import, and nothing else: there is a server for each set of these. What a module's `warm` finds out is found
out once for all children. Where no server answers (other systems than Linux, or a package that ends it), the
module is started as a program.
"""

from __future__ import annotations

import atexit
import contextlib
import ctypes
import functools
import gc
import importlib
import json
import math
import os
import resource
import select
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import traceback
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import IO, Any, NoReturn

from tensmith.children import Child, Ending, Limits, ProcessResult, run, same_modules

_SET_PARENT_DEATH_SIGNAL = 1  # linux/prctl.h
_LONGEST_REQUEST = 1 << 20
# Seconds for importing and forking; without anything to do before a server ends.
_PATIENCE, _IDLE = 120.0, 600.0
# What a child has from whoever asks for it.
_LIMITS = (resource.RLIMIT_DATA, resource.RLIMIT_FSIZE, resource.RLIMIT_AS)


class ForkedChild(Ending):
    """As children.Child, of a fork server that says on `line` how it ended."""

    def __init__(self, line: socket.socket, pid: int, pipes: Sequence[IO[bytes] | None]) -> None:
        self.pid = pid
        self.stdin, self.stdout, self.stderr = pipes
        self.returncode: int | None = None
        self._line = line

    def wait(self, timeout: float | None = None) -> int:
        """Its exit code when it ends, minus the signal's number if a signal ended it.

        subprocess.TimeoutExpired after so many seconds.
        """
        if self.returncode is None:
            self._line.settimeout(timeout)
            try:
                told = self._line.recv(64)
            except TimeoutError as error:
                raise subprocess.TimeoutExpired("a forked module", timeout or 0) from error
            except OSError:
                told = b""
            self.returncode = int(told) if told else -signal.SIGKILL  # with its server
        return self.returncode

    def kill(self) -> None:
        """Has all of its group ended at once."""
        with contextlib.suppress(OSError):
            self._line.shutdown(socket.SHUT_WR)

    def end(self) -> int:
        """Ends it, whatever it is doing, and closes its pipes; the exit code."""
        self.kill()
        code = self.wait()
        self._line.close()
        for stream in filter(None, (self.stdin, self.stdout, self.stderr)):
            with contextlib.suppress(BrokenPipeError):
                stream.close()
        return code


class ForkServer:
    """A server of `module` and `packages`, started when it is first asked.

    Threads and forked copies of this process may share it.
    """

    def __init__(self, module: str, packages: Sequence[str]) -> None:
        self.module, self.packages = module, packages
        self._starting = threading.Lock()
        self._line: socket.socket | None = None
        self._process: Child | None = None
        self._broken = sys.platform != "linux"

    def child(self, arguments: Sequence[str], limits: Limits, streams: Sequence[Any]) -> ForkedChild | None:
        """A child that runs the module's `main`, its three streams as subprocess.Popen has them.

        None where no server answers.
        """
        request = {
            "arguments": list(arguments),
            "folder": str(Path.cwd()),
            "environment": same_modules(),
            "limits": {kind: resource.getrlimit(kind)[0] for kind in _LIMITS} | _resources(limits),
        }
        for _ in range(0 if self._broken else 2):  # one that had nothing to do for long has ended
            mine, yours = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
            with contextlib.ExitStack() as theirs:
                theirs.callback(yours.close)
                ends = [_ends(wanted, theirs, written=not place) for place, wanted in enumerate(streams)]
                handed = [yours.fileno(), *(end for _, end in ends)]
                line, sent = self._sent(json.dumps(request).encode(), handed)
            mine.settimeout(_PATIENCE)
            with contextlib.suppress(OSError):
                told = mine.recv(64) if sent else b""
                if told:
                    return ForkedChild(mine, int(told), [pipe for pipe, _ in ends])
            mine.close()
            for pipe, _ in ends:
                if pipe is not None:
                    pipe.close()
            self._end(line)
        self._broken = True
        return None

    def start(self) -> None:
        """Starts it before anybody asks; forked copies of this process then share it."""
        self._started()

    def end(self) -> None:
        """Ends the server, and with it all of its children; the next request starts another one."""
        self._end(self._line)

    def _end(self, line: socket.socket | None) -> None:
        """Ends the server on a line, unless another thread has: there may be another one by now."""
        with self._starting:
            if line is None or line is not self._line:
                return
            process, self._line, self._process = self._process, None, None
        line.close()
        if process is not None:
            process.end()

    def _sent(self, request: bytes, handed: Sequence[int]) -> tuple[socket.socket | None, bool]:
        """The line to the server, if it could be started, and whether it took the request."""
        line = None
        with contextlib.suppress(OSError):
            line = self._started()
            socket.send_fds(line, [request], handed)
            return line, True
        return line, False

    def _started(self) -> socket.socket:
        with self._starting:
            if self._line is None:
                mine, yours = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
                with yours:
                    self._process = Child(
                        _program(__name__, (self.module, *self.packages)),
                        stdin=yours,
                        stdout=subprocess.DEVNULL,
                        stderr=subprocess.DEVNULL,
                        env=same_modules(),
                    )
                self._line = mine
            return self._line


@functools.cache
def fork_server(module: str, packages: tuple[str, ...]) -> ForkServer:
    """The server of a module and the packages beside it."""
    return ForkServer(module, packages)


def start_module(
    module: str,
    arguments: Sequence[str] = (),
    packages: tuple[str, ...] = (),
    *,
    stdin: Any,
    stdout: Any,
    stderr: Any,
    fresh: bool = False,
) -> ForkedChild | Child:
    """`python -m MODULE ARGUMENTS`, running, its streams as subprocess.Popen has them.

    packages: what else may be imported before it begins. fresh: as a program in any case, for who measures
    memory: what a forked child has of libraries counts as resident only when it is touched.
    """
    server = None if fresh else fork_server(module, packages)
    forked = server and server.child(arguments, Limits(), (stdin, stdout, stderr))
    if forked:
        return forked
    return Child(_program(module, arguments), stdin=stdin, stdout=stdout, stderr=stderr, env=same_modules())


def run_module(
    module: str, arguments: Sequence[str], packages: tuple[str, ...], seconds: float, limits: Limits
) -> ProcessResult:
    """As children.run, of `python -m MODULE ARGUMENTS`; packages as `start_module` has them."""
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as complaints:
        forked = fork_server(module, packages).child(arguments, limits, (subprocess.DEVNULL, out, complaints))
        if forked is None:
            return run(_program(module, arguments), seconds, limits, environment=same_modules())
        with forked:
            code = forked.wait(seconds)
        for file in (out, complaints):
            file.seek(0)
        return ProcessResult(code, *(file.read().decode(errors="replace") for file in (out, complaints)))


def _program(module: str, arguments: Sequence[str]) -> list[str]:
    """The command of a module as a program."""
    return [sys.executable, "-P", "-m", module, *arguments]


def _resources(limits: Limits) -> dict[int, int]:
    """Limits of a child as setrlimit takes them."""
    found = {resource.RLIMIT_CPU: limits.seconds, resource.RLIMIT_AS: limits.memory}
    return {kind: math.ceil(most) for kind, most in found.items() if most is not None}


def _ends(wanted: Any, theirs: contextlib.ExitStack, written: bool) -> tuple[IO[bytes] | None, int]:
    """Our end of a pipe, if that is wanted, and the descriptor of the child, which `theirs` closes."""
    if wanted == subprocess.PIPE:
        reading, writing = os.pipe()
        theirs.callback(os.close, reading if written else writing)
        return (os.fdopen(writing, "wb"), reading) if written else (os.fdopen(reading, "rb"), writing)
    if wanted == subprocess.DEVNULL:
        nothing = os.open(os.devnull, os.O_RDWR)
        theirs.callback(os.close, nothing)
        return None, nothing
    return None, wanted.fileno()


def _serve(line: socket.socket, module: str) -> None:
    """Forks as long as somebody may ask, tells how children ended, and ends them when who asked hangs up."""
    libc, server = ctypes.CDLL(None), os.getpid()
    born: dict[int, tuple[int, socket.socket]] = {}  # by the descriptor of the process
    ended: set[int] = set()  # those that are told to
    while True:
        asking = {asker.fileno(): number for number, (_, asker) in born.items() if number not in ended}
        waiting = [line.fileno(), *born, *asking]
        ready = set(select.select(waiting, [], [], None if born else _IDLE)[0])
        if not ready:
            return
        for number in [asking[asker] for asker in ready & asking.keys()]:
            ended.add(number)
            for end in (os.killpg, os.kill):  # it may have no group yet
                with contextlib.suppress(ProcessLookupError):
                    end(born[number][0], signal.SIGKILL)
        for number in ready & born.keys():
            child, asker = born.pop(number)
            ended.discard(number)
            os.close(number)
            with asker, contextlib.suppress(OSError):
                asker.send(str(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])).encode())
        if line.fileno() not in ready:
            continue
        text, handed, _, _ = socket.recv_fds(line, _LONGEST_REQUEST, 4)
        if not text:
            return
        child = os.fork()
        if child == 0:
            libc.prctl(_SET_PARENT_DEATH_SIGNAL, signal.SIGKILL)
            if os.getppid() == server:
                for each in (line, *(asker for _, asker in born.values())):
                    each.close()
                for descriptor in (handed[0], *born):
                    os.close(descriptor)
                request = json.loads(text)
                sys.argv = [module, *request["arguments"]]
                run_as_child(importlib.import_module(module).main, request, handed[1:])
            os._exit(1)
        for stream in handed[1:]:
            os.close(stream)
        asker = socket.socket(fileno=handed[0])
        born[os.pidfd_open(child)] = child, asker
        with contextlib.suppress(OSError):
            asker.send(str(child).encode())


def run_as_child(
    command: Callable[[], object], request: Mapping[str, Any], streams: Sequence[int]
) -> NoReturn:
    """Ends this forked process as a program that ends with what `command` returns.

    It has a group of its own, and the "folder", "environment" and "limits" that are requested. What libraries
    do at the end is left out: they wait for threads of the server, which a child does not have.
    """
    code: object = 1
    try:
        os.setsid()
        for place, stream in enumerate(streams):
            os.dup2(stream, place)
        os.chdir(request["folder"])
        os.environ.clear()
        os.environ.update(request["environment"])
        named = os.environ.get("PYTHONPATH", "").split(os.pathsep)
        sys.path[:0] = [entry for entry in named if entry and entry not in sys.path]
        for kind, most in {resource.RLIMIT_CORE: 0, **request["limits"]}.items():
            with contextlib.suppress(ValueError):  # it has less already
                resource.setrlimit(int(kind), (most, resource.getrlimit(int(kind))[1]))
        code = command()
    except SystemExit as ended:
        code = ended.code
    except BaseException:
        traceback.print_exc()
    finally:
        atexit._run_exitfuncs()
        gc.collect()  # closes what was left open
        for written in (sys.stdout, sys.stderr):
            with contextlib.suppress(Exception):
                written.flush()
        os._exit(code if isinstance(code, int) else int(code is not None))


def main(module: str, *packages: str) -> None:
    """Serves children of a module on the socket that is standard input."""
    line = socket.socket(fileno=os.dup(0))
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    for name in (module, *packages):
        with contextlib.suppress(Exception):  # who needs it says what is wrong with it
            importlib.import_module(name)
    with contextlib.suppress(Exception):
        importlib.import_module(module).warm(*packages)
    gc.freeze()  # a collection in a child would copy every page
    _serve(line, module)


if __name__ == "__main__":
    main(*sys.argv[1:])
