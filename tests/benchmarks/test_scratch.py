"""Search from scratch: the 69 kernels, what the three switches change, and that the proof decides."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import pytest
from benchmarks.lifting.scratch.search import KnownPositions as Known
from benchmarks.lifting.scratch.search import SynthesisSettings, grammar_of, synthesise
from benchmarks.lifting.scratch.trees import Trees

from lifting.corpus import GROUPS, Kernel
from tensmith.formula.expr import Call, Num, Read
from tensmith.formula.types import I32
from tensmith.lifting.loops import Function
from tensmith.lifting.source.c.read import read_c
from tensmith.lifting.summarize import summarize
from tensmith.lifting.synthesis.closed import unproved
from tensmith.lifting.synthesis.enumerate import Effort

WITHOUT = {
    "types": SynthesisSettings(types=False),
    "growth": SynthesisSettings(growth=False),
    "trees": SynthesisSettings(trees=False),
}


def function(name: str) -> Function:
    kernel = next(kernel for kernel in GROUPS["c++"] if kernel.function == name)
    found = {f.name: f for f in read_c(kernel.path) if isinstance(f, Function)}
    return found[name]


@pytest.mark.parametrize("kernel", GROUPS["c++"], ids=str)
def test_every_kernel_is_found_from_scratch(kernel: Kernel) -> None:
    assert synthesise(function(kernel.function), SynthesisSettings(seconds=20)) is not None


@pytest.mark.parametrize("switch", WITHOUT)
@pytest.mark.parametrize("name", ["dot", "linear_burn_8", "transformer_part4"])
def test_small_kernels_are_found_without_each_optimization(name: str, switch: str) -> None:
    assert synthesise(function(name), replace(WITHOUT[switch], seconds=20)) is not None


@pytest.mark.parametrize("switch", WITHOUT)
def test_each_optimization_saves_candidates(switch: str) -> None:
    tried = []
    for search in (SynthesisSettings(), WITHOUT[switch]):
        effort = Effort.within(30)
        assert synthesise(function("normal_blend_f"), search, effort) is not None
        tried.append(effort.tried)
    assert tried[0] < tried[1]


def test_the_time_limit_ends_a_search() -> None:
    effort = Effort.within(0.3)
    assert synthesise(function("overlay_blend_8"), SynthesisSettings(trees=False), effort) is None
    assert effort.left > -1


def test_the_model_of_a_refuted_candidate_becomes_an_example() -> None:
    effort = Effort.within(20)
    assert synthesise(function("dissolve_blend_8"), SynthesisSettings(), effort) is not None
    assert effort.proofs > 1


def test_the_proof_decides_and_not_the_form() -> None:
    skeleton = summarize(function("voffset"))
    kernel = Known(skeleton, Trees(skeleton))
    right, v = kernel.written.value, Read("v", (), I32)
    nothing = Call("mul", (v, Num(Fraction(0), I32)), I32)
    for more, proved in ((nothing, True), (v, False)):
        claim = kernel.filled(Call("add", (right, more), I32))
        assert claim is not None
        assert (unproved(claim, Effort.within(20)) is None) == proved


def test_without_trees_the_grammar_has_every_operator() -> None:
    skeleton = summarize(function("vadd"))
    kernel = Known(skeleton, Trees(skeleton))
    guided = {rule.operator for rule in grammar_of(kernel, SynthesisSettings()).rules}
    free = {rule.operator for rule in grammar_of(kernel, SynthesisSettings(trees=False)).rules}
    assert guided == {"add"}
    assert {"add", "mul", "where", "div", "fold.sum", "fold.max"} <= free
