"""Every rule, applied to programs with numbers, computes what was there: so formula and op cannot part."""

from __future__ import annotations

from dataclasses import replace
from itertools import product

import numpy as np
import pytest
from rule_instances import applied, as_written, difference, instances, retyped, run_onnx, runtime_difference

from tensmith.backend.onnx import to_onnx
from tensmith.errors import ProgramError
from tensmith.ir import Origin, Program
from tensmith.ir.onnx_schema import OLDEST_OPSET
from tensmith.rewrite.rule import EXACT

# Rules that act unasked.
DEFAULT = [name for name, rule in EXACT.unproved().items() if rule.phase in ("simplify", "fold")]
# Instances of each claim by the interpreter, and by ONNX Runtime, where each costs two sessions.
_SOME, _FEW, _MORE = 5, 2, 10
# Rules that apply in 32 bits alone, or whose programs ONNX Runtime does not run in other types.
NOT_RUN = (
    "affine_of_group_norm associate_left associate_weights conv_over_blocks covering_conv_as_gemm dead_rows "
    "depthwise_pointwise_as_scale diagonal_weights enlarged_behind_conv gelu_half_first gelu_half_last "
    "gemm_of_gemm group_norm_as_rows instance_norm_as_rows integer_conv_as_numbers last_of_running_sum "
    "mean_to_pool scale_behind_reduction scale_there_and_back shortcut_into_conv zero_bias_of_gemm "
    "zero_rim"
)


@pytest.mark.parametrize("name", list(EXACT))
def test_a_rule_keeps_what_programs_compute(name: str) -> None:
    rule = EXACT[name]
    used = 0
    for instance in instances(rule, _SOME):
        after = applied(rule, instance)
        if after is not None:
            used += 1
            assert not difference(instance.program, after, instance.inputs), instance.origin
    assert used >= 2, f"no program of '{name}' is one it applies to; give rule_instances a sample"


@pytest.mark.parametrize("name", list(EXACT))
def test_a_rule_keeps_what_onnx_runtime_computes(name: str) -> None:
    rule, compared = EXACT[name], 0
    for count in (_FEW, _MORE):  # the first may be empty, all of them
        for instance in map(as_written, instances(rule, count, seed=1) if not compared else ()):
            after = applied(rule, instance)
            if after is not None:
                reason = runtime_difference(instance.program, after, instance.inputs)
                assert not reason, f"{instance.origin}: {reason}"
                compared += reason is not None
    assert compared


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("name", list(EXACT))
def test_onnx_runtime_runs_what_it_ran_of_other_types(name: str) -> None:
    rule, ran = EXACT[name], 0
    for dtype, instance in product(("i32", "i64", "f64", "f16"), instances(rule, 1, seed=1)):
        other = retyped(as_written(instance), dtype)
        after = None if other is None else applied(rule, other)
        if other is None or after is None or isinstance(run_onnx(other.program, other.inputs), str):
            continue
        ran += 1
        refused = run_onnx(after, other.inputs)
        assert not isinstance(refused, str), f"{other.origin}: {refused}"
    assert (ran > 0) == (name not in NOT_RUN.split())


def needed(program: Program) -> int | None:
    """The opset of a program's file; None where there is none."""
    try:
        return to_onnx(program).opset_import[0].version
    except ProgramError:
        return None


@pytest.mark.parametrize("name", DEFAULT)
def test_a_simpler_program_needs_no_newer_opset(name: str) -> None:
    """What tensmith does not know may mean something else there."""
    rule, oldest = EXACT[name], Origin({"": OLDEST_OPSET})
    for instance in instances(rule, 1):
        after = applied(rule, instance)
        if after is not None:
            before, now = (needed(replace(side, origin=oldest)) for side in (instance.program, after))
            assert before is None or (now is not None and now <= before), instance.origin


def sabotaged(program: Program) -> Program:
    constants = {name: 2 * a + 1 if a.dtype.kind == "f" else a for name, a in program.constants.items()}
    return replace(program, constants=constants, _known={})


@pytest.mark.parametrize("name", ["fold_constants", "multiply_constants", "merge_parallel_matmuls"])
def test_a_rule_that_computes_something_else_is_seen_by_both(name: str) -> None:
    last = [i for i in instances(EXACT[name], 4) if all(np.size(a) for a in i.inputs.values())][-1]
    after = applied(EXACT[name], last)
    assert after is not None
    assert difference(last.program, sabotaged(after), last.inputs)
    assert runtime_difference(last.program, sabotaged(after), last.inputs)
