"""Workers on a local Ray cluster of two nodes, one of which is killed while it works."""

from __future__ import annotations

import importlib.util
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from sample_jobs import RUNNER
from test_workers import job, when

from own_cache import own_cache
from tensmith.errors import MissingExtra
from tensmith.workers import cluster
from tensmith.workers.base import Job
from tensmith.workers.cluster import connect

needs_ray = pytest.mark.skipif(importlib.util.find_spec("ray") is None, reason="Ray is not installed")


@pytest.fixture
def two_nodes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    from ray.cluster_utils import Cluster

    own_cache(tmp_path / "cache", monkeypatch)
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parent))
    monkeypatch.setenv("RAY_USAGE_STATS_ENABLED", "0")
    nodes = Cluster(initialize_head=True, head_node_args={"num_cpus": 1, "include_dashboard": False})
    try:
        nodes.add_node(num_cpus=1)
        nodes.wait_for_nodes()
        yield nodes
    finally:
        nodes.shutdown()


@needs_ray
def test_what_a_killed_node_did_is_done_by_the_other(
    two_nodes: Any, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "model.txt").write_text("weights")
    (doomed,) = two_nodes.worker_nodes
    with connect(two_nodes.address) as workers:
        assert len(workers) == 2
        read = Job(RUNNER, {"do": "read", "names": ["model.txt"]}, files=(tmp_path / "model.txt",))
        assert [found for found, _ in workers.map([read, read])] == 2 * [{"model.txt": "weights"}]
        when((tmp_path / "hangs").exists, lambda: two_nodes.remove_node(doomed, allow_graceful=False))
        answers = workers.map(
            [job("hang_on", node=doomed.node_id, folder=str(tmp_path), number=n) for n in range(4)]
        )
        assert len(answers) == 4
        assert {found["node"] for found, _ in answers} == {two_nodes.head_node.node_id}
        assert len(workers) == 1
    assert "raylet" not in capfd.readouterr().out


def test_without_ray_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cluster.importlib.util, "find_spec", lambda _: None)  # type: ignore[attr-defined]
    with pytest.raises(MissingExtra, match=r"--ray needs .* pip install 'tensmith\[ray\]'"):
        connect("auto")
