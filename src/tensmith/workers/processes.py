"""Workers that are processes of this machine, and which workers a run has."""

from __future__ import annotations

from tensmith.engine.frame import Answer
from tensmith.engine.module_worker import ModuleWorker
from tensmith.errors import UsageError
from tensmith.workers.base import PATIENCE_SECONDS, Job, Worker, Workers
from tensmith.workers.cluster import connect


class ProcessWorker(Worker):
    """A process, which another one follows when it dies."""

    name = "a process"

    def __init__(self) -> None:
        self._process = ModuleWorker(("tensmith.workers.serve",), PATIENCE_SECONDS)

    def ask(self, job: Job) -> Answer:
        folder = str(job.files[0].parent.absolute()) if job.files else ""
        asked = {"runner": job.runner, "request": dict(job.request), "folder": folder}
        return self._process.ask(asked, job.arrays)

    def kill(self) -> None:
        self._process.kill()

    def end(self) -> None:
        self._process.end()


def processes(count: int) -> Workers:
    """So many workers on this machine."""
    return Workers(ProcessWorker() for _ in range(count))


def choose_workers(count: int, ray: str) -> Workers:
    """`count` processes, or those of the cluster at the address `ray`; none where one process does it all."""
    if ray and count > 1:
        raise UsageError("--workers are processes of this machine, and --ray names others; give one of them")
    if ray:
        return connect(ray)
    return processes(count if count > 1 else 0)
