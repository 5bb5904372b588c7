"""Workers on the nodes of a Ray cluster: one for each processor that nobody else has taken.

Ray carries bytes alone: jobs and answers as frames (see engine.frame), and files, which each node gets once.
Processors are taken for the whole run, so Ray puts no other work beside what is timed here.
"""

from __future__ import annotations

import contextlib
import importlib.util
import io
import signal
import socket
import threading
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from tensmith.engine.frame import Answer, Array, answered, checked, read_frame, sendable, write_frame
from tensmith.engine.module_worker import WorkerEnded
from tensmith.errors import MissingExtra, OutputError, UsageError, first_line, system_sentence
from tensmith.files import TemporaryFolder, sha256_file
from tensmith.workers.base import PATIENCE_SECONDS, Job, Worker, WorkerGone, Workers
from tensmith.workers.serve import Desk

_CONNECT_SECONDS = 5.0
_KEPT_FILES = 8


def to_bytes(header: Mapping[str, Any], arrays: Mapping[str, Array]) -> bytes:
    """A frame."""
    stream = io.BytesIO()
    write_frame(stream, header, sendable(arrays))
    return stream.getvalue()


def from_bytes(frame: bytes) -> tuple[dict[str, Any], dict[str, Array]]:
    """What a frame holds."""
    return read_frame(io.BytesIO(frame))


class NodeDesk:
    """The side of a node: a desk, and a folder with the files of the last job."""

    def __init__(self) -> None:
        self._desk = Desk()
        self._hashes: dict[str, str] = {}
        self._files = TemporaryFolder()

    def answer(self, frame: bytes, *contents: Array) -> bytes:
        """The frame of an answer to the frame of a job, with the contents of its files, uint8 each."""
        return to_bytes(*answered(self._answer, *from_bytes(frame), contents))

    def _answer(
        self, job: Mapping[str, Any], arrays: Mapping[str, Array], contents: Sequence[Array]
    ) -> Answer:
        if job["files"] != self._hashes:
            self._files.cleanup()
            self._files, self._hashes = TemporaryFolder(), {}
            for name, content in zip(job["files"], contents):
                (Path(self._files.name) / name).write_bytes(content.data)
            self._hashes = job["files"]
        return self._desk.answer(job, arrays, Path(self._files.name))


class Connection:
    """A cluster that this process is connected to, and the files that lie in its store."""

    def __init__(self, ray: Any) -> None:
        self.ray = ray
        self._lock = threading.Lock()
        # A file is known by what it was when it was looked at: candidates are written once.
        self._hash = lru_cache(_KEPT_FILES)(lambda path, _: sha256_file(path))
        self._store = lru_cache(_KEPT_FILES)(lambda path, _: ray.put(np.fromfile(path, np.uint8)))

    def placed(self, files: tuple[Path, ...]) -> tuple[dict[str, str], list[Any]]:
        """Hashes of files by name, and references to their contents; OutputError if they cannot be placed."""
        try:
            with self._lock:
                keys = [(file.absolute(), file.stat().st_mtime_ns) for file in files]
                hashes = {path.name: self._hash(path, time) for path, time in keys}
                return hashes, [self._store(*key) for key in keys]
        except OSError as error:
            raise OutputError(system_sentence(error, "run it again")) from error
        except self.ray.exceptions.RayError as error:
            raise OutputError(f"Ray does not take a job's files: {first_line(error)}") from error

    def nodes(self) -> list[dict[str, Any]]:
        """The nodes that live."""
        return [node for node in self.ray.nodes() if node["Alive"]]

    def lives(self, node: str) -> bool:
        """Whether a node does."""
        return any(other["NodeID"] == node for other in self.nodes())


