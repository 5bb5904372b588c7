"""Winograd: its identity is exact, and its kernels stay within the stated error bound."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from kernel_runs import curve, reference, run_kernel, sample, winograd_bound

from tensmith.kernel import ConvolutionProblem, Epilogue, host_isa, isa_named
from tensmith.kernel.algorithms.winograd import Winograd
from tensmith.kernel.algorithms.winograd_on_the_fly import WinogradOnTheFly
from tensmith.kernel.cook_toom import filtering

SAME = (1, 1, 1, 1)
SHAPES = [
    ConvolutionProblem(32, 14, 14, 32, (3, 3), pads=SAME),
    ConvolutionProblem(24, 13, 9, 40, (3, 3), pads=SAME),
    ConvolutionProblem(16, 7, 7, 16, (3, 3), pads=(0, 1, 2, 0)),
    ConvolutionProblem(64, 5, 30, 64, (3, 3)),
    ConvolutionProblem(16, 3, 3, 7, (3, 3)),
]
STRIDED = [
    ConvolutionProblem(32, 14, 14, 32, (3, 3), (2, 2), SAME),
    ConvolutionProblem(16, 13, 19, 20, (3, 3), (2, 2), (0, 0, 1, 1)),
    ConvolutionProblem(16, 9, 9, 16, (4, 4), (2, 2), (1, 1, 1, 1)),
    ConvolutionProblem(3, 30, 27, 20, (7, 7), (2, 2), (3, 3, 3, 3)),
    ConvolutionProblem(3, 17, 16, 16, (3, 3), (2, 2)),
    ConvolutionProblem(2, 12, 12, 16, (5, 5), (2, 2), (1, 2, 2, 1)),
    ConvolutionProblem(1, 33, 33, 16, (4, 4), (2, 2), (2, 2, 0, 0)),  # tiles end before the image does
]
LARGER = [ConvolutionProblem(16, 12, 12, 16, (5, 5), pads=(2, 2, 2, 2))]


@pytest.mark.parametrize("taps", [2, 3, 4, 5])
@pytest.mark.parametrize("outputs", [2, 3, 4, 5, 6])
def test_the_matrices_compute_a_filter_exactly(outputs: int, taps: int) -> None:
    """sum(q; A[i,q] G[q,k] B[q,j]) is 1 where j = i + k, else 0: equality over the reals, for all inputs."""
    if outputs + taps > 9:
        pytest.skip("more points than there are")
    f = filtering(outputs, taps)
    for i in range(outputs):
        for k in range(taps):
            for j in range(f.products):
                total = sum(
                    f.output_matrix[i][q] * f.filter_matrix[q][k] * f.input_matrix[q][j]
                    for q in range(f.products)
                )
                assert total == Fraction(int(j == i + k))


@pytest.mark.parametrize("size", [2, 3, 4, 5, 6])
@pytest.mark.parametrize("problem", [*SHAPES, *STRIDED, *LARGER], ids=str)
def test_every_size_on_every_class_of_shape(problem: ConvolutionProblem, size: int) -> None:
    image, weights = sample(problem)
    isa = next(
        (isa for isa in (host_isa(), isa_named("generic")) if not Winograd.refuses(problem, isa)), None
    )
    if isa is None:
        pytest.skip(f"{problem.channels} channels of four phases fill vectors of {host_isa().lanes} badly")
    kernels = [k for k in Winograd.candidates(problem, isa) if k.parameters["size"] == size]
    if not kernels:
        pytest.skip("more points than there are")
    expected = reference(problem, image, weights)
    error = abs(run_kernel(kernels[0], image, weights) - expected).max()
    assert error <= winograd_bound(kernels[0], image, weights)
    assert error <= 1e-4 * abs(expected).max(), "far below the bound in practice"


@pytest.mark.parametrize("size", [2, 3, 4, 5, 6])
@pytest.mark.parametrize("problem", [*SHAPES, *LARGER], ids=str)
def test_filters_that_are_transformed_on_the_fly(problem: ConvolutionProblem, size: int) -> None:
    """The bound is the same, and the packed filters are as many as the op's, in whole vectors."""
    image, weights = sample(problem)
    kernels = [k for k in WinogradOnTheFly.candidates(problem, host_isa()) if k.parameters["size"] == size]
    if not kernels:
        pytest.skip("more points than there are")
    expected = reference(problem, image, weights)
    error = abs(run_kernel(kernels[0], image, weights) - expected).max()
    assert error <= winograd_bound(kernels[0], image, weights)
    assert kernels[0].pack(weights).nbytes == kernels[0].weight_bytes


