"""Convolutions in bfloat16 stay within their bound of the reference interpreter on every class of shape."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from emulated_tiles import emulated_tiles, tiles_of_host
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from kernel_runs import curve, drawn, reference, run_kernel, sample

from tensmith.kernel import ConvolutionProblem, Epilogue, Isa, Kernel, candidates, host_isa, isa_named
from tensmith.kernel.algorithms.amx_bf16 import AmxBf16
from tensmith.kernel.algorithms.spatial_pack import SpatialPack
from tensmith.kernel.isa import BFLOAT_TILES
from tensmith.kernel.problem import product

Array = np.ndarray[Any, Any]

SAME = (1, 1, 1, 1)
SHAPES = [
    ConvolutionProblem(32, 14, 14, 32, (3, 3), pads=SAME, dtype="bf16"),
    ConvolutionProblem(16, 9, 13, 48, (3, 3), (2, 2), SAME, dtype="bf16"),
    ConvolutionProblem(24, 7, 7, 40, dtype="bf16"),
    ConvolutionProblem(80, 9, 19, 50, dtype="bf16"),
    ConvolutionProblem(24, 8, 8, 40, (1, 1), (2, 2), dtype="bf16"),
    ConvolutionProblem(3, 17, 19, 20, (7, 7), (2, 2), (3, 3, 3, 3), dtype="bf16"),
    ConvolutionProblem(21, 11, 5, 33, (3, 2), (1, 2), (0, 1, 2, 0), (2, 1), dtype="bf16"),
    ConvolutionProblem(33, 6, 6, 20, pads=(1, 0, 1, 2), dtype="bf16"),
    ConvolutionProblem(21, 11, 5, 33, (3, 2), (1, 2), (0, 1, 2, 0), (2, 3), dtype="bf16"),
    ConvolutionProblem(64, 6, 6, 64, (3, 3), pads=SAME, groups=2, dtype="bf16"),
    ConvolutionProblem(32, 6, 6, 32, (3, 3), pads=SAME, groups=8, dtype="bf16"),
    product(1, 100, 70, "bf16"),
    product(13, 75, 37, "bf16"),
]


@dataclass(frozen=True)
class Way:
    """An algorithm, and an instruction set that it is for."""

    algorithm: type[Kernel]
    isa: Isa

    def candidates(self, problem: ConvolutionProblem) -> list[Kernel]:
        """Its kernels for a problem; none where it is refused."""
        refused = self.algorithm.refuses(problem, self.isa)
        return [] if refused else list(self.algorithm.candidates(problem, self.isa))


@pytest.fixture(params=["vectors", "emulated tiles", "tiles"])
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Way:
    """What computes in bfloat16 here."""
    if not host_isa().has_bfloat:
        pytest.skip("this CPU does not multiply bfloat16")
    if request.param == "vectors":
        return Way(SpatialPack, host_isa())
    emulated = request.param == "emulated tiles"
    return Way(AmxBf16, emulated_tiles(monkeypatch) if emulated else tiles_of_host(BFLOAT_TILES))


def bound(problem: ConvolutionProblem, image: Array, weights: Array) -> Array:
    """The algorithm's."""
    factor = (1 + 2.0**-8) ** 2 * (1 + (problem.depth + 2) * 2.0**-24) - 1
    return factor * reference(problem, abs(image), abs(weights))


@pytest.mark.parametrize("problem", SHAPES, ids=str)
def test_every_class_of_shape(problem: ConvolutionProblem, way: Way) -> None:
    image, weights = sample(problem)
    exact, allowed = reference(problem, image, weights), bound(problem, image, weights)
    tried = way.candidates(problem)
    few = problem.channels < 8
    refused = few if way.algorithm is SpatialPack else problem.groups > 1 or problem.dilations[1] > 1
    assert bool(tried) != refused
    for kernel in {kernel.source.block: kernel for kernel in reversed(tried)}.values():
        assert np.all(abs(run_kernel(kernel, image, weights) - exact) <= allowed), kernel


