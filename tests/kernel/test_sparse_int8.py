"""Sparse 8-bit convolutions mean what the interpreter says, and give the dense kernel's bytes to the bit."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from kernel_runs import drawn
from quantized_runs import Case, drawn_case, found, meaning, sample_case, within_one_rarely

from tensmith.kernel import ConvolutionProblem, Isa, candidates, host_isa, isa_named
from tensmith.kernel.algorithms.sparse_int8 import SparseInt8
from tensmith.kernel.algorithms.spatial_pack import SpatialPack
from tensmith.kernel.isa import BFLOAT_TILES, TILES
from tensmith.kernel.sparse_stream import pack_quads, quads

Array = np.ndarray[Any, Any]


def u8(*sizes: object, **more: object) -> ConvolutionProblem:
    return ConvolutionProblem(*sizes, dtype="u8", density=0.2, **more)  # type: ignore[arg-type]


SHAPES = [
    u8(32, 14, 14, 32, (3, 3), pads=(1, 1, 1, 1)),
    u8(16, 9, 13, 48, (3, 3), (2, 2), (1, 1, 1, 1)),
    u8(3, 20, 70, 20, (7, 7), (2, 2), (3, 3, 3, 3)),
    u8(24, 16, 24, 9),
    u8(21, 11, 5, 33, (3, 2), (1, 3), (0, 1, 2, 0), (2, 3)),
    u8(6, 5, 5, 9, (3, 3), groups=3),
    u8(1, 1, 1, 1),
]


def pruned(case: Case, share: float = 0.2, seed: int = 0) -> Case:
    """The case with about `share` of its weights left."""
    kept = np.random.default_rng(seed).random(case.weights.shape) < share
    return replace(case, weights=np.where(kept, case.weights, np.int8(0)))


def isas() -> list[Isa]:
    return [host_isa(), *([isa_named("avx2")] if "avx2" in host_isa().features else [])]


@pytest.mark.parametrize("joined", [0, 1])
@pytest.mark.parametrize("problem", SHAPES, ids=str)
def test_every_class_of_shape(problem: ConvolutionProblem, joined: int) -> None:
    case = pruned(sample_case(problem, residual="u8", relu=True))
    kernel = replace(next(SparseInt8.candidates(problem, host_isa())), joined=joined)  # type: ignore[call-arg]
    bytes_ = found(kernel, case)
    within_one_rarely(bytes_, meaning(case))
    assert np.array_equal(bytes_, found(next(SpatialPack.candidates(problem, host_isa())), case))


@pytest.mark.parametrize("isa", [*isas()[1:], isa_named("generic")], ids=lambda isa: isa.name)
def test_other_instruction_sets(isa: Isa) -> None:
    case = pruned(sample_case(SHAPES[1]))
    for joined in (0, 1):
        within_one_rarely(found(SparseInt8(SHAPES[1], isa, 49, joined), case), meaning(case))


@settings(max_examples=12)
@given(st.data())
def test_random_configurations(data: st.DataObject) -> None:
    problem = replace(drawn(data, "u8"), density=0.5)
    kernel = data.draw(st.sampled_from(list(SparseInt8.candidates(problem, host_isa()))))
    case = drawn_case(data, problem)
    case = pruned(case, data.draw(st.floats(0, 1)), data.draw(st.integers(0, 99)))
    within_one_rarely(found(kernel, case, loose=True), meaning(case), case.how)


def test_one_kernel_takes_any_pattern() -> None:
    """Zeros are data: the code does not depend on where they are, nor on how many."""
    kernel = next(SparseInt8.candidates(SHAPES[0], host_isa()))
    for seed, share in ((1, 0.1), (2, 0.3)):
        case = pruned(sample_case(SHAPES[0], seed), share, seed)
        within_one_rarely(found(kernel, case), meaning(case))


def test_it_is_offered_for_sparse_bytes_alone() -> None:
    for share, offered in ((1.0, False), (0.5, True), (0.0, True)):
        problem = replace(SHAPES[0], density=share)
        assert any(kernel.name == "sparse_int8" for kernel in candidates(problem, host_isa())) == offered
    assert SparseInt8.refuses(replace(SHAPES[0], dtype="f32"), host_isa())


def test_few_zeros_are_left_to_the_dense_kernel() -> None:
    isa = isa_named(host_isa().name, host_isa().features - {TILES, BFLOAT_TILES})
    for share, name in ((0.5, "spatial_pack"), (0.1, "sparse_int8")):
        problem = replace(SHAPES[0], density=share, quads=min(1.0, 4 * share))
        best = min(candidates(problem, isa), key=lambda kernel: kernel.cost().seconds())
        assert best.name == name or not isa.has_dot


def test_fours_of_zeros_are_counted() -> None:
    weights = np.zeros((2, 8, 1, 1), np.int8)
    weights[0, 1] = weights[0, 2] = weights[1, 7] = 1
    assert quads(weights) == 0.5
    assert quads(np.ones((2, 8, 1, 1))) == quads(np.zeros((2, 3, 1, 1))) == 1.0


def test_the_stream_holds_each_weight_once() -> None:
    rows = np.array([[0, 5, 0, 0, 0, 0, 0, 0], [0, 0, 0, 0, 0, 0, 0, 0], [1, 2, 0, 3, 4, 0, 6, 0]], np.int8)
    raw = pack_quads(rows, joined=False)
    assert raw[:16].view(np.int32).tolist() == [3, 1, 0, 2]
    assert raw[16:28].view(np.int8).tolist() == [5, 0, 0, 0, 1, 2, 3, 4, 6, 0, 0, 0]
    assert raw[28:].view(np.uint16).tolist() == [1, 0, 0, 0, 0, 1, 3, 4, 6, 0, 0, 0]
    raw = pack_quads(rows, joined=True)
    assert raw[:16].view(np.int32).tolist() == [3, 1, 0, 2]
    assert raw[16:28].view(np.int8).tolist() == [0, 5, 0, 0, 1, 2, 0, 3, 4, 0, 6, 0]
    assert raw[28:].view(np.uint16).tolist() == [0, 0, 4]