class NodeWorker(Worker):
    """A processor of a node."""

    def __init__(self, connection: Connection, node: Mapping[str, Any]) -> None:
        self._connection, self._node = connection, node["NodeID"]
        self.name = f"node {node['NodeManagerAddress']}"
        self._actor: Any = None

    def ask(self, job: Job) -> Answer:
        ray = self._connection.ray
        hashes, contents = self._connection.placed(job.files)
        header = {"runner": job.runner, "request": dict(job.request), "files": hashes}
        try:
            asked = self._started().answer.remote(to_bytes(header, job.arrays), *contents)
            return checked(from_bytes(ray.get(asked, timeout=PATIENCE_SECONDS)))
        except ray.exceptions.GetTimeoutError as error:
            self.end()
            raise WorkerEnded(f"did not end within {PATIENCE_SECONDS:g} s") from error
        except ray.exceptions.RayError as error:
            self.end()
            if self._connection.lives(self._node):
                raise WorkerEnded("died") from error
            raise WorkerGone("it is gone") from error

    def kill(self) -> None:
        actor = self._actor
        if actor is not None:
            with contextlib.suppress(self._connection.ray.exceptions.RayError):
                self._connection.ray.kill(actor)

    def end(self) -> None:
        self.kill()
        self._actor = None

    def _started(self) -> Any:
        if self._actor is None:
            ray = self._connection.ray
            here = ray.util.scheduling_strategies.NodeAffinitySchedulingStrategy(self._node, soft=False)
            self._actor = ray.remote(num_cpus=1, max_restarts=0, scheduling_strategy=here)(NodeDesk).remote()
        return self._actor


class ClusterWorkers(Workers):
    """All workers of a cluster; the connection ends with them."""

    def __init__(self, connection: Connection) -> None:
        free = connection.ray._private.state.available_resources_per_node()
        super().__init__(
            NodeWorker(connection, node)
            for node in connection.nodes()
            for _ in range(int(free.get(node["NodeID"], {}).get("CPU", 0)))
        )
        self._connection = connection

    def end(self) -> None:
        super().end()
        self._connection.ray.shutdown()


def connect(address: str) -> Workers:
    """A worker for each free processor of the Ray cluster at `address`, HOST:PORT or "auto".

    This machine has to be a node of it. MissingExtra, or UsageError where there is no such cluster.
    """
    if importlib.util.find_spec("ray") is None:
        raise MissingExtra("--ray", "ray")
    if address != "auto":
        _demand_listener(address)
    import ray
    import ray.util.scheduling_strategies

    try:
        with _own_handlers():
            ray.init(address, log_to_driver=False, configure_logging=False, logging_level="ERROR")
    except (ConnectionError, RuntimeError, ValueError) as error:
        raise _no_cluster(address, "this machine is no node of a running one") from error
    # What nodes say of each other would stand between the lines of an answer; no option of Ray's silences it.
    ray._private.worker.print_to_stdstream = lambda *_, **__: None
    workers = ClusterWorkers(Connection(ray))
    if not len(workers):
        workers.end()
        raise _no_cluster(address, "all of its processors are taken")
    return workers


def _demand_listener(address: str) -> None:
    """UsageError unless somebody listens at HOST:PORT: Ray would ask for minutes."""
    host, colon, port = address.rpartition(":")
    if not colon or not host or not port.isdecimal() or "/" in host:
        raise UsageError(f"--ray takes HOST:PORT of a cluster's head, or auto, not '{address}'")
    try:
        socket.create_connection((host.strip("[]"), int(port)), _CONNECT_SECONDS).close()
    except (OSError, OverflowError) as error:
        raise _no_cluster(address, getattr(error, "strerror", None) or str(error)) from error


def _no_cluster(address: str, why: str) -> UsageError:
    return UsageError(f"no Ray cluster can be used at --ray {address}: {why}; see ray status")


@contextlib.contextmanager
def _own_handlers() -> Iterator[None]:
    """Signals stay with who has them: Ray would end the process at SIGTERM."""
    main = threading.current_thread() is threading.main_thread()
    before = signal.getsignal(signal.SIGTERM) if main else None
    try:
        yield
    finally:
        if before is not None:
            signal.signal(signal.SIGTERM, before)
