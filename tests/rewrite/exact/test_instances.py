"""Every rule, applied to programs with numbers, computes what was there: so formula and op cannot part."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from rule_instances import applied, difference, instances, retyped, run_onnx, runtime_difference

from tensmith.backend.onnx import to_onnx
from tensmith.errors import ProgramError
from tensmith.ir import Origin, Program
from tensmith.ir.onnx_schema import OLDEST_OPSET
from tensmith.rewrite.rule import EXACT

# Rules that act unasked.
DEFAULT = [name for name, rule in EXACT.unproved().items() if rule.phase in ("simplify", "fold")]
# Instances of each claim by the interpreter, and by ONNX Runtime, where each costs two sessions.
_SOME, _FEW = 5, 2


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
    rule = EXACT[name]
    for instance in instances(rule, _FEW, seed=1):
        after = applied(rule, instance)
        if after is not None:
            assert not runtime_difference(instance.program, after, instance.inputs), instance.origin


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("dtype", ["i32", "i64", "f64", "f16"])
@pytest.mark.parametrize("name", list(EXACT))
def test_onnx_runtime_runs_what_it_ran_of_other_types(name: str, dtype: str) -> None:
    rule = EXACT[name]
    for instance in instances(rule, 1, seed=1):
        other = retyped(instance, dtype)
        after = None if other is None else applied(rule, other)
        if other is not None and after is not None:
            ran = not isinstance(run_onnx(other.program, other.inputs), str)
            refused = run_onnx(after, other.inputs)
            assert not ran or not isinstance(refused, str), f"{other.origin}: {refused}"


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
