"""Workers on a local Ray cluster of two nodes, one of which is killed while it works."""

from __future__ import annotations

import errno
import importlib.util
import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from sample_jobs import RUNNER

from tensmith.engine.frame import checked
from tensmith.errors import DataError, MissingExtra, OutputError
from tensmith.workers import cluster
from tensmith.workers.base import Job
from tensmith.workers.cluster import Connection, NodeDesk, NodeWorker, connect, from_bytes, to_bytes

HERE = Path(__file__).parent
needs_ray = pytest.mark.skipif(importlib.util.find_spec("ray") is None, reason="Ray is not installed")


@needs_ray
def test_what_a_killed_node_did_is_done_by_the_other(tmp_path: Path) -> None:
    own = {"XDG_CACHE_HOME": str(tmp_path / "cache"), "RAY_USAGE_STATS_ENABLED": "0"}
    paths = os.pathsep.join([str(HERE), str(HERE.parent)])
    trial = subprocess.Popen(
        [sys.executable, str(HERE / "cluster_trial.py"), str(tmp_path), "4"],
        env={**os.environ, **own, "PYTHONPATH": paths},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    try:
        out, errors = trial.communicate(timeout=240)
    except subprocess.TimeoutExpired:
        os.killpg(trial.pid, signal.SIGKILL)
        out, errors = trial.communicate()
        if "two nodes" not in out:
            pytest.skip("Ray does not start two nodes here")
        pytest.fail(f"no end; it printed {out}\n{errors}")
    assert trial.returncode == 0, errors
    said, answer = out.splitlines()
    assert said == "two nodes"
    assert json.loads(answer) == {"workers": [2, 1], "texts": 2 * ["weights"], "by head": 4 * [True]}


def test_what_a_node_raises_is_raised_here() -> None:
    job = {"runner": RUNNER, "request": {"do": "refuse", "number": 1}, "files": {}}
    answer = from_bytes(NodeDesk().answer(to_bytes(job, {})))
    with pytest.raises(DataError, match="job 1 is refused"):
        checked(answer)


def test_a_full_disk_of_a_node_is_told_and_its_files_are_written_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def full(*_: object) -> int:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    job = to_bytes({"runner": RUNNER, "request": {"do": "read", "names": ["m"]}, "files": {"m": "hash"}}, {})
    desk, content = NodeDesk(), np.frombuffer(b"weights", np.uint8)
    with monkeypatch.context() as patch:
        patch.setattr(Path, "write_bytes", full)
        with pytest.raises(OutputError, match="No space left on device"):
            checked(from_bytes(desk.answer(job, content)))
    assert checked(from_bytes(desk.answer(job, content)))[0] == {"m": "weights"}


class _RayError(Exception):
    """Stands for Ray's."""


def test_files_that_cannot_be_placed_are_one_sentence(tmp_path: Path) -> None:
    def put(_: object) -> object:
        raise _RayError("the store is full\nand more")

    file = tmp_path / "m"
    ray = SimpleNamespace(put=put, exceptions=SimpleNamespace(RayError=_RayError))
    worker = NodeWorker(Connection(ray), {"NodeID": "1", "NodeManagerAddress": "here"})
    with pytest.raises(OutputError, match=r"the system refused .*m\): No such file"):
        worker.ask(Job(RUNNER, {}, files=(file,)))
    file.write_bytes(b"weights")
    with pytest.raises(OutputError, match=r"Ray does not take a job's files: the store is full$"):
        worker.ask(Job(RUNNER, {}, files=(file,)))


def test_without_ray_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cluster.importlib.util, "find_spec", lambda _: None)  # type: ignore[attr-defined]
    with pytest.raises(MissingExtra, match=r"--ray needs .* pip install 'tensmith\[ray\]'"):
        connect("auto")
