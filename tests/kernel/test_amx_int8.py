"""8-bit convolutions by tile registers equal the reference interpreter's quantize-dequantize programs."""

from __future__ import annotations

import re
from dataclasses import replace

import numpy as np
import pytest
from emulated_tiles import emulated_tiles, tiles_of_host
from hypothesis import given, settings
from hypothesis import strategies as st
from kernel_runs import drawn
from quantized_runs import Case, drawn_case, found, meaning, sample_case, within_one_rarely

from tensmith.kernel import ConvolutionProblem, Isa, candidates, host_isa, isa_named
from tensmith.kernel.algorithms.amx_int8 import AmxInt8
from tensmith.kernel.algorithms.spatial_pack import SpatialPack
from tensmith.kernel.isa import TILES
from tensmith.kernel.quantized import QuantizationParameters, Requantization
from tensmith.kernel.tile_sets import TileSets

pytestmark = pytest.mark.skipif(host_isa().name != "avx512", reason="tile registers come with AVX-512 alone")


def u8(*sizes: object, **more: object) -> ConvolutionProblem:
    return ConvolutionProblem(*sizes, dtype="u8", **more)  # type: ignore[arg-type]


SHAPES = [
    u8(32, 14, 14, 32, (3, 3), pads=(1, 1, 1, 1)),
    u8(16, 9, 13, 48, (3, 3), (2, 2), (1, 1, 1, 1)),
    u8(32, 35, 35, 32, (3, 3), pads=(1, 1, 1, 1)),
    u8(3, 17, 19, 20, (7, 7), (2, 2), (3, 3, 3, 3)),
    u8(1, 9, 10, 18, (3, 3), pads=(1, 1, 1, 1)),
    u8(24, 7, 7, 40),
    u8(200, 9, 19, 50),
    u8(24, 8, 8, 40, (1, 1), (2, 2)),
    u8(48, 6, 6, 20, pads=(1, 0, 1, 2)),
    u8(21, 11, 5, 33, (3, 2), (1, 2), (0, 1, 2, 0), (2, 1)),
    u8(32, 9, 40, 16, (1, 5), pads=(0, 2, 0, 2)),
    u8(64, 6, 6, 64, (3, 3), pads=(1, 1, 1, 1), groups=2),
    u8(64, 6, 6, 96, groups=2),
    u8(32, 6, 6, 32, (3, 3), pads=(1, 1, 1, 1), groups=8),
    u8(1, 1, 1, 1),
    u8(1, 1, 40, 3),
    u8(35, 1, 1, 3),
    u8(18, 1, 13, 100),
    u8(96, 1, 30, 64),
    u8(512, 7, 7, 512, (3, 3), pads=(1, 1, 1, 1)),
]


@pytest.fixture(params=["emulated", "as they are"])
def isa(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Isa:
    """An instruction set with tile registers."""
    return emulated_tiles(monkeypatch) if request.param == "emulated" else tiles_of_host()


@pytest.mark.parametrize("problem", SHAPES, ids=str)
def test_every_class_of_shape(problem: ConvolutionProblem, isa: Isa) -> None:
    kernels = list(AmxInt8.candidates(problem, isa))
    layouts = {(kernel.block, kernel.written) for kernel in kernels if isinstance(kernel, AmxInt8)}
    for seed, (block, written) in enumerate(sorted(layouts)):
        alike = [
            kernel for kernel in kernels if (kernel.source.block, kernel.target.block) == (block, written)
        ]
        case = sample_case(problem, seed, residual=[None, "u8", "f32"][seed % 3])
        for kernel in alike[:: len(alike) - 1 or 1]:
            within_one_rarely(found(kernel, case, loose=seed % 2 == 1), meaning(case))


@settings(max_examples=25)
@given(st.data())
def test_random_configurations(data: st.DataObject) -> None:
    isa, problem = tiles_of_host(), drawn(data, "u8")
    kernels = [] if AmxInt8.refuses(problem, isa) else list(AmxInt8.candidates(problem, isa))
    for kernel in kernels and [data.draw(st.sampled_from(kernels))]:
        case = drawn_case(data, problem)
        within_one_rarely(found(kernel, case, loose=True), meaning(case), case.how)


def test_bytes_are_those_of_vectors(isa: Isa) -> None:
    case = sample_case(SHAPES[2], residual="u8", inner=True)
    plain = isa_named("avx512", host_isa().features - {TILES})
    tiles, vectors = (
        found(next(kind.candidates(case.problem, each)), case)
        for kind, each in ((AmxInt8, isa), (SpatialPack, plain))
    )
    assert np.array_equal(tiles, vectors)


def test_extreme_bytes_do_not_saturate_on_the_way(isa: Isa) -> None:
    problem = u8(64, 1, 5, 16)
    image, weights = np.full((64, 1, 5), 255, np.uint8), np.full((16, 64, 1, 1), -128, np.int8)
    weights[::2] = 127
    how = Requantization(QuantizationParameters(1.0, 0), np.ones(16, np.float32), None)
    for kernel in AmxInt8.candidates(problem, isa):
        sums = found(kernel, Case(problem, image, weights, how))
        assert np.array_equal(sums[:2, 0, 0], [64 * 255 * 127.0, 64 * 255 * -128.0])


def test_it_is_chosen_where_there_are_tiles(isa: Isa) -> None:
    problem = u8(64, 14, 14, 64, (3, 3), pads=(1, 1, 1, 1))
    assert min(candidates(problem, isa), key=lambda kernel: kernel.cost().seconds()).name == "amx_int8"


def test_what_it_refuses(isa: Isa) -> None:
    assert "dilated" in str(AmxInt8.refuses(u8(16, 9, 9, 16, (3, 3), dilations=(1, 2)), isa))
    assert "no instructions" in str(AmxInt8.refuses(SHAPES[0], isa_named("avx512")))
    assert "f32" in str(AmxInt8.refuses(replace(SHAPES[0], dtype="f32"), isa))


@given(st.integers(1, 40), st.integers(1, 80), st.integers(1, 8))
def test_tiles_cover_an_image(height: int, width: int, most: int) -> None:
    sets = TileSets(height, width, 16, most)
    seen = np.zeros((height, width), int)
    text = sets.walk("{number}", 0)
    tiles = list(sets.counted)
    for top, bottom, rows, inner in re.findall(
        r"for \(int i = (\d+); i < (\d+); i \+= (\d+)\) \{\n(.*?)\n\}", text, re.DOTALL
    ):
        for i in range(int(top), int(bottom), int(rows)):
            for first, last, step, number in re.findall(
                r"int j = (\d+); j < (\d+); j \+= (\d+)\)\s+(\d+)", inner
            ):
                for j in range(int(first), int(last), int(step)):
                    for down, along in tiles[int(number)].places:
                        seen[i + down, j + along : j + along + sets.length] += 1
                        assert j + along + sets.length <= width
    assert (seen > 0).all()
    assert (seen.max() > 1) == sets.overlap
    assert sum(sets.counted.values()) * most >= height * width / sets.length
