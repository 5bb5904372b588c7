"""depthwise equals the reference interpreter on every class of shape."""

from __future__ import annotations

import numpy as np
import pytest
from kernel_runs import curve, reference, rounding_bound, run_kernel, sample

from tensmith.kernel import ConvolutionProblem, Epilogue, host_isa, isa_named
from tensmith.kernel.algorithms.depthwise import Depthwise


def depthwise(
    channels: int, height: int, width: int, window: tuple[int, int], *rest: object
) -> ConvolutionProblem:
    return ConvolutionProblem(channels, height, width, channels, window, *rest, groups=channels)  # type: ignore[arg-type]


SHAPES = [
    depthwise(32, 14, 14, (3, 3), (1, 1), (1, 1, 1, 1)),
    depthwise(20, 9, 13, (5, 5), (2, 2), (2, 2, 2, 2)),
    depthwise(16, 7, 7, (7, 7), (1, 1), (3, 3, 3, 3)),
    depthwise(7, 11, 5, (3, 2), (1, 2), (0, 1, 2, 0), (2, 3)),
    depthwise(1, 1, 1, (1, 1)),
]


@pytest.mark.parametrize("problem", SHAPES, ids=str)
def test_every_class_of_shape(problem: ConvolutionProblem) -> None:
    image, weights = sample(problem)
    expected, bound = reference(problem, image, weights), rounding_bound(problem, image, weights)
    for isa in (host_isa(), isa_named("generic")):
        kernel = next(Depthwise.candidates(problem, isa))
        assert (abs(run_kernel(kernel, image, weights, loose=True) - expected) <= bound).all()


def test_bias_residual_and_activation() -> None:
    problem = SHAPES[1]
    image, weights = sample(problem)
    bias = np.linspace(-1, 1, problem.filters, dtype=np.float32)
    residual = sample(ConvolutionProblem(problem.filters, *problem.output, 1))[0]
    kernel = next(Depthwise.candidates(problem, host_isa()))
    epilogue = Epilogue(True, kernel.target, curve("clip", 0.0, 6.0))
    found = run_kernel(kernel, image, weights, bias, residual, epilogue, loose=True)
    expected = np.clip(reference(problem, image, weights) + bias[:, None, None] + residual, 0, 6)
    assert (abs(found - expected) <= rounding_bound(problem, image, weights) + 1e-6).all()


def test_a_nan_stays_in_its_channel_and_window() -> None:
    problem = SHAPES[0]
    image, weights = sample(problem)
    image[5, 6, 6] = np.nan
    found = run_kernel(next(Depthwise.candidates(problem, host_isa())), image, weights)
    spoilt = np.zeros(found.shape, bool)
    spoilt[5, 5:8, 5:8] = True
    assert np.array_equal(np.isnan(found), spoilt)


@pytest.mark.parametrize(
    ("problem", "reason"),
    [
        (ConvolutionProblem(32, 8, 8, 32, (3, 3), groups=16), "more than one channel"),
        (ConvolutionProblem(16, 16, 16, 16, (9, 9), groups=16), "larger than"),
    ],
)
def test_what_it_refuses(problem: ConvolutionProblem, reason: str) -> None:
    assert reason in (Depthwise.refuses(problem, host_isa()) or "")
