"""What the loop nests of register tiles sum is the op: proved for all sizes, images and weights.

It is read from what they print. That C computes what it says is not proved: the tests that run kernels are
there for that.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
from nest_formulas import formula, meaning

from tensmith.formula.bounds import Ranges
from tensmith.formula.expr import Expr, Formula, compute, guard
from tensmith.formula.poly import Poly
from tensmith.kernel import ConvolutionProblem, Isa, isa_named
from tensmith.kernel.algorithm import Kernel
from tensmith.kernel.algorithms.depthwise import Depthwise
from tensmith.kernel.algorithms.direct import Direct
from tensmith.kernel.algorithms.gemm import GemmKernel
from tensmith.kernel.algorithms.spatial_pack import SpatialPack
from tensmith.rewrite.judge import judge
from tensmith.rewrite.rule import FormulaObligation

SAME = (1, 1, 1, 1)
PROBLEMS = [
    ConvolutionProblem(10, 9, 11, 9, (3, 3), pads=SAME),
    ConvolutionProblem(9, 9, 8, 5, (3, 2), (2, 1), (1, 0, 2, 1), (1, 2)),
    ConvolutionProblem(3, 9, 8, 10, (3, 3), (2, 2), SAME),
    ConvolutionProblem(12, 6, 6, 18, (3, 3), pads=SAME, groups=3),
    ConvolutionProblem(64, 5, 5, 96, (3, 3), pads=SAME, groups=2),
    ConvolutionProblem(11, 7, 6, 11, (3, 3), (2, 2), SAME, groups=11),
    ConvolutionProblem(13, 1, 10, 9),
]
ISAS = [
    isa_named("generic"),
    isa_named("avx512", ["avx512_vnni", "avx512_bf16"]),
    isa_named("neon", ["fp16", "dotprod"]),
]
NESTS = (Depthwise, Direct, GemmKernel, SpatialPack)


def in_blocks(y: Formula, block: int) -> Formula:
    """y as [blocks, lanes, height, width], zero in lanes past the channels."""
    channels, *image = y.shape

    def element(at: Poly, lane: Poly, i: Poly, j: Poly) -> Expr:
        channel = at * block + lane
        return guard([channels - 1 - channel], y[channel, i, j])

    return compute((-(-channels // block), block, *image), element)


def kernels(problem: ConvolutionProblem, isa: Isa) -> list[Kernel]:
    """One of each algorithm, for every element type."""
    chosen = []
    for dtype in ("f32", "f16", "bf16", "u8"):
        one = replace(problem, dtype=dtype)
        for algorithm in NESTS:
            if algorithm.refuses(one, isa) is None:
                chosen.append([*algorithm.candidates(one, isa)][-1 if isa.name == "generic" else 0])
    return chosen


def claim(kernel: Kernel) -> FormulaObligation:
    """That a kernel computes its problem; channel by channel where a channel has a place in a vector."""
    sides = (formula(kernel), meaning(kernel.problem))
    if isinstance(kernel, Depthwise):
        sides = tuple(in_blocks(side, kernel.target.block) for side in sides)
    return FormulaObligation(str(kernel), *sides)


@pytest.mark.parametrize("isa", ISAS, ids=lambda isa: isa.name)
@pytest.mark.parametrize("problem", PROBLEMS, ids=str)
def test_what_a_kernel_sums_is_what_the_op_says(problem: ConvolutionProblem, isa: Isa) -> None:
    for kernel in kernels(problem, isa):
        found = judge(claim(kernel))
        assert found.verdict == "proved", f"{kernel} on {isa.name}: {found.how}"


def test_every_algorithm_of_nests_was_asked() -> None:
    seen = {type(kernel) for problem in PROBLEMS for isa in ISAS for kernel in kernels(problem, isa)}
    assert seen == {*NESTS}


@pytest.mark.parametrize(
    "wrong",
    [
        {"strides": (1, 2)},
        {"dilations": (2, 1)},
        {"pads": (0, 1, 2, 1)},
    ],
    ids=str,
)
def test_a_wrong_twin_is_refuted(wrong: dict[str, tuple[int, ...]]) -> None:
    """A kernel for another problem, on the same image."""
    problem = ConvolutionProblem(5, 7, 7, 6, (3, 3), (1, 1), SAME)
    isa = isa_named("generic")
    kernel = next(SpatialPack.candidates(problem, isa))
    twin = formula(next(SpatialPack.candidates(replace(problem, **wrong), isa)))
    whole = claim(kernel).right
    cut = compute(twin.shape, lambda k, i, j: whole[k, i, j])
    assert judge(FormulaObligation("twin", twin, cut)).verdict == "refuted"


SIZES = Ranges(lower={f"p{side}": 0 for side in range(4)})


def any_sizes(channels: Any, filters: Any, dtype: str = "f32", **known: Any) -> Any:
    """A problem whose sizes are symbols, but for those that are `known`."""

    def symbols(*names: str) -> tuple[Poly, ...]:
        return tuple(map(Poly.symbol, names))

    height, width = symbols("H", "W")
    unknown = {"window": symbols("U", "V"), "strides": symbols("s0", "s1"), "dilations": symbols("d0", "d1"),
               "pads": symbols("p0", "p1", "p2", "p3")}  # fmt: skip
    found = {"height": height, "width": width, **unknown, **known}
    return ConvolutionProblem(channels=channels, filters=filters, dtype=dtype, **found)


ROWS = {"height": 1, "window": (1, 1), "strides": (1, 1), "dilations": (1, 1), "pads": (0, 0, 0, 0)}


def nests(isa: Isa) -> Iterator[Kernel]:
    """Kernels that read their formula from their nest, for problems of any size.

    Channels are whole blocks and a rest: every rest of narrow vectors, one of the others.
    """
    n, k, lanes = Poly.symbol("B"), Poly.symbol("K"), isa.lanes
    rests = range(lanes) if isa.name == "generic" else (lanes // 2 - 1,)
    for kind in (Direct, GemmKernel):
        yield kind(any_sizes(Poly.symbol("C"), k), isa, 2, 2)
        yield kind(any_sizes(3 * Poly.symbol("C"), 3 * k, groups=3), isa, 2, 2)
    yield SpatialPack(any_sizes(Poly.symbol("C"), k), isa, 2, 2, 1)
    for rest in rests:
        channels = lanes * n + rest
        yield Depthwise(any_sizes(channels, channels, groups=channels), isa, 2)
        for dtype in SpatialPack.dtypes:
            yield SpatialPack(any_sizes(channels, k, dtype), isa, 2, 2, lanes)
            if dtype != "f16":
                rows: Any = channels
                yield SpatialPack(any_sizes(channels, k, dtype, **ROWS), isa, 2, 2, rows)
    for dtype in SpatialPack.dtypes:
        whole = 2 * lanes * n
        yield SpatialPack(any_sizes(3 * whole, 6 * lanes * k, dtype, groups=3), isa, 2, 2, lanes)
    for channels in (1, 2, 3, 4):
        for rest in rests if lanes == 4 else ():
            window, dilations = (Poly.symbol("U"), 4 * Poly.symbol("V") + rest), (Poly.symbol("d0"), 1)
            problem = any_sizes(channels, k, "u8", window=window, dilations=dilations)
            yield SpatialPack(problem, isa, 2, 2, channels)


def by_group(y: Formula, groups: int) -> Formula:
    """[group, filter of it, row, column]."""
    count = y.shape[0] // groups
    return compute((groups, count, *y.shape[1:]), lambda g, k, i, j: y[g * count + k, i, j])


@pytest.mark.parametrize("isa", ISAS, ids=lambda isa: isa.name)
def test_what_a_nest_sums_is_what_the_op_says_for_all_sizes(isa: Isa) -> None:
    for kernel in nests(isa):
        found = claim(kernel)
        if kernel.problem.groups == 3:
            found = replace(found, left=by_group(found.left, 3), right=by_group(found.right, 3))
        judgement = judge(replace(found, ranges=SIZES))
        assert judgement.verdict == "proved", f"{kernel} of {kernel.problem}: {judgement.how}"


@pytest.mark.parametrize("wrong", [{"strides": (1, 2)}, {"dilations": (2, 1)}], ids=str)
def test_a_nest_with_other_strides_is_not_proved_for_all_sizes(wrong: dict[str, tuple[int, ...]]) -> None:
    problem, isa = any_sizes(Poly.symbol("C"), Poly.symbol("K")), isa_named("generic")
    same = any_sizes(problem.channels, problem.filters, strides=(1, 1), dilations=(1, 1))
    twin = formula(SpatialPack(replace(same, **wrong), isa, 2, 2, 1))
    cut = compute(meaning(same).shape, lambda k, i, j: twin[k, i, j])
    obligation = FormulaObligation("twin", cut, meaning(same), SIZES)
    assert judge(obligation).verdict == "refuted"
