"""Branches that go leave what they were added to, and nothing of their own."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from lossy_samples import Interpreted, Net, chain, mobile, option_a, residual, run, transformer
from tensmith.errors import ProgramError
from tensmith.formula.arith import Array
from tensmith.ir import Program
from tensmith.rewrite.lossy.branch_pruning import branches
from tensmith.rewrite.lossy.weights import find_layer
from tensmith.rewrite.method import LOSSY, Prospect, Standing, apply_lossy
from tensmith.rewrite.trail import simplify

METHOD = LOSSY["branch_pruning"]


def blocks() -> Program:
    """Two blocks whose norms are in their convolutions."""
    return simplify(residual()).program


def without(program: Program, site: str) -> Program:
    return apply_lossy(program, METHOD.step(site), Interpreted())


def layers(program: Program) -> list[tuple[str, ...]]:
    return [branch.layers for branch in branches(program)]


def test_a_branch_is_what_is_added_to_what_it_is_computed_from() -> None:
    assert layers(blocks()) == [("v2", "v5"), ("v8", "v11")]
    assert layers(chain()) == []
    assert all(len(branch) >= 2 for branch in layers(mobile()))


def test_a_sum_of_two_layers_or_of_other_shapes_has_no_branch() -> None:
    net = Net()
    x = net.conv("x", 4)
    sums = net.op("add", net.conv(x, 4), net.conv(x, 4))
    wide = net.op("add", sums, net.conv(net.op("global_average_pool", sums), 4, 1))
    narrow = net.op("global_average_pool", net.op("relu", wide))
    spread = net.op("add", net.conv(net.op("relu", wide), 4), narrow)
    program = net.program(net.head(net.op("relu", spread)))
    assert layers(program) == [("v5",)]


def test_what_others_read_of_a_branch_stays() -> None:
    """The first layer of it is no part of the branch, which is known by its next one."""
    net = Net()
    x = net.op("relu", net.conv("x", 4))
    first = net.conv(x, 4)
    total = net.op("add", x, net.conv(net.op("relu", first), 4))
    program = net.program(net.head(total), first)
    assert layers(program) == []
    inner = net.op("add", first, net.conv(net.op("relu", first), 4))
    program = net.program(net.head(inner), first)
    (branch,) = branches(program)
    after = without(program, branch.id)
    assert after.outputs == program.outputs and len(after.nodes) < len(program.nodes)


@pytest.mark.parametrize("make", (blocks, mobile, option_a, transformer))
def test_it_answers_as_if_the_last_layer_of_the_branch_gave_zeros(make: Callable[[], Program]) -> None:
    program = make()
    for branch in branches(program):
        after, last = without(program, branch.id), find_layer(program, branch.layers[-1])
        silent = {name: np.zeros_like(program.constants[name]) for name in (last.weight, last.bias) if name}
        expected: Array = run(program.with_constants(silent))
        np.testing.assert_allclose(run(after), expected, rtol=1e-5, atol=1e-6)
        assert not np.allclose(run(program), expected, atol=1e-3)
        assert {*branch.layers}.isdisjoint(each for each in METHOD.sites(after))
        assert not {last.weight} & after.constants.keys()


def test_what_the_trunk_is_made_of_is_no_part_of_a_branch() -> None:
    """Though the branch alone reads what comes out beside it."""
    net = Net()
    both = net.conv("x", 8)
    parts = net.op("split", both, net.constant([4, 4], np.int64), outputs=2, axis=1)
    other = net.conv(f"{parts}.1", 4)
    total = net.op("add", net.op("mul", other, net.op("sigmoid", parts)), parts)
    program = net.program(net.head(net.op("relu", total)))
    assert layers(program) == [(other,)]
    after = without(program, other)
    assert find_layer(after, both).site == both


def test_no_branch_begins_at_another_layer() -> None:
    with pytest.raises(ProgramError, match="no residual branch begins with 'v5'"):
        without(blocks(), "v5")


def test_a_search_takes_branches_that_take_most_time_for_what_they_lose() -> None:
    """Without training only where hardly anything changes."""
    seconds, lost = {"v2": 1.0, "v5": 1.0, "v8": 3.0, "v11": 1.0}, {"v2": 0.01, "v8": 0.08}
    prospect = Prospect(blocks(), 8, frozenset(), seconds, dict, lost=lambda step: lost[step.site])
    graded, first, second = LOSSY["int8"].step(price=1.0), METHOD.step("v2"), METHOD.step("v8")
    standing = Standing((graded,), "", graded, False, True)
    assert [form.steps for form in METHOD.extensions(standing, prospect)] == [(graded, first)]
    taken = replace(standing, steps=(graded, first))
    assert [form.steps for form in METHOD.extensions(taken, prospect)] == [(graded, first, second)]
    assert [form.steps for form in METHOD.challenges(standing, prospect)] == [(graded, first)]
    assert not [*METHOD.challenges(taken, prospect)]
    untimed = replace(prospect, seconds={})
    assert not [*METHOD.extensions(standing, untimed), *METHOD.challenges(standing, untimed)]
    lost["v2"], lost["v8"] = 0.2, 4.0
    assert not [*METHOD.extensions(standing, prospect)]
    assert [form.steps for form in METHOD.challenges(standing, prospect)] == [(graded, first)]
