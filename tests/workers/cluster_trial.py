"""Runs jobs on a local Ray cluster of two nodes and kills one of them; prints what came out as JSON.

A process of its own: Ray forks its nodes, and a fork of a process with the threads of other libraries may
never come back. Arguments: a folder for files, and how many jobs.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from ray.cluster_utils import Cluster
from sample_jobs import RUNNER
from test_workers import job, when

from tensmith.workers.base import Job
from tensmith.workers.cluster import connect

STARTED = "two nodes"
# How Ray finds out that a node is gone: it asks, twice a second, and three questions have no answer.
NOTICED_SOON = {
    "health_check_initial_delay_ms": 500, "health_check_period_ms": 500, "health_check_failure_threshold": 3,
}  # fmt: skip


def main(folder: Path, jobs: int) -> None:
    head_args = {"num_cpus": 1, "include_dashboard": False, "_system_config": NOTICED_SOON}
    nodes = Cluster(initialize_head=True, head_node_args=head_args)
    try:
        doomed = nodes.add_node(num_cpus=1)
        nodes.wait_for_nodes()
        print(STARTED, flush=True)
        (folder / "model.txt").write_text("weights")
        with connect(nodes.address) as workers:
            at_first = len(workers)
            read = Job(RUNNER, {"do": "read", "names": ["model.txt"]}, files=(folder / "model.txt",))
            texts = [found["model.txt"] for found, _ in workers.map([read, read])]
            when((folder / "hangs").exists, lambda: nodes.remove_node(doomed, allow_graceful=False))
            hang_on = {"node": doomed.node_id, "folder": str(folder)}
            answers = workers.map([job("hang_on", number=n, **hang_on) for n in range(jobs)])
            at_last = len(workers)
        head = nodes.head_node.node_id
    finally:
        nodes.shutdown()
    by_head = [found["node"] == head for found, _ in answers]
    print(json.dumps({"workers": [at_first, at_last], "texts": texts, "by head": by_head}))


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]))
