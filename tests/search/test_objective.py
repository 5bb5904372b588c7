"""Each budget is broken by its own figure, and by no figure that was not measured."""

from __future__ import annotations

import pytest

from tensmith.report.metric import exact
from tensmith.search.objective import Objective

METRICS = {
    "packed_bytes": exact(2000, "bytes"),
    "latency_ms": exact(3, "ms"),
    "peak_bytes": exact(5e6, "bytes"),
    "energy_mj": exact(7, "mJ"),
}


@pytest.mark.parametrize(
    ("tight", "loose", "said"),
    [
        (Objective(max_bytes=1999), Objective(max_bytes=2000), "ships 2000 bytes, more than 1999"),
        (Objective(max_latency_ms=2.5), Objective(max_latency_ms=3), "takes 3 ms, more than 2.5"),
        (Objective(max_memory=4_000_000), Objective(max_memory=5_000_000), "5000000 bytes of memory"),
        (Objective(max_energy_mj=6.5), Objective(max_energy_mj=7), "takes 7 mJ, more than 6.5"),
    ],
)
def test_a_budget_is_broken_by_its_figure(tight: Objective, loose: Objective, said: str) -> None:
    assert said in (tight.over_budget(METRICS, None) or "")
    assert loose.over_budget(METRICS, None) is None
    assert tight.over_budget({}, None) is None
