"""Other programs end with whoever started them, within limits, and say how they ended."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tensmith.children import Child, Limits, run

SPIN = (sys.executable, "-S", "-c", "while True: pass")


def leave(path: Path) -> tuple[str, ...]:
    """A program that starts another one, writes down the ids of both, and waits for ever."""
    return ("sh", "-c", f"sleep 600 & echo $! $$ > {path}; wait")


def started(path: Path) -> list[int]:
    """The ids in a file, when they are there."""
    for _ in range(600):
        if path.exists() and (ids := path.read_text().split()):
            return list(map(int, ids))
        time.sleep(0.05)
    raise AssertionError("nothing was started")


def runs(process: int) -> bool:
    """Whether a process runs; one that nobody has waited for yet does not."""
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def gone(processes: list[int]) -> bool:
    """Whether they end soon."""
    for _ in range(1200):
        if not any(map(runs, processes)):
            return True
        time.sleep(0.05)
    return False


def test_what_a_program_prints_and_its_code_come_back() -> None:
    done = run(("sh", "-c", "cat; echo out; echo err >&2; exit 3"), 60)
    assert (done.code, done.stdout, done.stderr) == (3, "out\n", "err\n")
    assert done.ending == "ended with 3"


def test_words_reach_a_program_as_they_are() -> None:
    words = ("a b", "$HOME", "'\"`id`", "", "*", "-n")
    done = run(("sh", "-c", 'for word in "$@"; do printf "%s\\n" "$word"; done', "sh", *words), 60)
    assert tuple(done.stdout.splitlines()) == words


def test_a_signal_is_named() -> None:
    assert (
        run(("sh", "-c", "kill -KILL $$"), 60).ending == "was ended by SIGKILL; was there too little memory?"
    )
    assert run(("sh", "-c", "kill -SEGV $$"), 60).code == -signal.SIGSEGV


def test_a_missing_program_cannot_be_started() -> None:
    with pytest.raises(FileNotFoundError):
        run(("no-such-program",), 60)


def test_processor_time_is_limited() -> None:
    assert run(SPIN, 60, Limits(seconds=1)).ending == "was ended by SIGXCPU; it took too much processor time"


def test_memory_is_limited() -> None:
    taking = (sys.executable, "-S", "-c", "bytearray(1 << 30)")
    assert run(taking, 60).code == 0
    assert "MemoryError" in run(taking, 60, Limits(memory=1 << 29)).stderr


def test_a_timeout_ends_all_that_was_started(tmp_path: Path) -> None:
    for seconds in (1, 4, 16, 64):  # where a machine is busy, starting takes longer
        with pytest.raises(subprocess.TimeoutExpired):
            run(leave(tmp_path / "ids"), seconds)
        if (tmp_path / "ids").exists():
            break
    assert gone(started(tmp_path / "ids"))


def test_what_a_killed_process_had_started_ends_too(tmp_path: Path) -> None:
    path = tmp_path / "ids"
    code = f"from tensmith.children import run; run({leave(path)!r}, 600)"
    parent = subprocess.Popen([sys.executable, "-c", code])
    processes = started(path)
    assert all(map(runs, processes))
    parent.kill()
    parent.wait()
    assert gone(processes)


def test_a_child_may_be_started_by_a_thread_that_ends() -> None:
    with ThreadPoolExecutor(1) as pool:
        child = pool.submit(Child, ("cat",), stdin=subprocess.PIPE, stdout=subprocess.PIPE).result()
    with child:
        assert child.stdin is not None and child.stdout is not None
        child.stdin.write(b"still here")
        child.stdin.close()
        assert child.stdout.read() == b"still here"
        assert child.wait() == 0
    assert child.returncode == 0


def test_no_descriptor_stays_open() -> None:
    def descriptors() -> int:
        return len(list(Path("/proc/self/fd").iterdir()))

    before = descriptors()
    for _ in range(3):
        run(("true",), 60)
    assert descriptors() == before
