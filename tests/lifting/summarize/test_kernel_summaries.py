"""Every kernel of the corpus is summarised, and its summary holds at every step of runs on random inputs."""

from __future__ import annotations

import random
from functools import lru_cache
from pathlib import Path

import pytest

from lifting.corpus import ALL, Kernel
from lifting.evaluate_summary import Mismatch, Unmet, arguments, check, widened
from lifting.loops_interpreter import Undefined
from tensmith.lifting.loops import Function
from tensmith.lifting.refusal import Refusal
from tensmith.lifting.source.c.read import read_c
from tensmith.lifting.source.python.read import read_python
from tensmith.lifting.summarize import summarize

# What is lifted once serves all of them.
pytestmark = pytest.mark.xdist_group(__name__)

INPUTS = 14
# What an assumption, and no requirement, keeps out: rows of no row, conversions of what does not fit.
ASSUMED = ("without rows", "has no place in", "division by zero")


@lru_cache(maxsize=64)
def functions(path: Path) -> dict[str, Function | Refusal]:
    read = read_python if path.suffix == ".py" else read_c
    return {(f.name if isinstance(f, Function) else f.function): f for f in read(path)}


@pytest.mark.parametrize("kernel", ALL, ids=str)
def test_its_summary_agrees_with_runs(kernel: Kernel) -> None:
    function = functions(kernel.path)[kernel.function]
    assert isinstance(function, Function), function
    summary = summarize(widened(function))
    chance, done = random.Random(kernel.function), 0
    for _ in range(INPUTS):
        try:
            check(summary, arguments(summary, chance))
        except Unmet:
            continue
        except Undefined as problem:
            assert any(words in str(problem) for words in ASSUMED), problem
            continue
        except Mismatch as mismatch:
            pytest.fail(str(mismatch))
        done += 1
    assert done, "no random input had a meaning"
