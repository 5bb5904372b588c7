"""Positions and sizes that are divided round down in every target, where what is divided is negative too."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from harness_targets import TARGETS

from tensmith.lifting.pipeline import lift_file

SOURCE = """
def tail(a: list[float], m: int, n: int) -> float:
    s = 0.0
    for i in range(m - n // 2):
        s += a[i]
    return s


def half(a: list[float], n: int) -> float:
    return a[n // 2]
"""
A = np.array([1.0, 2.0, 4.0, 8.0, 16.0])

pytestmark = pytest.mark.xdist_group("traced")


@pytest.fixture(scope="module")
def called(tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, Any]]:
    """Target -> function -> what calls it."""
    folder = tmp_path_factory.mktemp("floor")
    path = folder / "floor.py"
    path.write_text(SOURCE)
    found: dict[str, dict[str, Any]] = {}
    for target, loaded in TARGETS.items():
        own = folder / target
        own.mkdir()
        results = lift_file(path, targets=(target,), output=own, run=False)
        loaded.prepare([result.name for result in results], own)
        found[target] = {result.name: loaded(result.work.lifted, own) for result in results}
    return found


@pytest.mark.parametrize("target", TARGETS)
def test_a_negative_number_is_divided_downwards(target: str, called: dict[str, Any]) -> None:
    tail, half = called[target]["tail"], called[target]["half"]
    for m, n in ((3, -1), (3, -2), (2, -3), (3, 1), (0, 0), (-5, 3)):
        (found,) = tail({"a": A, "m": m, "n": n})
        assert found == A[: max(0, m - n // 2)].sum(), (m, n)
    assert half({"a": A, "n": 5})[0] == 4.0
    if TARGETS[target].guards:
        with pytest.raises(ValueError, match=r"n // 2|requirement"):
            half({"a": A[:3], "n": -1})
