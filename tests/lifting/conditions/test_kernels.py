"""Kernels of every kind are proved by both solvers, programs included; their wrong twins are not accepted."""

from __future__ import annotations

import random
from dataclasses import replace
from functools import cache
from pathlib import Path

import pytest

from lifting.corpus import ALL, Kernel
from lifting.evaluate_summary import Mismatch, Unmet, arguments, check, widened
from lifting.loops_interpreter import Undefined
from lifting.mutate import mutant, program_mutant
from tensmith.lifting.assumptions import REGROUPED
from tensmith.lifting.conditions import obligations, program_obligations
from tensmith.lifting.lifted import Lifted
from tensmith.lifting.loops import Function
from tensmith.lifting.refusal import Refusal
from tensmith.lifting.source.c.read import read_c
from tensmith.lifting.source.python.read import read_python
from tensmith.lifting.summarize import summarize
from tensmith.lifting.summary import Summary
from tensmith.lifting.tensorize import positions, tensorize
from tensmith.verify.obligation import Obligation
from tensmith.verify.solve import discharge

# What is lifted once serves all of them.
pytestmark = pytest.mark.xdist_group(__name__)

# One of each kind: maps, bytes, selections, folds, maxima, matrices, loop orders, triangles, pointer walks,
# lists that grow, scans, windows, gathers, divisions that floor.
CHOSEN = [
    "c/blas/dot", "c/blas/gemv", "c/blend/color_burn_8", "c/blend/overlay_blend_8",
    "c/llama/transformer_part2",
    "further/matrices/gemm_nn", "further/matrices/gemm_tt", "further/matrices/matrix1", "further/structs/ttv",
    "further/structs/mat_mul",
    "polybench/linear_algebra/atax", "polybench/linear_algebra/doitgen", "polybench/triangular/symm",
    "polybench/triangular/syrk", "polybench/triangular/trmm",
    "own/scans/prefix_sum_in_place", "own/convolution/max_pool_2x2", "own/convolution/conv_2d",
    "own/stencils/heat_2d", "own/images/flip_horizontal", "own/networks/softmax",
    "python/blend/color_dodge_8",
    "python/mathfu/diveq", "c++/blend/darken_blend_8", "c++/dsp/matadd",
]  # fmt: skip
FOUND = {str(kernel): kernel for kernel in ALL}


@cache
def functions(path: Path) -> list[Function | Refusal]:
    return read_python(path) if path.suffix == ".py" else read_c(path)


@cache
def summary_of(name: str, wide: bool = False) -> Summary:
    kernel: Kernel = FOUND[name]
    read = functions(kernel.path)
    (function,) = [f for f in read if isinstance(f, Function) and f.name == kernel.function]
    return summarize(widened(function) if wide else function)


@cache
def lifted_of(name: str) -> Lifted:
    return tensorize(summary_of(name))


def unproved(found: list[Obligation], solver: str = "z3") -> list[str]:
    verdicts = discharge(found, solver, 5.0)
    return [f"{v.status}: {v.obligation.name} {v.detail}" for v in verdicts if v.status != "proved"]


def refused(found: list[Obligation]) -> bool:
    return any(discharge([o], "z3", 0.7)[0].status != "proved" for o in found)


@pytest.mark.parametrize("name", CHOSEN)
def test_a_kernel_and_its_program_are_proved(name: str) -> None:
    summary = summary_of(name)
    found = [*obligations(summary), *program_obligations(lifted_of(name), summary)]
    assert unproved(found) == []
    assert unproved(found, "cvc5") == []


@pytest.mark.parametrize("name", CHOSEN)
def test_mutants_that_are_accepted_agree_with_runs(name: str) -> None:
    """benchmarks/lifting/mutants.py does this for thousands."""
    summary, chance = summary_of(name, wide=True), random.Random(name)
    for _ in range(6):
        made = mutant(summary, chance)
        if made is None or refused(obligations(made[1])):
            continue
        for _ in range(20):
            try:
                check(made[1], arguments(made[1], chance))
            except (Unmet, Undefined):
                continue
            except Mismatch as mismatch:
                pytest.fail(f"{made[0]} is proved, but {mismatch}")


def test_most_mutants_of_programs_are_refused() -> None:
    chance, outcomes = random.Random(5), []
    for name in CHOSEN[:8]:
        for _ in range(5):
            made = program_mutant(lifted_of(name), chance)
            if made is not None:
                outcomes.append(refused(program_obligations(made[1], summary_of(name))))
    assert sum(outcomes) > 0.7 * len(outcomes)


def test_a_program_with_another_result_is_no_program_of_the_function() -> None:
    (obligation,) = program_obligations(lifted_of("c/blas/gemv"), summary_of("c/blas/dot"))
    assert obligation.kind == "form" and "program" in obligation.name


def last_of(source: str, folder: Path) -> tuple[Lifted, Summary]:
    path = folder / "last.c"
    path.write_text(source)
    (function,) = read_c(path)
    assert isinstance(function, Function)
    summary = summarize(function)
    return tensorize(summary), summary


def test_a_view_is_asked_for_where_it_is_chosen(tmp_path: Path) -> None:
    chosen = "int last(int n, const int *a) { int s = 0; for (int i = 0; i < n; i++) s = a[i]; return s; }"
    assert not unproved(program_obligations(*last_of(chosen, tmp_path)))
    always = "void last(int n, int *a) { for (int i = 0; i < n; i++) a[i] += a[n - 1]; }"
    lifted, summary = last_of(always, tmp_path)
    assert not unproved(program_obligations(lifted, summary))
    careless = replace(lifted, requires=tuple(r for r in lifted.requires if r.kind == "length"))
    (failure,) = unproved(program_obligations(careless, summary))
    assert failure.startswith("refuted: program of a view of a inside it")


def test_a_program_that_overflows_where_its_source_does_not_is_not_proved(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`i > last` as `i >= last + 1` is another function where last is the largest number."""
    loop = (
        "long last(long n, long m, long k) "
        "{{ long s = 0; for (long i = 0; i < n; i++) if ({}) s += 5; return s; }}"
    )
    for condition in ("i > m", "i <= m", "i < m - 1", "m > 2 * i"):
        lifted, summary = last_of(loop.format(condition), tmp_path)
        assert not unproved(program_obligations(lifted, summary)), condition
        assert REGROUPED() not in lifted.assumes
    for condition in ("i < m - k", "i * k < m"):
        lifted, summary = last_of(loop.format(condition), tmp_path)
        assert not unproved(program_obligations(lifted, summary)), condition
        assert REGROUPED() in lifted.assumes
        unsaid = tuple(each for each in lifted.assumes if each != REGROUPED())
        assert unproved(program_obligations(replace(lifted, assumes=unsaid), summary)), condition
    monkeypatch.setattr(positions, "_is_wide", lambda lowering, symbol: False)
    assert unproved(program_obligations(*last_of(loop.format("i > m"), tmp_path)))
