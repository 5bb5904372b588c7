"""Which workers a run has."""

from __future__ import annotations

from tensmith.errors import UsageError
from tensmith.workers.base import Workers
from tensmith.workers.cluster import connect
from tensmith.workers.processes import processes


def choose_workers(count: int, ray: str) -> Workers:
    """`count` processes, or those of the cluster at the address `ray`; none where one process does it all."""
    if ray and count > 1:
        raise UsageError("--workers are processes of this machine, and --ray names others; give one of them")
    if ray:
        return connect(ray)
    return processes(count if count > 1 else 0)
