"""Generated C under the address, undefined behaviour and thread sanitizers: no report, and right answers."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from sanitized import MEMORY, THREADS, UNOPTIMIZED, has_sanitizers, sanitized
from test_native_graphs import Graph

from tensmith.backend.native.emit.source import print_c
from tensmith.backend.native.plan import NativePlan, make_plan
from tensmith.ir import interpret
from tensmith.kernel import host_isa

pytestmark = pytest.mark.skipif(not has_sanitizers(), reason="the compiler has no sanitizers")


def planned(seed: int, threads: int) -> NativePlan:
    return make_plan(Graph(seed).program, host_isa(), threads=threads)


def image(plan: NativePlan) -> np.ndarray:
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
    assert plan.threads == 3
    assert sanitized(plan, {"x": image(plan)}, tmp_path, THREADS + UNOPTIMIZED, runs=3)[1] == ""


def test_an_arena_that_is_too_small_is_noticed(tmp_path: Path) -> None:
    plan = planned(3, 1)
    small = replace(plan, arena_bytes=plan.arena_bytes // 2)
    assert "heap-buffer-overflow" in sanitized(small, {"x": image(plan)}, tmp_path, MEMORY + UNOPTIMIZED)[1]


# A fault planted in a step's C, at the beginning of each: which sanitizer says what.
FAULTS = {
    "volatile int most = 2147483647; most = most + 1;": (MEMORY, "signed integer overflow"),
    "volatile int by = 40; (void)(1 << by);": (MEMORY, "shift exponent 40"),
    "*(volatile int *)0 = 1;": (MEMORY, "SEGV"),
    "volatile char few[3]; volatile int at = 3; few[at] = 1;": (MEMORY, "out of bounds"),
    "static float held[4]; volatile int at = 4; (&held[0])[at] = 1;": (MEMORY, "global-buffer-overflow"),
    "((volatile char *)arena)[-1] = 1;": (MEMORY, "heap-buffer-overflow"),
    "((char *)arena)[0]++;": (THREADS, "data race"),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_planted_fault_is_reported(fault: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    begin = "    (void)weights; (void)inputs; (void)outputs; (void)arena;\n"
    monkeypatch.setattr("sanitized.print_c", lambda plan: print_c(plan).replace(begin, f"{begin}{fault}\n"))
    plan, (flags, words) = planned(2, 3), FAULTS[fault]
    assert plan.threads == 3
    assert words in sanitized(plan, {"x": image(plan)}, tmp_path, flags + UNOPTIMIZED)[1]
