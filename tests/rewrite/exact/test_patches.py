"""Images computed patch by patch: the same numbers, each patch from no more than it needs."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from golden import program

from tensmith.equality.programs import compare_programs
from tensmith.errors import ProgramError
from tensmith.ir import Program, interpret
from tensmith.rewrite.exact import patches
from tensmith.rewrite.exact.patches import InPatches, Part
from tensmith.rewrite.judge import judged
from tensmith.rewrite.rule import EXACT, Step
from tensmith.rewrite.told import rule_of
from tensmith.rewrite.trail import Traced, exhaust

# A residual chain of odd sizes: strides, dilations, groups, both pools, uneven pads, numbers of channels.
CHAIN = """
input %x: f32[1, 2, 13, 11]
input %v: f32[4, 2, 3, 3]
input %w: f32[4, 1, 3, 2]
input %c: f32[4, 1, 1]
%a: f32[1, 4, 13, 11] = conv(%x, %v) {pads = [1, 1, 1, 1]}
%b: f32[1, 4, 13, 11] = relu(%a)
%d: f32[1, 4, 13, 11] = conv(%b, %w) {group = 4, dilations = [2, 1], pads = [2, 0, 2, 1]}
%e: f32[1, 4, 13, 11] = add(%d, %b)
%f: f32[1, 4, 13, 11] = mul(%e, %c)
%g: f32[1, 4, 7, 6] = max_pool(%f) {kernel_shape = [3, 3], strides = [2, 2], pads = [1, 1, 1, 1]}
%y: f32[1, 4, 3, 6] = average_pool(%g) {kernel_shape = [3, 3], strides = [2, 1], pads = [0, 1, 0, 1]}
return %y
"""


def cut(whole: Program, site: str, rows: int, columns: int) -> Program:
    made = InPatches(rows, columns).apply(whole, site)
    return exhaust(Traced(made), [EXACT["slice_earlier"]]).program


@pytest.mark.parametrize("name", ["in_patches", "slice_earlier"])
def test_the_rule_is_proved_and_a_halo_off_by_one_refuted(name: str) -> None:
    rule = EXACT[name]
    assert list(rule.twins())
    assert judged(rule).problems == ()


@pytest.mark.parametrize(("rows", "columns"), [(2, 1), (3, 2), (1, 6)])
def test_patches_compute_the_same_over_prime_fields_and_in_whole_numbers(rows: int, columns: int) -> None:
    whole = program(CHAIN)
    after = cut(whole, "y", rows, columns)
    found = compare_programs(whole, after)
    assert found.equal and found.error_probability < 1e-9, found.reason
    random = np.random.default_rng(3)
    inputs = {name: random.integers(-8, 9, t.static).astype(np.float32) for name, t in whole.inputs.items()}
    assert interpret(whole, inputs)["y"].tobytes() == interpret(after, inputs)["y"].tobytes()


def test_nothing_between_is_whole_and_slices_are_of_the_input_alone() -> None:
    after = cut(program(CHAIN), "y", 3, 1)
    read = {node.inputs[0] for node in after.nodes if node.op == "slice"}
    assert read == {"x"}
    assert max(after.type(n.output).static[2] for n in after.nodes if n.op == "conv") < 13
    strips = [after.type(n.output).static for n in after.nodes if n.op == "average_pool"]
    assert strips == [(1, 4, 1, 6)] * 3


def test_a_halo_that_is_a_row_off_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    window = patches._window

    def late(*given: object) -> Part | str:
        found = window(*given)  # type: ignore[arg-type]
        if isinstance(found, str) or not found.reads[0].get(2, (0, 0))[0]:
            return found
        first, stop = found.reads[0][2]
        return found._replace(reads=({**found.reads[0], 2: (first - 1, stop - 1)}, *found.reads[1:]))

    whole = program(CHAIN)
    monkeypatch.setattr(patches, "_window", late)
    assert compare_programs(whole, cut(whole, "y", 3, 1)).verdict == "different"


@pytest.mark.parametrize(
    ("node", "reason"),
    [
        ("%y: f32[1, 2, 6] = max_pool(%x) {kernel_shape = [2], strides = [2], ceil_mode = 1}", "border"),
        ("%y: f32[1, 2, 19] = conv(%x, %w) {pads = [4, 4]}", "padding alone"),
    ],
)
def test_what_has_no_patches_says_why(node: str, reason: str) -> None:
    size, last = (6, 1) if "max" in node else (19, 2)
    text = f"""
    input %x: f32[1, 2, 11]
    input %w: f32[2, 2, 1]
    const %from: i64[1] = [0]
    const %to: i64[1] = [{last}]
    const %axis: i64[1] = [2]
    {node}
    %z: f32[1, 2, {last}] = slice(%y, %from, %to, %axis)
    return %z
    """
    whole = program(text)
    assert size == whole.type("y").static[2]
    found = EXACT["slice_earlier"].why_not(whole, whole.nodes[-1])
    assert found and reason in found


@pytest.mark.parametrize(
    "params",
    [{"rows": 0}, {"rows": 17}, {"columns": 1 << 40}, {"rows": 2.0}, {"rows": True}, {"tiles": 2}],
    ids=str,
)
def test_a_trail_with_senseless_patches_is_refused(params: dict[str, Any]) -> None:
    with pytest.raises(ProgramError, match="takes rows and columns, whole numbers from 1 to 16"):
        rule_of(Step("in_patches", "y", params))
