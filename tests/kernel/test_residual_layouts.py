"""What is added may lie otherwise than what is written: with a wider halo, or with none."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from kernel_runs import fitted, reference, run_kernel, sample, wider
from quantized_runs import found, meaning, sample_case, within_one_rarely

from tensmith.kernel import ConvolutionProblem, Epilogue, Isa, Kernel, host_isa, isa_named
from tensmith.kernel.algorithm import candidates

PROBLEMS = {
    "1x1": ConvolutionProblem(32, 5, 7, 48, density=0.2),
    "3x3": ConvolutionProblem(32, 6, 7, 32, (3, 3), pads=(1, 1, 1, 1), density=0.2),
    "depthwise": ConvolutionProblem(32, 6, 7, 32, (3, 3), pads=(1, 1, 1, 1), groups=32),
}
# Of values around 1, summed over at most 288 products.
TOLERANCES = {"f32": 1e-3, "bf16": 0.3, "f16": 0.1}


def first_of_each(problem: ConvolutionProblem, isa: Isa) -> list[Kernel]:
    """The best guess of every algorithm and layout."""
    found = {}
    for kernel in candidates(problem, isa):
        found.setdefault((kernel.name, kernel.source.block, kernel.target.block), kernel)
    return list(found.values())


@pytest.mark.parametrize("dtype", TOLERANCES)
@pytest.mark.parametrize("name", PROBLEMS)
def test_floats(name: str, dtype: str) -> None:
    problem = replace(PROBLEMS[name], dtype=dtype)
    image, weights = sample(problem, 0)
    residual = np.random.default_rng(1).standard_normal((problem.filters, *problem.output), np.float32)
    expected = reference(problem, image, weights) + residual
    for kernel in first_of_each(problem, host_isa()):
        for loose in (False, True):
            kept = kernel.target if loose else wider(kernel.target)
            y = run_kernel(kernel, image, weights, None, residual, Epilogue(False, kept), loose)
            np.testing.assert_allclose(y, expected, atol=TOLERANCES[dtype], err_msg=str(kernel))


def test_halves_walk_rows_where_the_residual_has_a_halo() -> None:
    """No host here runs them, so their C tells: rows are walked as one only where all lie flat."""
    problem = ConvolutionProblem(16, 5, 7, 16, dtype="f16")
    for kernel in first_of_each(problem, isa_named("neon", ["fp16"])):
        apart = fitted(kernel, Epilogue(False, wider(kernel.target))).text("f")
        together = fitted(kernel, Epilogue(False, kernel.target)).text("f")
        assert "i < 5" in apart and "i < 5" not in together


@pytest.mark.parametrize("loose", [False, True])
@pytest.mark.parametrize("name", PROBLEMS)
def test_bytes(name: str, loose: bool, tmp_path: Path) -> None:
    problem = replace(PROBLEMS[name], dtype="u8")
    case = sample_case(problem, 0, 117, 93, residual="u8")
    for kernel in first_of_each(problem, host_isa()):
        within_one_rarely(found(kernel, case, loose, tmp_path, apart=True), meaning(case))