@settings(max_examples=10, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_random_configurations(data: st.DataObject, way: Way) -> None:
    problem = drawn(data, "bf16")
    if tried := way.candidates(problem):
        kernel = data.draw(st.sampled_from(tried))
        image, weights = sample(problem, data.draw(st.integers(0, 99)))
        error = abs(run_kernel(kernel, image, weights, loose=True) - reference(problem, image, weights))
        assert np.all(error <= bound(problem, image, weights))


def test_each_operand_is_rounded_once_to_nearest_even(way: Way) -> None:
    """What bfloat16 holds is multiplied exactly: few terms, and a bias, a residual and a clip in floats."""
    problem = ConvolutionProblem(8, 5, 6, 21, (1, 2), dtype="bf16")
    image, weights = sample(problem)
    rounded = [array.astype(ml_dtypes.bfloat16).astype(np.float64) for array in (image, weights)]
    bias = np.linspace(-1, 1, 21, dtype=np.float32)
    residual = sample(ConvolutionProblem(21, 5, 5, 1))[0]
    kernel = way.candidates(problem)[0]
    epilogue = Epilogue(True, kernel.target, curve("clip", -2.0, 2.0))
    found = run_kernel(kernel, image, weights, bias, residual, epilogue, loose=True)
    expected = np.clip(reference(problem, *rounded) + bias[:, None, None] + residual, -2, 2)
    np.testing.assert_allclose(found, expected, rtol=0, atol=20 * 2.0**-24 * 20)


def test_what_is_not_finite_stays_so_and_what_is_tiny_becomes_zero(way: Way) -> None:
    problem = ConvolutionProblem(9, 6, 6, 16, (3, 3), pads=SAME, dtype="bf16")
    image, weights = sample(problem)
    kernel = way.candidates(problem)[0]
    for value in (np.nan, np.inf):
        image[3, 2, 2] = value
        found = run_kernel(kernel, image, weights)
        expected = np.isfinite(reference(problem, image, weights))
        assert not expected.all() and np.array_equal(np.isfinite(found), expected)
    assert not run_kernel(kernel, np.full_like(image, 1e-39), np.ones_like(weights)).any()


def test_only_instruction_sets_that_multiply_bfloat16_have_it() -> None:
    problem = SHAPES[0]
    assert "no instructions for bfloat16" in str(SpatialPack.refuses(problem, isa_named("avx512")))
    isa = isa_named("avx512", ["avx512_bf16"])
    assert "_dpbf16_" in isa.prelude and "_dpbf16_" not in isa_named("avx2").prelude
    assert {kernel.name for kernel in candidates(problem, isa)} == {"spatial_pack"}
    assert "no instructions for tiles" in str(AmxBf16.refuses(problem, isa))
    tiles = isa_named("avx512", ["avx512_bf16", "amx_bf16"])
    assert "dilated" in str(AmxBf16.refuses(SHAPES[8], tiles)) and "groups" in str(
        AmxBf16.refuses(SHAPES[9], tiles)
    )
    assert min(candidates(problem, tiles), key=lambda kernel: kernel.cost().seconds()).name == "amx_bf16"
    few = ConvolutionProblem(3, 9, 9, 16, (3, 3), dtype="bf16")
    assert "fill no block" in str(SpatialPack.refuses(few, isa))


def test_odd_channels_are_paired_with_zeros() -> None:
    problem = ConvolutionProblem(9, 4, 4, 13, dtype="bf16")
    kernel = next(SpatialPack.candidates(problem, isa_named("avx512", ["avx512_bf16"])))
    weights = sample(problem)[1]
    packed = kernel.pack(weights)
    assert packed.dtype == ml_dtypes.bfloat16 and packed.size == 16 * 10
    kept = packed[packed != 0].astype(np.float32)
    assert np.array_equal(
        np.sort(kept), np.sort(weights.astype(ml_dtypes.bfloat16).astype(np.float32).reshape(-1))
    )
