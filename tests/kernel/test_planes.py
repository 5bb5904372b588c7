"""direct and gemm, whose lanes are positions, equal the reference interpreter on every class of shape."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from kernel_runs import curve, drawn, reference, rounding_bound, run_kernel, sample

from tensmith.kernel import ConvolutionProblem, Epilogue, host_isa, isa_named
from tensmith.kernel.algorithm import ALGORITHMS, Kernel

SAME = (1, 1, 1, 1)
NAMES = ["direct", "gemm"]
SHAPES = [
    ConvolutionProblem(3, 14, 17, 20, (3, 3), (2, 2), SAME),
    ConvolutionProblem(5, 9, 33, 7, (3, 3), (1, 1), SAME),
    ConvolutionProblem(8, 7, 7, 13),
    ConvolutionProblem(12, 9, 6, 18, (3, 2), (1, 3), (0, 1, 2, 0), (2, 1), groups=3),
    ConvolutionProblem(11, 8, 8, 11, (3, 3), (1, 1), SAME, groups=11),
    ConvolutionProblem(1, 1, 1, 1),
    ConvolutionProblem(6, 1, 50, 10, (1, 5), (1, 1), (0, 2, 0, 2)),
]


def kernels(name: str, problem: ConvolutionProblem) -> list[Kernel]:
    """The best guess on this machine, and the last one without instructions of its own."""
    algorithm = ALGORITHMS[name]
    return [
        next(iter(algorithm.candidates(problem, host_isa()))),
        list(algorithm.candidates(problem, isa_named("generic")))[-1],
    ]


@pytest.mark.parametrize("problem", SHAPES, ids=str)
@pytest.mark.parametrize("name", NAMES)
def test_every_class_of_shape(name: str, problem: ConvolutionProblem) -> None:
    image, weights = sample(problem)
    expected, bound = reference(problem, image, weights), rounding_bound(problem, image, weights)
    for kernel in kernels(name, problem):
        assert (abs(run_kernel(kernel, image, weights, loose=True) - expected) <= bound).all(), str(kernel)


@pytest.mark.parametrize("name", NAMES)
@settings(max_examples=5, deadline=None)
@given(data=st.data())
def test_ragged_convolutions(name: str, data: st.DataObject) -> None:
    problem = drawn(data)
    image, weights = sample(problem)
    kernel = data.draw(st.sampled_from(list(ALGORITHMS[name].candidates(problem, host_isa()))))
    error = abs(run_kernel(kernel, image, weights) - reference(problem, image, weights))
    assert (error <= rounding_bound(problem, image, weights)).all()


@pytest.mark.parametrize("problem", [SHAPES[1], SHAPES[2], SHAPES[3]], ids=str)
@pytest.mark.parametrize("name", NAMES)
def test_bias_residual_and_activation(name: str, problem: ConvolutionProblem) -> None:
    image, weights = sample(problem)
    bias = np.linspace(-1, 1, problem.filters, dtype=np.float32)
    residual = sample(ConvolutionProblem(problem.filters, *problem.output, 1))[0]
    kernel = kernels(name, problem)[0]
    epilogue = Epilogue(True, kernel.target, curve("relu"))
    for loose in (False, True):
        found = run_kernel(kernel, image, weights, bias, residual, epilogue, loose=loose)
        expected = np.maximum(reference(problem, image, weights) + bias[:, None, None] + residual, 0)
        assert (abs(found - expected) <= rounding_bound(problem, image, weights) + 1e-6).all()


@pytest.mark.parametrize("name", NAMES)
def test_what_is_not_finite_stays_in_its_group_and_window(name: str) -> None:
    problem = ConvolutionProblem(6, 9, 9, 4, (3, 3), pads=SAME, groups=2)
    image, weights = sample(problem)
    for value in (np.nan, np.inf):
        image[4, 4, 4] = value
        found = run_kernel(kernels(name, problem)[0], image, weights)
        spoilt = np.zeros(found.shape, bool)
        spoilt[2:, 3:6, 3:6] = True
        assert np.array_equal(~np.isfinite(found), spoilt)


@pytest.mark.parametrize("name", NAMES)
def test_other_element_types_are_refused(name: str) -> None:
    reason = ALGORITHMS[name].refuses(ConvolutionProblem(4, 4, 4, 4, dtype="u8"), host_isa())
    assert "f32, not u8" in (reason or "")
