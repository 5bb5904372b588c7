"""What comes from the nursery is as `python -m` would be: its streams, surroundings, ending, and end."""

from __future__ import annotations

import json
import os
import resource
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path

import pytest

from command_line import commands
from nursery import Forked
from tensmith.children import Limits, same_modules

MODULE = """
import json, os, resource, signal, sys, time
import numpy
words = sys.argv[1:]
if words[0] == "tell":
    told = [sys.stdin.read(), words, os.getcwd(), os.environ.get("TOLD"), __name__]
    told += [os.getpid() == os.getpgrp(), resource.getrlimit(resource.RLIMIT_FSIZE)[0]]
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
"""


@pytest.fixture
def surroundings(tmp_path: Path) -> Mapping[str, str]:
    """An environment in which `python -m told` runs MODULE."""
    (tmp_path / "told.py").write_text(MODULE)
    found = same_modules()
    return found | {"PYTHONPATH": f"{tmp_path}{os.pathsep}{found['PYTHONPATH']}", "TOLD": "yes"}


def start(surroundings: Mapping[str, str], *words: str, cwd: Path | None = None) -> Forked:
    command = [sys.executable, "-P", "-m", "told", *words]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    return Forked(commands().nursery.address, command, env=surroundings, cwd=cwd, **pipes)


def runs(process_id: int) -> bool:
    """Whether there is such a process, and it has not ended."""
    try:
        return Path(f"/proc/{process_id}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def test_streams_and_surroundings_are_those_of_who_asks(
    surroundings: Mapping[str, str], tmp_path: Path
) -> None:
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 30, before[1]))
    try:
        child = start(surroundings, "tell", "a word", cwd=tmp_path)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert child.stdin is not None and child.stdout is not None and child.stderr is not None
    child.stdin.write(b"given")
    child.stdin.close()
    told = json.loads(child.stdout.read())
    assert told == ["given", ["tell", "a word"], str(tmp_path), "yes", "__main__", True, 1 << 30]
    assert child.stderr.read() == b"a complaint\n"
    assert child.wait() == 0 == child.end()


@pytest.mark.parametrize(
    ("words", "code"), [(("raise",), 1), (("exit", "3"), 3), (("die",), -signal.SIGSEGV)], ids=str
)
def test_how_it_ended_is_told(surroundings: Mapping[str, str], words: tuple[str, ...], code: int) -> None:
    with start(surroundings, *words) as child:
        assert child.wait() == code == child.returncode
        assert child.stderr is not None
        assert (b"ValueError: what it was" in child.stderr.read()) == (words == ("raise",))


def test_it_is_ended_when_told_to(surroundings: Mapping[str, str]) -> None:
    with start(surroundings, "sleep") as child:
        assert child.stdout is not None and int(child.stdout.readline()) == child.pid
        with pytest.raises(subprocess.TimeoutExpired):
            child.wait(0.01)
        assert runs(child.pid)
    assert child.returncode == -signal.SIGKILL and not runs(child.pid)


def test_it_does_not_outlive_who_asked(surroundings: Mapping[str, str]) -> None:
    asking = os.fork()
    if asking == 0:
        child = start(surroundings, "sleep")
        assert child.stdout is not None
        child.stdout.readline()
        Path(surroundings["PYTHONPATH"].partition(os.pathsep)[0], "id").write_text(str(child.pid))
        os.kill(os.getpid(), signal.SIGKILL)
    os.waitpid(asking, 0)
    left = int(Path(surroundings["PYTHONPATH"].partition(os.pathsep)[0], "id").read_text())
    deadline = time.monotonic() + 60
    while runs(left):
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_a_run_gives_what_was_printed() -> None:
    done = commands().nursery.run([sys.executable, "-m", "tensmith", "--version"], 60.0, Limits())
    assert done.code == 0 and "tensmith" in done.stdout
    done = commands().nursery.run([sys.executable, "-m", "tensmith", "nonsense"], 60.0, Limits())
    assert done.code != 0 and done.stderr
