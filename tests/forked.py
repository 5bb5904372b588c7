"""Commands as users give them, without the seconds that Python takes to start.

A server process imports tensmith once and forks a child for each command: limited in time and memory, in a
session of its own, what it prints and leaves behind told apart. What the child started and did not end (an
orphan) comes to the server, which is its subreaper, and is counted. Engines' workers and what compiles models
come from fork servers that all commands share.
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
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any

from short_turns import take_short_turns
from tensmith.engine.base import ENGINES, CompilingEngine, PackageEngine, available
from tensmith.fork_server import fork_server, run_as_child

_SET_CHILD_SUBREAPER = 36  # linux/prctl.h
_ORPHAN_GRACE_S = 6.0
MEMORY_BYTES = 4 << 30
# Children of the server that no command has left behind.
_NOT_LEFT: list[int] = []


@dataclass(frozen=True)
class Outcome:
    """How a command ended. `code` is negative for a signal, None where it was stopped for its time."""

    code: int | None
    stdout: str
    stderr: str
    orphans: int
    seconds: float

    @property
    def sound(self) -> bool:
        """Whether it worked, or was refused in one sentence."""
        return self.fault is None

    @property
    def fault(self) -> str | None:
        """What no command may do; None where it did nothing of it."""
        complaint = self.stderr.strip()
        if self.code is None:
            return f"no end after {self.seconds:.0f} s"
        if self.code < 0:
            return f"died of {signal.Signals(-self.code).name}: {complaint[-300:]}"
        if self.orphans:
            return f"left {self.orphans} processes behind"
        for sign in ("Traceback", "tensmith failed", "<frozen", 'File "'):
            if sign in complaint or sign in self.stdout:
                return f"not a sentence: {(complaint or self.stdout)[-500:]}"
        if self.code and (len(complaint.splitlines()) != 1 or not complaint.startswith("error: ")):
            return f"exit code {self.code} without one sentence: {complaint[-500:]}"
        return None


class Commands:
    """A server; calling it runs one command. Use as a context."""

    def __init__(self) -> None:
        self._one_at_a_time = threading.Lock()

    def __enter__(self) -> Commands:
        self._server = subprocess.Popen(
            [sys.executable, str(Path(__file__).resolve())],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._server.stdin is not None
        self._server.stdin.close()
        self._server.wait()

    def __call__(
        self, *arguments: str | Path, folder: Path, seconds: float = 60.0, file_limit: int | None = None,
        memory: int | None = MEMORY_BYTES, environment: Mapping[str, str] | None = None,
    ) -> Outcome:  # fmt: skip
        """`tensmith ARGUMENTS` in `folder`; `load` is tensmith.load and one answer, `python` is Python.

        file_limit: the largest file in bytes it may write; memory: the most bytes it may have, None for any;
        environment: instead of this process's.
        """
        assert self._server.stdin is not None
        limits = {resource.RLIMIT_DATA: memory, resource.RLIMIT_FSIZE: file_limit}
        request = {
            "arguments": [str(a) for a in arguments], "folder": str(folder), "seconds": seconds,
            "limits": {kind: most for kind, most in limits.items() if most is not None},
            "environment": dict(os.environ if environment is None else environment),
        }  # fmt: skip
        with self._one_at_a_time:
            print(json.dumps(request), file=self._server.stdin, flush=True)
            return Outcome(**json.loads(self._line()))

    def _line(self) -> str:
        """What the server says next."""
        assert self._server.stdout is not None
        return self._server.stdout.readline()


def _serve() -> None:
    """Answers requests until stdin closes."""
    ctypes.CDLL(None).prctl(_SET_CHILD_SUBREAPER, 1)
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    _import_all()
    take_short_turns()
    before = set(_children())
    _start_fork_servers()
    _NOT_LEFT.extend(set(_children()) - before)
    for request in sys.stdin:
        print(json.dumps(_answer(json.loads(request))), file=answers, flush=True)


def _import_all() -> None:
    """All that commands import and find out about this machine, so that no child does it again."""
    import importlib.util

    for name in ("numpy.random", "numpy.ma", "jsonschema", "onnx", "onnxruntime", "rich.table"):
        importlib.import_module(name)
    for name in ("backend.native.plan", "backend.native.emit.folder", "backend.mixed.folder", "preview"):
        importlib.import_module(f"tensmith.{name}")
    for name in ("compression", "diagnosis", "superoptimize.alone", "verify.difference", "lifting.recheck"):
        importlib.import_module(f"tensmith.{name}")
    from tensmith.cli import _COMMANDS

    for command in _COMMANDS:
        importlib.import_module(f"tensmith.cli.{command}")
    for name in ("evaluate.bench", "explain", "deploy.model", "cli", "verify.folder", "report.text"):
        importlib.import_module(f"tensmith.{name}")
    for name in ("source.c.read", "summarize.loop", "conditions.certify", "second.judge"):
        importlib.import_module(f"tensmith.lifting.{name}")
    for name in ("rich.progress", "pydantic.type_adapter", "typer._adapters", "tensmith.cli.sizes"):
        importlib.import_module(name)
    from tensmith.backend.packed.codec import CODECS
    from tensmith.data.opening import READERS
    from tensmith.engine import ENGINES
    from tensmith.engine.compiled import code_revision
    from tensmith.hardware.host import detect_host
    from tensmith.kernel.algorithm import ALGORITHMS
    from tensmith.kernel.isa import host_isa
    from tensmith.kernel.toolchain import find_compiler, has_compiler
    from tensmith.lifting.emit import EMITTERS
    from tensmith.rewrite.method import LOSSY
    from tensmith.rewrite.proved import rule_digest
    from tensmith.rewrite.rule import EXACT
    from tensmith.search.strategy import STRATEGIES

    for names in (ENGINES, ALGORITHMS, EXACT, LOSSY, STRATEGIES, READERS, CODECS, EMITTERS):
        list(names)
    if importlib.util.find_spec("highspy"):
        importlib.import_module("highspy")
    for rule, home in EXACT.homes.items():
        rule_digest(rule, home)
    code_revision()
    detect_host()
    if has_compiler():
        find_compiler()
        host_isa()
    gc.freeze()  # a collection in a child would copy every page


def _start_fork_servers() -> None:
    """Of all that engines are started with by themselves."""
    for engine in (ENGINES[name] for name in available()):
        module = type(engine).__module__
        beside = (engine.module,) if isinstance(engine, PackageEngine) else ()
        fork_server("tensmith.engine.serve", (module, *beside)).start()
        if isinstance(engine, CompilingEngine):
            fork_server("tensmith.engine.compile", (module,)).start()


def _answer(request: dict[str, Any]) -> dict[str, Any]:
    start = time.monotonic()
    with tempfile.TemporaryFile("w+b") as out, tempfile.TemporaryFile("w+b") as err:
        child = os.fork()
        if child == 0:
            streams = [os.open(os.devnull, os.O_RDONLY), out.fileno(), err.fileno()]
            run_as_child(lambda: _command(request["arguments"]), request, streams)
        code = _ended(child, request["seconds"])
        seconds = time.monotonic() - start
        texts = []
        for file in (out, err):
            file.seek(0)
            texts.append(file.read(1 << 20).decode(errors="replace"))
    return {
        "code": code, "stdout": texts[0], "stderr": texts[1], "orphans": _end_orphans(), "seconds": seconds
    }  # fmt: skip


def _ended(child: int, seconds: float) -> int | None:
    """The exit code of a child; it is killed, and None returned, after `seconds`."""
    descriptor = os.pidfd_open(child)
    try:
        in_time = bool(select.select([descriptor], [], [], seconds)[0])
    finally:
        os.close(descriptor)
    if not in_time:
        os.kill(child, signal.SIGKILL)
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    return code if in_time else None


def _end_orphans() -> int:
    """How many processes outlive the command for longer than workers need to notice; they are ended."""
    deadline = time.monotonic() + _ORPHAN_GRACE_S
    while (left := _children()) and time.monotonic() < deadline:
        time.sleep(0.02)
    for child in left:
        with contextlib.suppress(ProcessLookupError):
            os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
    return len(left)


def _children() -> list[int]:
    """Children that still run; those that ended are taken off."""
    with contextlib.suppress(ChildProcessError):
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass
    listed = Path(f"/proc/self/task/{os.getpid()}/children").read_text()
    return [child for child in map(int, listed.split()) if child not in _NOT_LEFT]


def _command(arguments: list[str]) -> int:
    if arguments[0] == "python":
        return _python(*arguments[1:])
    if arguments[0] != "load":
        from tensmith.cli import main

        sys.argv = ["tensmith", *arguments]
        main()
        return 0
    from tensmith import load
    from tensmith.errors import TensmithError
    from tensmith.evaluate.bench import random_inputs

    try:
        model = load(arguments[1])
        model(dict(random_inputs(model.session.inputs)))
    except TensmithError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    return 0


def _python(*words: str) -> int:
    """`python FILE` or `python -m MODULE WORDS`."""
    if words[0] == "-m":
        sys.argv, sys.path[0] = list(words[1:]), ""
        runpy.run_module(words[1], run_name="__main__", alter_sys=True)
    else:
        sys.argv, sys.path[0] = list(words), str(Path(words[0]).parent)
        runpy.run_path(words[0], run_name="__main__")
    return 0


if __name__ == "__main__":
    _serve()
