"""What a fork server forks is as `python -m` would be: its streams, surroundings, ending, and end."""

from __future__ import annotations

import json
import os
import resource
import signal
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tensmith.children import Child, Limits
from tensmith.engine import compile
from tensmith.fork_server import ForkedChild, fork_server, run_module, start_module

MODULE = """
import json, os, resource, signal, sys, time
import numpy
imported_by, warmed_by = os.getpid(), None
def warm(*packages):
    global warmed_by
    warmed_by = os.getpid(), *packages
def main():
    words = sys.argv[1:]
    if words[0] == "tell":
        told = [sys.stdin.read(), words, os.getcwd(), os.environ.get("TOLD"), imported_by == os.getpid()]
        told += [os.getpid() == os.getpgrp(), resource.getrlimit(resource.RLIMIT_FSIZE)[0]]
        told += ["onnxruntime" in sys.modules, warmed_by == (imported_by, "onnxruntime")]
        print(json.dumps(told))
        print("a complaint", file=sys.stderr)
    elif words[0] == "raise":
        raise ValueError("what it was")
    elif words[0] == "exit":
        sys.exit(int(words[1]))
    elif words[0] == "die":
        os.kill(os.getpid(), signal.SIGSEGV)
    else:
        print(os.getpid(), flush=True)
        time.sleep(600)
if __name__ == "__main__":
    sys.exit(main())
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with MODULE in it, which is found as `told`."""
    (tmp_path / "told.py").write_text(MODULE)
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    monkeypatch.setenv("TOLD", "yes")
    fork_server.cache_clear()
    return tmp_path


def start(*words: str, packages: tuple[str, ...] = ()) -> ForkedChild:
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    child = start_module("told", words, packages, **pipes)
    assert isinstance(child, ForkedChild)
    return child


def runs(process_id: int) -> bool:
    """Whether there is such a process, and it has not ended."""
    try:
        return Path(f"/proc/{process_id}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def ends(process_id: int) -> bool:
    """Whether a process is gone within a minute."""
    deadline = time.monotonic() + 60
    while runs(process_id) and time.monotonic() < deadline:
        time.sleep(0.01)
    return not runs(process_id)


def test_streams_and_surroundings_are_those_of_who_asks(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(folder)
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 30, before[1]))
    try:
        child = start("tell", "a word", packages=("onnxruntime",))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert child.stdin is not None and child.stdout is not None and child.stderr is not None
    child.stdin.write(b"given")
    child.stdin.close()
    told = json.loads(child.stdout.read())
    assert told == ["given", ["tell", "a word"], str(folder), "yes", False, True, 1 << 30, True, True]
    assert child.stderr.read() == b"a complaint\n"
    assert child.wait() == 0 == child.end()


@pytest.mark.parametrize(
    ("words", "code"), [(("raise",), 1), (("exit", "3"), 3), (("die",), -signal.SIGSEGV)], ids=str
)
def test_how_it_ended_is_told(folder: Path, words: tuple[str, ...], code: int) -> None:
    with start(*words) as child:
        assert child.wait() == code == child.returncode
        assert child.stderr is not None
        assert (b"ValueError: what it was" in child.stderr.read()) == (words == ("raise",))


def test_it_is_ended_when_told_to(folder: Path) -> None:
    with start("sleep") as child:
        assert child.stdout is not None and int(child.stdout.readline()) == child.pid
        with pytest.raises(subprocess.TimeoutExpired):
            child.wait(0.01)
        assert runs(child.pid)
    assert child.returncode == -signal.SIGKILL and not runs(child.pid)


def test_it_does_not_outlive_who_asked(folder: Path) -> None:
    asking = os.fork()
    if asking == 0:
        child = start("sleep")
        assert child.stdout is not None
        child.stdout.readline()
        (folder / "id").write_text(str(child.pid))
        os.kill(os.getpid(), signal.SIGKILL)
    os.waitpid(asking, 0)
    left = int((folder / "id").read_text())
    assert ends(left)


def test_it_does_not_outlive_its_server(folder: Path) -> None:
    with start("sleep") as child:
        assert child.stdout is not None
        child.stdout.readline()
        fork_server("told", ()).end()
        assert child.wait(60) == -signal.SIGKILL and ends(child.pid)
    with start("exit", "4") as child:  # another server is started
        assert child.wait(60) == 4


def test_a_run_gives_what_was_printed_within_its_limits(folder: Path) -> None:
    done = run_module("told", ("tell",), (), 60.0, Limits())
    assert done.code == 0 and json.loads(done.stdout)[0] == "" and done.stderr == "a complaint\n"
    with pytest.raises(subprocess.TimeoutExpired):
        run_module("told", ("sleep",), (), 0.2, Limits())
    assert run_module("told", ("raise",), (), 60.0, Limits(memory=1 << 20)).code == 1


def test_a_package_that_ends_the_server_is_left_to_the_module(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (folder / "deadly.py").write_text("import os\nos.abort()\n")
    pipes = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.DEVNULL}
    with start_module("told", ("tell",), ("deadly",), **pipes) as child:
        assert isinstance(child, Child) and child.stdout is not None
        assert json.loads(child.stdout.read())[1] == ["tell"]
    (folder / "broken.py").write_text("import no_such_module\n")
    with start_module("told", ("exit", "5"), ("broken",), **pipes) as child:
        assert isinstance(child, ForkedChild) and child.wait() == 5


def test_threads_share_a_server(folder: Path) -> None:
    with ThreadPoolExecutor(8) as pool:
        codes = list(
            pool.map(lambda n: run_module("told", ("exit", str(n)), (), 60.0, Limits()).code, range(40))
        )
    assert codes == list(range(40))


def test_threads_whose_server_dies_share_the_next_one(folder: Path) -> None:
    server = fork_server("told", ())
    with start("exit", "1") as child:
        child.wait(60)
    assert server._process is not None
    dying = server._process.pid
    os.killpg(dying, signal.SIGSTOP)
    threading.Timer(0.5, os.killpg, (dying, signal.SIGKILL)).start()
    with ThreadPoolExecutor(6) as pool:
        children = list(pool.map(lambda _: start("sleep"), range(6)))
    assert all(child.stdout and int(child.stdout.readline()) == child.pid for child in children)
    for child in children:
        child.end()


def test_a_fresh_module_is_a_program(folder: Path) -> None:
    pipes = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.DEVNULL}
    with start_module("told", ("tell",), ("onnxruntime",), fresh=True, **pipes) as child:
        assert isinstance(child, Child) and child.stdout is not None
        told = json.loads(child.stdout.read())
        assert told[4] and not any(told[-2:]), "imported by itself, and nothing else"


def test_what_compiles_can_be_warmed() -> None:
    """The server forgives one that cannot."""
    compile.warm()
