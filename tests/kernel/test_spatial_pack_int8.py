"""8-bit convolutions equal ONNX's quantize-dequantize meaning of the reference interpreter."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from kernel_runs import drawn
from quantized_runs import Case, drawn_case, found, meaning, sample_case, within_one_rarely

from tensmith.errors import EngineError
from tensmith.kernel import ConvolutionProblem, Isa, host_isa, isa_named
from tensmith.kernel.algorithms.spatial_pack import SpatialPack
from tensmith.kernel.quantized import QuantizationParameters, Requantization, constants


def u8(*sizes: object, **more: object) -> ConvolutionProblem:
    return ConvolutionProblem(*sizes, dtype="u8", **more)  # type: ignore[arg-type]


SHAPES = [
    u8(32, 14, 14, 32, (3, 3), pads=(1, 1, 1, 1)),
    u8(16, 9, 13, 48, (3, 3), (2, 2), (1, 1, 1, 1)),
    u8(3, 17, 19, 20, (7, 7), (2, 2), (3, 3, 3, 3)),
    u8(1, 9, 10, 18, (3, 3), pads=(1, 1, 1, 1)),
    u8(24, 7, 7, 40),
    u8(24, 8, 8, 40, (1, 1), (2, 2)),
    u8(21, 11, 5, 33, (3, 2), (1, 2), (0, 1, 2, 0), (2, 3)),
    u8(64, 6, 6, 64, (3, 3), pads=(1, 1, 1, 1), groups=2),
    u8(32, 6, 6, 32, (3, 3), pads=(1, 1, 1, 1), groups=8),
    u8(6, 5, 5, 9, (3, 3), groups=3),
    u8(1, 1, 1, 1),
    u8(100, 1, 1, 70),
]


def isas() -> list[Isa]:
    host = host_isa()
    names = ["generic", *(["avx2"] if "avx2" in host.features else [])]
    plain = [isa_named("avx512")] if host.name == "avx512" else []
    return [host, *plain, *map(isa_named, names)]


@pytest.mark.parametrize("isa", isas(), ids=lambda isa: f"{isa.name}-{len(isa.features)}")
@pytest.mark.parametrize("problem", [*SHAPES, *(replace(p, narrow=True) for p in SHAPES[:6])], ids=str)
def test_every_class_of_shape(problem: ConvolutionProblem, isa: Isa) -> None:
    case = sample_case(problem)
    kernel = next(SpatialPack.candidates(problem, isa))
    within_one_rarely(found(kernel, case), meaning(case))


def test_bytes_are_multiplied_in_fours() -> None:
    two = replace(isa_named("generic"), lanes=2)
    assert "2 lanes" in str(SpatialPack.lacks(SHAPES[0], two))
    assert SpatialPack.lacks(SHAPES[0], isa_named("generic")) is None


@pytest.mark.parametrize("sign", [-1, 1])
def test_narrow_weights_do_not_saturate_on_the_way(sign: int) -> None:
    problem = u8(40, 3, 5, 17, narrow=True)
    image, weights = np.full((40, 3, 5), 255, np.uint8), np.full((17, 40, 1, 1), 64 * sign, np.int8)
    how = Requantization(QuantizationParameters(1.0, 0), np.ones(17, np.float32), None)
    for isa in isas():
        sums = found(next(SpatialPack.candidates(problem, isa)), Case(problem, image, weights, how))
        assert np.array_equal(sums, np.full((17, 3, 5), 40 * 255 * 64.0 * sign))


ROWS = [u8(24, 1, 7, 40), u8(18, 1, 13, 100), u8(35, 1, 1, 3), u8(96, 1, 30, 64), u8(3, 1, 5, 21)]


@pytest.mark.parametrize("isa", isas(), ids=lambda isa: f"{isa.name}-{len(isa.features)}")
@pytest.mark.parametrize("problem", ROWS, ids=str)
def test_rows_are_read_and_written_as_they_lie(problem: ConvolutionProblem, isa: Isa) -> None:
    kernels = [k for k in SpatialPack.candidates(problem, isa) if k.source.block == problem.channels]
    for seed, residual in enumerate((None, "u8", "f32")):
        for floats in (False, True):
            case = sample_case(problem, seed, residual=residual, inner=residual == "u8", floats=floats)
            within_one_rarely(found(kernels[seed % len(kernels)], case), meaning(case))


@settings(max_examples=25)
@given(st.data())
def test_random_configurations(data: st.DataObject) -> None:
    problem = drawn(data, "u8")
    isa = data.draw(st.sampled_from([host_isa(), isa_named("generic")]))
    kernel = data.draw(st.sampled_from(list(SpatialPack.candidates(problem, isa))))
    case = drawn_case(data, problem)
    within_one_rarely(found(kernel, case, loose=True), meaning(case), case.how)


def test_extreme_bytes_do_not_saturate_on_the_way() -> None:
    problem = u8(64, 1, 5, 16)
    image = np.full((64, 1, 5), 255, np.uint8)
    weights = np.full((16, 64, 1, 1), -128, np.int8)
    weights[::2] = 127
    how = Requantization(QuantizationParameters(1.0, 0), np.ones(16, np.float32), None)
    for isa in isas():
        kernel = next(SpatialPack.candidates(problem, isa))
        sums = found(kernel, Case(problem, image, weights, how))
        assert np.array_equal(sums[0], np.full((1, 5), 64 * 255 * 127.0))
        assert np.array_equal(sums[1], np.full((1, 5), 64 * 255 * -128.0))


def test_halves_go_to_even_whatever_the_zero_point() -> None:
    problem = u8(4, 1, 8, 16)
    image = np.zeros((4, 1, 8), np.uint8)
    image[0, 0] = np.arange(8)
    weights = np.zeros((16, 4, 1, 1), np.int8)
    weights[:, 0] = 1
    for zero_point in (0, 1):
        how = Requantization(
            QuantizationParameters(0.5, 0), np.ones(16, np.float32), QuantizationParameters(1.0, zero_point)
        )
        for isa in isas():
            kernel = next(SpatialPack.candidates(problem, isa))
            bytes_ = found(kernel, Case(problem, image, weights, how))
            assert list(bytes_[0, 0] - zero_point) == [0, 0, 1, 2, 2, 2, 3, 4]


@pytest.mark.parametrize("scale", [2**20, -(2**20)])
def test_results_beyond_32_bits_are_refused(scale: float) -> None:
    problem = u8(16, 1, 1, 16)
    weights = np.full((16, 16, 1, 1), 127, np.int8)
    grid = QuantizationParameters(1.0, 0)
    how = Requantization(grid, np.full(16, scale, np.float32), grid)
    with pytest.raises(EngineError, match="do not fit 32 bits"):
        constants(problem, host_isa(), weights, how, curved=False)


def test_sums_beyond_32_bits_are_refused() -> None:
    problem = u8(16, 1, 1, 16)
    weights = np.full((16, 16, 1, 1), 127, np.int8)
    how = Requantization(
        QuantizationParameters(1.0, 0), np.ones(16, np.float32), None, np.full(16, 2**31 - 10, np.int32)
    )
    with pytest.raises(EngineError, match="do not fit 32 bits"):
        constants(problem, host_isa(), weights, how, curved=False)
