"""Calls are timed one by one, and waiting for a processor is noticed."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tensmith.engine.stopwatch import time_calls

_SPIN = "import os\nos.sched_setaffinity(0, {%d})\nprint(flush=True)\nwhile True: pass"


def spin() -> None:
    """Works for 30 ms, however long that takes."""
    end = time.thread_time() + 0.03
    while time.thread_time() < end:
        pass


def test_each_call_is_timed_and_not_what_comes_after() -> None:
    order: list[str] = []
    turn = time_calls(lambda: order.append("run"), 3, after=lambda: order.append("restore"))
    assert order == ["run", "restore"] * 3
    assert turn.nanoseconds.shape == (3,)
    assert (turn.nanoseconds > 0).all()


@pytest.mark.skipif(not Path("/proc/self/schedstat").exists(), reason="the system does not tell of waiting")
def test_sharing_a_processor_disturbs() -> None:
    allowed = os.sched_getaffinity(0)
    core = min(allowed)
    with subprocess.Popen([sys.executable, "-c", _SPIN % core], stdout=subprocess.PIPE) as other:
        try:
            assert other.stdout is not None
            other.stdout.readline()
            os.sched_setaffinity(0, {core})
            turn = time_calls(spin, 10)
            assert turn.disturbed and turn.later.mean() > 40e6
            assert turn.mean == pytest.approx(30e6, rel=0.2)
        finally:
            os.sched_setaffinity(0, allowed)
            other.kill()
