"""spatial_pack equals the reference interpreter on every class of shape."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from kernel_runs import curve, drawn, reference, rounding_bound, run_kernel, sample

from tensmith.kernel import ConvolutionProblem, Epilogue, host_isa, isa_named
from tensmith.kernel.algorithms.spatial_pack import SpatialPack
from tensmith.kernel.groups import wide_groups
from tensmith.kernel.problem import product
from tensmith.kernel.tiles import tiles

SHAPES = [
    ConvolutionProblem(32, 14, 14, 32, (3, 3), pads=(1, 1, 1, 1)),
    ConvolutionProblem(16, 9, 13, 48, (3, 3), (2, 2), (1, 1, 1, 1)),
    ConvolutionProblem(3, 17, 19, 20, (7, 7), (2, 2), (3, 3, 3, 3)),
    ConvolutionProblem(24, 7, 7, 40),
    ConvolutionProblem(24, 8, 8, 40, (1, 1), (2, 2)),
    ConvolutionProblem(20, 11, 5, 33, (3, 2), (1, 2), (0, 1, 2, 0), (2, 3)),
    ConvolutionProblem(64, 6, 6, 64, (3, 3), pads=(1, 1, 1, 1), groups=2),
    ConvolutionProblem(32, 6, 6, 32, (3, 3), pads=(1, 1, 1, 1), groups=8),
    ConvolutionProblem(6, 5, 5, 9, (3, 3), groups=3),
    ConvolutionProblem(1, 1, 1, 1),
    product(1, 100, 70),
    product(13, 48, 64),
]  # fmt: skip


@pytest.mark.parametrize("problem", SHAPES, ids=str)
def test_every_class_of_shape(problem: ConvolutionProblem) -> None:
    image, weights = sample(problem)
    best = next(SpatialPack.candidates(problem, host_isa()))
    error = abs(run_kernel(best, image, weights) - reference(problem, image, weights))
    assert np.all(error <= rounding_bound(problem, image, weights))


@pytest.mark.parametrize("name", ["generic", "avx2"])
def test_other_instruction_sets(name: str) -> None:
    if name == "avx2" and "avx2" not in host_isa().features:
        pytest.skip("this CPU has no AVX2")
    problem = SHAPES[5]
    image, weights = sample(problem)
    best = next(SpatialPack.candidates(problem, isa_named(name)))
    error = abs(run_kernel(best, image, weights, loose=True) - reference(problem, image, weights))
    assert np.all(error <= rounding_bound(problem, image, weights))


@settings(max_examples=12)
@given(st.data())
def test_random_configurations(data: st.DataObject) -> None:
    problem = drawn(data)
    kernel = data.draw(st.sampled_from(list(SpatialPack.candidates(problem, host_isa()))))
    image, weights = sample(problem, data.draw(st.integers(0, 99)))
    error = abs(run_kernel(kernel, image, weights, loose=True) - reference(problem, image, weights))
    assert np.all(error <= rounding_bound(problem, image, weights))


def test_bias_residual_and_activation_in_one_go() -> None:
    problem = SHAPES[1]
    image, weights = sample(problem)
    bias = np.linspace(-1, 1, problem.filters, dtype=np.float32)
    residual = sample(ConvolutionProblem(problem.filters, *problem.output, 1))[0]
    kernel = next(SpatialPack.candidates(problem, host_isa()))
    for activation, meaning in (
        (curve("relu"), lambda v: np.maximum(v, 0)),
        (curve("clip", -0.5, 6.0), lambda v: np.clip(v, -0.5, 6)),
        (curve("leaky_relu", alpha=0.1), lambda v: np.where(v < 0, 0.1 * v, v)),
        (curve("hard_swish"), lambda v: v * np.clip(v / 6 + 0.5, 0, 1)),
    ):
        epilogue = Epilogue(True, kernel.target, activation)
        found = run_kernel(kernel, image, weights, bias, residual, epilogue, loose=True)
        expected = meaning(reference(problem, image, weights) + bias[:, None, None] + residual)
        slack = 1e-6 * (1 + abs(expected)) * 8
        bound = rounding_bound(problem, image, weights)
        # hard_swish is no contraction: its slope is at most 1.5 inside [-3, 3], and 1 beyond.
        assert np.all(abs(found - expected) <= 1.5 * bound + slack), activation


def test_nan_and_infinity_reach_exactly_their_windows() -> None:
    problem = ConvolutionProblem(16, 8, 8, 16, (3, 3), pads=(1, 1, 1, 1))
    image, weights = sample(problem)
    kernel = next(SpatialPack.candidates(problem, host_isa()))
    for value in (np.nan, np.inf):
        image[3, 4, 4] = value
        found = run_kernel(kernel, image, weights, epilogue=Epilogue(activation=curve("clip", -9e9, 9e9)))
        spoilt = np.zeros((8, 8), bool)
        spoilt[3:6, 3:6] = True
        if np.isnan(value):
            assert np.array_equal(np.isnan(found).all(0), spoilt)
            assert np.array_equal(np.isnan(found).any(0), spoilt)
        else:
            assert np.array_equal((abs(found) == np.float32(9e9)).all(0), spoilt)


def test_tiles_cover_an_image_once() -> None:
    for image in ((7, 7), (55, 55), (1, 49), (3, 100), (8, 8)):
        for positions in (1, 5, 14, 28):
            covered = sum(rows * columns * count for (rows, columns), count in tiles(image, positions))
            assert covered == image[0] * image[1]


def test_narrow_groups_are_joined_until_they_fill_vectors() -> None:
    assert wide_groups(ConvolutionProblem(128, 1, 1, 128, groups=32), 16) == (8, 16, 16)
    assert wide_groups(ConvolutionProblem(64, 1, 1, 128, groups=2), 16) == (2, 32, 64)
    assert wide_groups(ConvolutionProblem(6, 1, 1, 9, groups=3), 16) == (1, 6, 9)
