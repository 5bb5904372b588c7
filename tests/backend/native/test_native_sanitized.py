"""Generated C under the address, undefined behaviour and thread sanitizers: no report, and right answers."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from sanitized import MEMORY, THREADS, UNOPTIMIZED, has_sanitizers, sanitized
from test_native_graphs import Graph

from tensmith.backend.native.plan import Plan, make_plan
from tensmith.ir import interpret
from tensmith.kernel import host_isa

pytestmark = pytest.mark.skipif(not has_sanitizers(), reason="the compiler has no sanitizers")


def planned(seed: int, threads: int) -> Plan:
    return make_plan(Graph(seed).program, host_isa(), threads=threads)


def image(plan: Plan) -> np.ndarray:
    return np.random.default_rng(1).standard_normal(plan.program.inputs["x"].static).astype(np.float32)


@pytest.mark.parametrize("seed", range(10))
def test_a_random_graph_touches_only_its_own_memory(seed: int, tmp_path: Path) -> None:
    plan = planned(seed, seed % 3 + 1)
    found, complaint = sanitized(plan, {"x": image(plan)}, tmp_path, MEMORY + UNOPTIMIZED)
    assert complaint == ""
    for name, expected in interpret(plan.program, {"x": image(plan)}).items():
        np.testing.assert_allclose(found[name], expected, rtol=1e-4, atol=1e-4)


def test_threads_do_not_race(tmp_path: Path) -> None:
    plan = planned(13, 3)
    assert sanitized(plan, {"x": image(plan)}, tmp_path, THREADS + UNOPTIMIZED, runs=3)[1] == ""


def test_an_arena_that_is_too_small_is_noticed(tmp_path: Path) -> None:
    plan = planned(3, 1)
    small = replace(plan, arena_bytes=plan.arena_bytes // 2)
    assert "heap-buffer-overflow" in sanitized(small, {"x": image(plan)}, tmp_path, MEMORY + UNOPTIMIZED)[1]