def test_filters_in_slices_chunks_and_groups() -> None:
    """Several of each, ragged at the end, with everything in the epilogue."""
    problem = ConvolutionProblem(40, 17, 18, 40, (3, 3), pads=SAME)
    image, weights = sample(problem)
    bias = np.linspace(-1, 1, problem.filters, dtype=np.float32)
    residual = sample(ConvolutionProblem(problem.filters, *problem.output, 1))[0]
    expected = np.maximum(reference(problem, image, weights) + bias[:, None, None] + residual, 0)
    for isa in (host_isa(), isa_named("generic")):
        kernel = WinogradOnTheFly(problem, isa, 4, 6, 3, 2, isa.lanes)
        epilogue = Epilogue(True, kernel.target, curve("relu"))
        found = run_kernel(kernel, image, weights, bias, residual, epilogue, loose=True)
        assert abs(found - expected).max() <= winograd_bound(kernel, image, weights) + 1e-5


def test_several_groups_and_another_instruction_set() -> None:
    problem = ConvolutionProblem(20, 17, 18, 24, (3, 3), pads=SAME)
    image, weights = sample(problem)
    expected = reference(problem, image, weights)
    for isa in (host_isa(), isa_named("generic")):
        kernel = Winograd(problem, isa, 4, 6, 3, 2)
        found = run_kernel(kernel, image, weights, loose=True)
        assert abs(found - expected).max() <= winograd_bound(kernel, image, weights)


def test_bias_residual_and_activation() -> None:
    problem = SHAPES[1]
    image, weights = sample(problem)
    bias = np.linspace(-1, 1, problem.filters, dtype=np.float32)
    residual = sample(ConvolutionProblem(problem.filters, *problem.output, 1))[0]
    kernel = next(Winograd.candidates(problem, host_isa()))
    epilogue = Epilogue(True, kernel.target, curve("relu"))
    found = run_kernel(kernel, image, weights, bias, residual, epilogue, loose=True)
    expected = np.maximum(reference(problem, image, weights) + bias[:, None, None] + residual, 0)
    assert abs(found - expected).max() <= winograd_bound(kernel, image, weights) + 1e-5


def test_what_is_not_finite_is_never_lost() -> None:
    problem = SHAPES[0]
    image, weights = sample(problem)
    for value in (np.nan, np.inf):
        image[3, 4, 4] = value
        found = run_kernel(next(Winograd.candidates(problem, host_isa())), image, weights)
        assert not np.isfinite(found[:, 3:6, 3:6]).any()


@pytest.mark.parametrize(
    ("problem", "reason"),
    [
        (ConvolutionProblem(32, 8, 8, 32, (3, 3), (3, 3)), "strides of 1 or 2"),
        (ConvolutionProblem(32, 8, 8, 32, (3, 3), (2, 1)), "square"),
        (ConvolutionProblem(32, 8, 8, 32), "2 to 5 taps"),
        (ConvolutionProblem(32, 8, 8, 32, (3, 3), groups=2), "one group"),
        (ConvolutionProblem(3, 8, 8, 32, (3, 3)), "badly"),
        (ConvolutionProblem(24, 8, 8, 32, (3, 3), (2, 2)), "badly"),
    ],
)
def test_what_it_refuses(problem: ConvolutionProblem, reason: str) -> None:
    assert reason in (Winograd.refuses(problem, isa_named("avx512")) or "")
