"""8-bit depthwise convolutions equal ONNX's quantize-dequantize meaning."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from quantized_runs import Case, found, meaning, sample_case, within_one_rarely

from tensmith.kernel import ConvolutionProblem, Isa, host_isa, isa_named
from tensmith.kernel.algorithms.depthwise_int8 import DepthwiseInt8
from tensmith.kernel.quantized import QuantizationParameters, Requantization


def u8(channels: int, height: int, width: int, *sizes: object, **more: object) -> ConvolutionProblem:
    return ConvolutionProblem(channels, height, width, channels, *sizes, groups=channels, dtype="u8", **more)  # type: ignore[arg-type]


SHAPES = [
    u8(32, 14, 14, (3, 3), pads=(1, 1, 1, 1)),
    u8(20, 15, 13, (3, 3), (2, 2), (1, 1, 1, 1)),
    u8(40, 7, 7, (5, 5), pads=(2, 2, 2, 2)),
    u8(17, 9, 11, (5, 4), (2, 3), (0, 1, 2, 3)),
    u8(16, 12, 9, (3, 2), (1, 1), (2, 0, 2, 1), (2, 1)),
    u8(3, 2, 1, (2, 1)),
]
ISAS = [host_isa(), isa_named("generic"), *([isa_named("avx2")] if "avx2" in host_isa().features else [])]


@pytest.mark.parametrize("isa", ISAS, ids=lambda isa: isa.name)
@pytest.mark.parametrize("problem", [*SHAPES, *(replace(p, narrow=True) for p in SHAPES[:3])], ids=str)
def test_every_class_of_shape(problem: ConvolutionProblem, isa: Isa) -> None:
    for seed, kernel in enumerate(DepthwiseInt8.candidates(problem, isa)):
        case = sample_case(problem, seed, inner=seed == 1, residual="u8" if seed == 2 else None)
        within_one_rarely(found(kernel, case, loose=seed == 1), meaning(case))


@pytest.mark.parametrize(("weight", "narrow"), [(-128, False), (-64, True), (64, True)])
def test_extreme_bytes_do_not_saturate_on_the_way(weight: int, narrow: bool) -> None:
    problem = u8(16, 3, 5, (3, 3), narrow=narrow)
    image, weights = np.full((16, 3, 5), 255, np.uint8), np.full((16, 1, 3, 3), weight, np.int8)
    how = Requantization(QuantizationParameters(1.0, 0), np.ones(16, np.float32), None)
    for isa in ISAS:
        kernel = next(DepthwiseInt8.candidates(problem, isa))
        sums = found(kernel, Case(problem, image, weights, how))
        assert np.array_equal(sums, np.full((16, 1, 3), 9 * 255 * float(weight)))


def test_what_is_not_depthwise_is_refused() -> None:
    reason = DepthwiseInt8.refuses(ConvolutionProblem(8, 3, 3, 16, groups=8, dtype="u8"), host_isa())
    assert reason == "its groups hold more than one channel"
    assert "dilated" in (DepthwiseInt8.refuses(u8(8, 3, 3, dilations=(1, 2)), host_isa()) or "")
