"""The sparse algorithm equals the reference interpreter, whatever is zero and however ragged the shape."""

from __future__ import annotations

import ctypes
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from kernel_runs import curve, drawn, fitted, reference, rounding_bound, run_kernel, sample

from tensmith.kernel import ConvolutionProblem, Epilogue, Isa, Kernel, candidates, host_isa, isa_named
from tensmith.kernel.algorithms.sparse import SparseKernel
from tensmith.kernel.problem import product
from tensmith.kernel.runs import pieces
from tensmith.kernel.sparse_stream import density, pack_stream, strips
from tensmith.kernel.toolchain import compile_library

Array = np.ndarray[Any, Any]

SHAPES = [
    ConvolutionProblem(32, 14, 14, 32, (3, 3), pads=(1, 1, 1, 1)),
    ConvolutionProblem(16, 9, 13, 48, (3, 3), (2, 2), (1, 1, 1, 1)),
    ConvolutionProblem(3, 40, 70, 20, (7, 7), (2, 2), (3, 3, 3, 3)),
    ConvolutionProblem(24, 7, 7, 40),
    ConvolutionProblem(24, 16, 24, 9),
    ConvolutionProblem(24, 8, 8, 40, (1, 1), (2, 2)),
    ConvolutionProblem(20, 11, 5, 33, (3, 2), (1, 3), (0, 1, 2, 0), (2, 3)),
    ConvolutionProblem(64, 6, 6, 64, (3, 3), pads=(1, 1, 1, 1), groups=2),
    ConvolutionProblem(6, 5, 5, 9, (3, 3), groups=3),
    ConvolutionProblem(1, 1, 1, 1),
    product(1, 100, 70),
    product(13, 48, 64),
]  # fmt: skip


def pruned(
    problem: ConvolutionProblem, share: float, seed: int = 0
) -> tuple[ConvolutionProblem, Array, Array]:
    """The problem with its density, an image, and weights of which about `share` is left."""
    image, weights = sample(problem, seed)
    left = np.random.default_rng(seed).random(weights.shape) < share
    weights = np.where(left, weights, np.float32(0))
    return replace(problem, density=min(0.5, density(weights))), image, weights


def check(kernel: Kernel, image: Array, weights: Array, loose: bool = False) -> None:
    """Fails if the kernel is further from the interpreter than rounding explains."""
    error = abs(run_kernel(kernel, image, weights, loose=loose) - reference(kernel.problem, image, weights))
    assert np.all(error <= rounding_bound(kernel.problem, image, weights))


def first(problem: ConvolutionProblem) -> Kernel:
    """The best guess."""
    return next(SparseKernel.candidates(problem, host_isa()))


@pytest.mark.parametrize("problem", SHAPES, ids=str)
def test_every_class_of_shape(problem: ConvolutionProblem) -> None:
    problem, image, weights = pruned(problem, 0.2)
    check(first(problem), image, weights)


@pytest.mark.parametrize("name", ["generic", "avx2"])
def test_other_instruction_sets(name: str) -> None:
    if name == "avx2" and "avx2" not in host_isa().features:
        pytest.skip("this CPU has no AVX2")
    problem, image, weights = pruned(SHAPES[1], 0.3)
    check(next(SparseKernel.candidates(problem, isa_named(name))), image, weights, loose=True)


