"""Products by codes equal the reference interpreter on the weights that the codes stand for."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from kernel_runs import curve, reference, run_kernel

from tensmith.kernel import ConvolutionProblem, Epilogue, candidates, host_isa, isa_named
from tensmith.kernel.algorithms.coded_product import CodedProduct
from tensmith.kernel.codes import coded
from tensmith.kernel.problem import product

Array = np.ndarray[Any, Any]

# Ragged rows, depths and columns; one scale for all channels, blocks, a last block that is not full.
SHAPES = [
    product(1, 64, 48, "i4", 32),
    product(1, 100, 70, "u4", 32),
    product(3, 75, 33, "u4", 16),
    product(5, 67, 19, "i4", 67),
    product(17, 96, 100, "i4", 256),
    product(2, 50, 16, "i8", 16),
    product(9, 33, 5, "i8", 33),
    product(1, 1, 1, "u4", 16),
]


def sample(problem: ConvolutionProblem, seed: int = 0) -> tuple[Array, Array]:
    """A random matrix as an image, and random codes."""
    random = np.random.default_rng(seed)
    blocks = -(-problem.channels // problem.block)
    low, high = (-127, 128) if problem.dtype == "i8" else (-8, 8)
    codes = random.integers(low, high, (problem.filters, problem.channels))
    zeros = random.integers(-8, 8, (problem.filters, blocks)) if problem.dtype == "u4" else None
    scales = random.uniform(0.01, 1, (problem.filters, blocks)).astype(np.float32)
    image = random.standard_normal((problem.channels, 1, problem.width), np.float32)
    return image, coded(codes, scales, zeros, problem.block)


def floats(weights: Array) -> Array:
    """What codes stand for."""
    return np.asarray((weights["code"] - weights["zero"].astype(np.float64)) * weights["scale"])


def bound(problem: ConvolutionProblem, image: Array, weights: Array) -> Array:
    """The algorithm's."""
    most = (abs(weights["code"].astype(np.float64)) + abs(weights["zero"].astype(np.float64))) * weights[
        "scale"
    ]
    blocks = -(-problem.channels // problem.block)
    return (problem.depth + blocks + 4) * 2.0**-24 * reference(problem, abs(image), most)


def check(kernel: CodedProduct, loose: bool = False) -> None:
    problem = kernel.problem
    image, weights = sample(problem)
    error = abs(run_kernel(kernel, image, weights, loose=loose) - reference(problem, image, floats(weights)))
    assert np.all(error <= bound(problem, image, weights))


@pytest.mark.parametrize("problem", SHAPES, ids=str)
@pytest.mark.parametrize("name", ["avx512", "avx2", "generic"])
def test_every_class_of_shape(problem: ConvolutionProblem, name: str) -> None:
    if not isa_named(name).needs <= host_isa().features:
        pytest.skip(f"this CPU has no {name}")
    check(next(CodedProduct.candidates(problem, isa_named(name))))


@settings(max_examples=10)
@given(st.data())
def test_random_configurations(data: st.DataObject) -> None:
    rows, inner, columns = (data.draw(st.integers(1, most)) for most in (20, 90, 90))
    dtype = data.draw(st.sampled_from(["i4", "u4", "i8"]))
    problem = product(rows, inner, columns, dtype, data.draw(st.sampled_from([16, 32, 64, 128])))
    check(data.draw(st.sampled_from(list(CodedProduct.candidates(problem, host_isa())))), loose=True)


def test_bias_residual_and_activation_in_one_go() -> None:
    problem = SHAPES[2]
    image, weights = sample(problem)
    bias = np.linspace(-1, 1, problem.filters, dtype=np.float32)
    residual = np.random.default_rng(1).standard_normal((problem.filters, 1, 3)).astype(np.float32)
    kernel = next(CodedProduct.candidates(problem, host_isa()))
    epilogue = Epilogue(True, kernel.target, curve("relu"))
    found = run_kernel(kernel, image, weights, bias, residual, epilogue)
    sums = reference(problem, image, floats(weights)) + bias[:, None, None] + residual
    assert np.all(abs(found - np.maximum(sums, 0)) <= bound(problem, image, weights) + 1e-6 * (1 + abs(sums)))


@pytest.mark.parametrize("problem", SHAPES[3:5], ids=str)
def test_what_is_not_finite_reaches_its_row_alone(problem: ConvolutionProblem) -> None:
    image, weights = sample(problem)
    kernel = next(CodedProduct.candidates(problem, host_isa()))
    for value in (np.nan, np.inf):
        image[3, 0, 2] = value
        found = run_kernel(kernel, image, weights)
        with np.errstate(invalid="ignore"):
            expected = reference(problem, image, floats(weights))
        np.testing.assert_array_equal(np.isfinite(found), np.isfinite(expected))
        assert not np.isfinite(found[:, 0, 2]).any() and np.isfinite(np.delete(found, 2, 2)).all()


def test_weights_stay_packed() -> None:
    problem = product(1, 768, 64, "i4", 32)
    packed = next(CodedProduct.candidates(problem, host_isa())).pack(sample(problem)[1])
    assert packed.nbytes == 768 * 64 / 2 + 4 * 64 * 768 / 32


def test_what_it_does_not_take() -> None:
    isa = host_isa()
    assert "not f32" in str(CodedProduct.refuses(product(1, 64, 64), isa))
    assert "no multiple of 8" in str(CodedProduct.refuses(product(1, 64, 64, "i4", 12), isa))
    assert "matrices alone" in str(
        CodedProduct.refuses(ConvolutionProblem(8, 3, 3, 8, dtype="i4", block=8), isa)
    )
    assert {kernel.name for kernel in candidates(SHAPES[0], isa)} == {"coded_product"}
