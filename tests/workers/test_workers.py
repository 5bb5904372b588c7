"""Workers: answers in the order of the jobs, whoever is lost on the way; errors as if one had done it all."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sample_jobs import RUNNER

from command_line import refused, tensmith
from tensmith.config import make_config
from tensmith.deploy.identity import run_identity
from tensmith.engine import module_worker
from tensmith.errors import DataError, EngineError
from tensmith.workers.base import Job, Workers, WorkersLost
from tensmith.workers.processes import choose_workers, processes


def job(do: str, **request: object) -> Job:
    return Job(RUNNER, {"do": do, **request})


@pytest.fixture
def three() -> Iterator[Workers]:
    with processes(3) as workers:
        yield workers


def when(happened: Callable[[], bool], act: Callable[[], object]) -> None:
    """Acts from another thread when something has happened, at the latest after a minute."""

    def wait() -> None:
        deadline = time.monotonic() + 60
        while not happened() and time.monotonic() < deadline:
            time.sleep(0.01)
        act()

    threading.Thread(target=wait, daemon=True).start()


def test_answers_come_in_the_order_of_the_jobs(three: Workers) -> None:
    jobs = [
        Job(RUNNER, {"do": "square", "number": n, "seconds": 0.1 * (n == 0)}, {"x": np.arange(n)})
        for n in range(8)
    ]
    answers = three.map(jobs)
    assert [found["number"] for found, _ in answers] == list(range(8))
    assert all(np.array_equal(arrays["x"], np.arange(n) ** 2) for n, (_, arrays) in enumerate(answers))


def test_a_job_is_done_again_where_its_worker_died(three: Workers, tmp_path: Path) -> None:
    others = [job("square", number=n) for n in range(3)]
    first, *rest = three.map([job("die", times=2, folder=str(tmp_path)), *others])
    assert first[0] == {"deaths": 2}
    assert [found["number"] for found, _ in rest] == [0, 1, 2]


def test_a_job_of_which_every_worker_dies_is_an_error(three: Workers, tmp_path: Path) -> None:
    with pytest.raises(EngineError, match="its worker died, 3 times: it was told to"):
        three.map([job("die", times=9, folder=str(tmp_path))])
    assert three.map([job("square", number=1)])[0][0] == {"number": 1}


def test_of_several_errors_it_is_that_of_the_first_job(three: Workers) -> None:
    with pytest.raises(DataError, match="job 0 is refused"):
        three.map([job("refuse", number=n, seconds=0.2 if n == 0 else 0.0) for n in range(6)])


def test_an_interrupt_ends_what_hangs_and_workers_begin_anew(three: Workers, tmp_path: Path) -> None:
    when((tmp_path / "hangs").exists, lambda: os.kill(os.getpid(), signal.SIGINT))
    with pytest.raises(KeyboardInterrupt):
        three.map([job("hang", folder=str(tmp_path)), *(job("square", number=n) for n in range(5))])
    assert len(three.map([job("square", number=n) for n in range(9)])) == 9


def test_an_interrupt_ends_workers_that_are_just_starting(
    three: Workers, monkeypatch: pytest.MonkeyPatch
) -> None:
    starting, start = threading.Event(), module_worker.start_module

    def slowly(*words: Any, **how: Any) -> Any:
        starting.set()
        time.sleep(1.0)
        return start(*words, **how)

    monkeypatch.setattr(module_worker, "start_module", slowly)
    when(starting.is_set, lambda: os.kill(os.getpid(), signal.SIGINT))
    began = time.monotonic()
    with pytest.raises(KeyboardInterrupt):
        three.map([job("square", number=n, seconds=60.0) for n in range(5)])
    assert time.monotonic() - began < 50


def test_workers_that_answer_otherwise_are_left_out(three: Workers) -> None:
    assert three.admit(job("square", number=1), {"number": 1}) == []
    assert three.admit(job("square", number=1), {"number": 2}) == 3 * ["a process (another number than here)"]
    with pytest.raises(WorkersLost):
        three.map([job("square", number=1)])


def test_workers_that_die_of_what_all_are_asked_are_left_out(three: Workers, tmp_path: Path) -> None:
    assert three.admit(job("die", times=9, folder=str(tmp_path)), {"deaths": 0}) == 3 * ["a process (died)"]
    assert len(three) == 0


def test_a_worker_that_fails_otherwise_is_left_out(three: Workers, monkeypatch: pytest.MonkeyPatch) -> None:
    def ask(_: Job) -> Any:
        raise RuntimeError("it is broken\nin this way")

    monkeypatch.setattr(three._workers[0], "ask", ask)
    assert three.admit(job("square", number=1), {"number": 1}) == ["a process (it is broken)"]
    assert len(three) == 2


def test_one_process_needs_no_worker() -> None:
    assert len(choose_workers(1, "")) == 0


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("--workers", "0"), ("workers", "must be at least 1")),
        (("--workers", "2", "--ray", "auto"), ("--workers", "--ray", "one of them")),
        (("--ray", "nowhere"), ("HOST:PORT", "nowhere")),
        (("--ray", "127.0.0.1:1"), ("127.0.0.1:1", "refused")),
    ],
)
def test_wrong_workers_are_refused_in_one_sentence(
    options: tuple[str, ...], words: tuple[str, ...], tiny: Path
) -> None:
    if "--ray" in options and "--workers" not in options:
        pytest.importorskip("ray", reason="Ray is not installed")
    result = tensmith("compress", "tiny.onnx", "--data", "npz:tiny.npz", *options, folder=tiny)
    refused(result, 2, *words)
    assert not (tiny / "tensmith-out").exists()


def test_who_does_the_work_is_no_part_of_a_run() -> None:
    """A run goes on with other workers, on a cluster or alone."""
    first, *others = (
        run_identity(make_config(model="m.onnx", **workers), "model", "data")
        for workers in ({}, {"workers": 4}, {"ray": "head:6379"})
    )
    assert all(other == first for other in others)