def blocks(
    problem: ConvolutionProblem, tall: int, wide: int, share: float
) -> tuple[ConvolutionProblem, Array, Array]:
    """The problem, an image, and weights whose zeros lie in blocks of filters x channels."""
    image, weights = sample(problem)
    filters, channels, *window = weights.shape
    kept = np.random.default_rng(7).random((-(-filters // tall), -(-channels // wide), *window)) < share
    weights = weights * np.repeat(np.repeat(kept, tall, 0), wide, 1)[:filters, :channels]
    return replace(problem, density=density(weights), strips=strips(weights)), image, weights


@pytest.mark.parametrize("shape", [SHAPES[0], SHAPES[3], SHAPES[7], SHAPES[10]], ids=str)
@pytest.mark.parametrize(("tall", "wide"), [(16, 1), (4, 4)])
def test_zeros_of_neighbouring_filters_are_used(shape: ConvolutionProblem, tall: int, wide: int) -> None:
    problem, image, weights = blocks(shape, tall, wide, 0.2)
    for kernel in (first_of_strips(problem, host_isa()), next(SparseKernel.candidates(problem, host_isa()))):
        check(kernel, image, weights)
        check(kernel, image, weights, loose=True)
    if shape.filters // shape.groups % 4 == 0:
        wide_registers = isa_named("avx512")
        assert next(SparseKernel.candidates(problem, wide_registers)) == first_of_strips(
            problem, wide_registers
        )


def first_of_strips(problem: ConvolutionProblem, isa: Isa) -> Kernel:
    """The likeliest kernel that looks at four filters at once, where they come in fours."""
    found = [kernel for kernel in SparseKernel.candidates(problem, isa) if kernel.parameters["strip"] == 4]
    return found[0] if found else next(SparseKernel.candidates(problem, isa))


def test_strips_are_not_asked_for_where_zeros_lie_anywhere() -> None:
    problem, _, weights = pruned(SHAPES[0], 0.1)
    problem = replace(problem, strips=strips(weights))
    assert 0.25 < problem.strips < 0.45
    assert "strip 1" in str(first(problem))


@settings(max_examples=12)
@given(st.data())
def test_random_configurations(data: st.DataObject) -> None:
    shape = drawn(data)
    problem, image, weights = pruned(shape, data.draw(st.floats(0, 1)), data.draw(st.integers(0, 99)))
    kernel = data.draw(st.sampled_from(list(SparseKernel.candidates(problem, host_isa()))))
    check(kernel, image, weights, loose=True)


def test_any_cut_into_tiles_and_blocks() -> None:
    problem, image, weights = pruned(ConvolutionProblem(10, 9, 7, 5, (3, 3), pads=(1, 1, 1, 1)), 0.3)
    for positions in (7, 21, 63):
        for block in (1, 3, 10):
            check(SparseKernel(problem, host_isa(), positions, block), image, weights)
    problem, image, weights = pruned(ConvolutionProblem(10, 9, 7, 8, (3, 3), pads=(1, 1, 1, 1)), 0.3)
    for block in (1, 3, 10):
        check(SparseKernel(problem, host_isa(), 63, block, 4), image, weights)


def test_filters_and_layers_of_zeros_alone() -> None:
    problem, image, weights = pruned(SHAPES[0], 0.4)
    weights[::3] = 0
    check(first(problem), image, weights)
    empty = replace(problem, density=0.0)
    assert np.array_equal(run_kernel(first(empty), image, np.zeros_like(weights)), np.zeros((32, 14, 14)))


def test_bias_residual_and_activation_in_one_go() -> None:
    for shape in (SHAPES[1], SHAPES[3], SHAPES[4], SHAPES[10]):
        problem, image, weights = pruned(shape, 0.3)
        bias = np.linspace(-1, 1, problem.filters, dtype=np.float32)
        residual = sample(ConvolutionProblem(problem.filters, *problem.output, 1))[0]
        kernel = first(problem)
        epilogue = Epilogue(True, kernel.target, curve("relu"))
        expected = np.maximum(reference(problem, image, weights) + bias[:, None, None] + residual, 0)
        slack = 1e-6 * (1 + abs(expected))
        for loose in (False, True):
            found = run_kernel(kernel, image, weights, bias, residual, epilogue, loose=loose)
            assert np.all(abs(found - expected) <= rounding_bound(problem, image, weights) + slack)


def test_nan_and_infinity_reach_what_multiplies_them_and_nothing_else() -> None:
    problem, image, weights = pruned(ConvolutionProblem(16, 8, 8, 24, (3, 3), pads=(1, 1, 1, 1)), 0.3)
    for value in (np.nan, np.inf):
        image[0, 0, 0], image[3, 4, 4] = value, value
        found = run_kernel(first(problem), image, weights)
        touched = np.zeros((24, 8, 8), bool)
        for u in range(3):
            for v in range(3):
                touched[:, 5 - u, 5 - v] |= weights[:, 3, u, v] != 0
                if u < 2 and v < 2:
                    touched[:, 1 - u, 1 - v] |= weights[:, 0, u, v] != 0
        assert np.array_equal(~np.isfinite(found), touched)


def test_one_compiled_kernel_takes_any_pattern() -> None:
    """Compressed rows are read at run time: other zeros, and other numbers of them, need no other code."""
    kernel = first(replace(SHAPES[0], density=0.2))
    made = fitted(kernel, Epilogue())
    library = compile_library(kernel.isa.prelude + made.text("entry"), kernel.isa)
    function = ctypes.CDLL(str(library)).entry
    for seed, share in ((1, 0.05), (2, 0.2), (3, 0.45), (4, 0.0)):
        problem, image, weights = pruned(SHAPES[0], share, seed)
        error = abs(made.run(function, image, weights, None, None) - reference(problem, image, weights))
        assert np.all(error <= rounding_bound(problem, image, weights))


def test_it_is_offered_for_sparse_weights_alone() -> None:
    for share, offered in ((1.0, False), (0.5, True), (0.0, True)):
        problem = replace(SHAPES[0], density=share)
        assert any(kernel.name == "sparse" for kernel in candidates(problem, host_isa())) == offered
    assert SparseKernel.refuses(replace(SHAPES[0], dtype="u8", density=0.1), host_isa())


def test_density_is_known_for_sparse_weights_alone() -> None:
    assert density(np.array([0.0, 1.0, 0.0])) == 0.33
    assert density(np.array([0.0, 1.0, 2.0])) == 1.0
    assert density(np.zeros(7)) == 0.0


def test_the_stream_holds_each_weight_once_and_whole_steps() -> None:
    weights = np.array([[1.0, 0.0, 2.0, 3.0], [0.0, 0.0, 0.0, 0.0], [0.0, 4.0, 0.0, 0.0]])
    raw = pack_stream(weights, 1, 3, 8, 2)
    header = raw.view(np.uint8)[: 4 * 7].view(np.int32)
    assert header.tolist() == [6, 2, 0, 2, 2, 0, 0]
    values = raw[4 * 7 : 4 * 13].view(np.float32)
    places = raw[4 * 13 :].view(np.uint16)
    assert values.tolist() == [1.0, 2.0, 4.0, 0.0, 3.0, 0.0]
    assert places.tolist() == [8, 24, 16, 0, 8, 0]


def test_a_strip_stores_the_weights_of_all_its_filters() -> None:
    weights = np.array([[1.0, 0.0, 2.0], [0.0, 0.0, 3.0], [0.0, 4.0, 0.0], [0.0, 0.0, 0.0]])
    raw = pack_stream(weights, 1, 3, 8, 1, strip=2).view(np.uint8)
    assert raw[:12].view(np.int32).tolist() == [6, 2, 1]
    assert raw[12:36].view(np.float32).tolist() == [1.0, 0.0, 2.0, 3.0, 4.0, 0.0]
    assert raw[36:].view(np.uint16).tolist() == [8, 24, 16]


def test_pieces_hold_a_run_with_the_narrowest_end() -> None:
    assert pieces(49, 16) == [(0, 16), (16, 16), (32, 16), (48, 1)]
    assert pieces(22, 16) == [(0, 16), (16, 8)]
    assert pieces(7, 4) == [(0, 4), (4, 4)]
    assert pieces(3, 8) == [(0, 4)]
