"""Trials: operands for a kernel of every algorithm, of every type that it takes."""

from __future__ import annotations

import pytest

from tensmith.kernel import ConvolutionProblem, Kernel, candidates, host_isa, isa_named
from tensmith.kernel.algorithm import ALGORITHMS
from tensmith.kernel.problem import product
from tensmith.tune.timer import Timer
from tensmith.tune.trial import trial

PROBLEMS = [
    *(ConvolutionProblem(32, 8, 8, 32, (3, 3), pads=(1, 1, 1, 1), dtype=dtype, density=density, groups=groups)
      for dtype in ("f32", "f16", "bf16", "u8") for density, groups in ((1.0, 1), (0.1, 1), (1.0, 32))),
    *(product(4, 100, 40, dtype, block) for dtype in ("i4", "u4", "i8") for block in (32, 128)),
]  # fmt: skip
# A server's and a phone's: between them every algorithm takes something.
ISAS = [isa_named("avx512", ["avx512_bf16", "amx_int8", "amx_bf16"]), isa_named("neon", ["fp16"])]
KERNELS = [
    next(iter(algorithm.candidates(problem, isa)))
    for isa in ISAS
    for algorithm in ALGORITHMS.values()
    for problem in PROBLEMS
    if algorithm.refuses(problem, isa) is None
]


def test_every_algorithm_and_type_is_tried() -> None:
    assert {kernel.name for kernel in KERNELS} == set(ALGORITHMS)
    assert {kernel.problem.dtype for kernel in KERNELS} == {problem.dtype for problem in PROBLEMS}


@pytest.mark.parametrize("kernel", KERNELS, ids=lambda kernel: f"{kernel.isa.name}-{kernel}-{kernel.problem}")
def test_operands_are_there_for_every_kernel(kernel: Kernel) -> None:
    made = trial(kernel, 0)
    assert made.source.nbytes == kernel.source.bytes
    assert made.weights.nbytes and made.copies == 1


@pytest.mark.parametrize("dtype", ["i4", "u4", "i8"])
def test_kernels_of_codes_are_timed(dtype: str) -> None:
    kernel = candidates(product(4, 100, 40, dtype, 32), host_isa())[0]
    with Timer() as timer:
        assert 0 < timer.seconds(kernel, 0, 0.01) < 1
