"""Kernels for halves: where they run, and what they refuse. test_aarch64 runs them under an emulator."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from tensmith.errors import EngineError
from tensmith.kernel import ConvolutionProblem, Epilogue, Isa, candidates, isa_named
from tensmith.kernel.algorithms.spatial_pack import SpatialPack

ARM = isa_named("neon", ["fp16"])
PROBLEM = ConvolutionProblem(5, 7, 6, 13, (3, 3), pads=(1, 1, 1, 1), dtype="f16")


@pytest.mark.parametrize(
    "isa", [isa_named("neon"), isa_named("avx2"), isa_named("generic")], ids=lambda i: i.name
)
def test_only_instruction_sets_that_multiply_halves_have_them(isa: Isa) -> None:
    assert "no instructions for halves" in str(SpatialPack.refuses(PROBLEM, isa))
    assert "_Float16" not in isa.prelude and "_Float16" in ARM.prelude


def test_halves_are_never_taken_for_floats() -> None:
    def text(problem: ConvolutionProblem) -> str:
        kernel = next(SpatialPack.candidates(problem, ARM))
        return kernel.code("kernel", kernel.source, kernel.target, Epilogue())

    assert {kernel.name for kernel in candidates(PROBLEM, ARM)} == {"spatial_pack"}
    assert "half" in text(PROBLEM) and "half" not in text(replace(PROBLEM, dtype="f32"))


def test_weights_are_halves_in_whole_vectors() -> None:
    kernel = next(SpatialPack.candidates(PROBLEM, ARM))
    weights = np.random.default_rng(0).standard_normal((13, 5, 3, 3)).astype(np.float32)
    packed = kernel.pack(weights)
    assert packed.dtype == np.float16 and packed.size == 16 * 5 * 9
    assert np.array_equal(np.sort(packed[packed != 0]), np.sort(weights.astype(np.float16).reshape(-1)))


def test_a_weight_beyond_the_range_is_refused() -> None:
    weights = np.full((13, 5, 3, 3), 7e4, np.float32)
    with pytest.raises(EngineError, match="beyond 65504"):
        next(SpatialPack.candidates(PROBLEM, ARM)).pack(weights)
