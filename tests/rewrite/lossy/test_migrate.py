"""Scales that go from activations into weights: no value changes, and rounding loses less afterwards."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from lossy_samples import Interpreted, Net, run, transformer
from tensmith.backend.onnx import write_onnx
from tensmith.equality.programs import FieldCheck, compare_programs
from tensmith.errors import ProgramError
from tensmith.ir import Node, Program, make_node
from tensmith.rewrite.exact.scales import MOST_EXPONENT
from tensmith.rewrite.judge import judged
from tensmith.rewrite.lossy.migrate import places
from tensmith.rewrite.lossy.placement import place
from tensmith.rewrite.method import LOSSY, Prospect, Standing, apply_lossy, exact_steps
from tensmith.rewrite.rule import EXACT, Step
from tensmith.rewrite.told import rule_of
from tensmith.rewrite.trail import Traced, replay, replay_exact, simplified, simplify
from tensmith.search.builder import Builder
from tensmith.search.plan import Plan
from tensmith.verify.claims import CHECKED
from tensmith.verify.runs import Checker, FoldError

MIGRATE, INT8 = LOSSY["migrate"].step(), LOSSY["int8"].step(calibration="minmax")
BACK = "scale_there_and_back"


def outliers(times: float = 100.0) -> Program:
    """Two channels of a layer norm are many times the others, and the weights behind it undo that."""
    program = simplify(transformer()).program
    (place,) = places(program)
    norm, (layer,) = program.producers[place.value], place.layers
    factor = np.ones(8, np.float32)
    factor[[2, 5]] = times
    constants = {name: program.constants[name] * factor for name in norm.inputs[1:]}
    constants[layer.weight] = program.constants[layer.weight] / factor[:, None]
    return program.with_constants(constants)


def moved(program: Program, *exponents: int) -> Program:
    """The program after one step of the rule alone."""
    (place,) = places(program)
    return rule_of(Step(BACK, place.value, {"exponents": list(exponents)})).apply(program, place.value)


def error(program: Program, treated: Program) -> float:
    truth = run(program)
    return float(np.linalg.norm(run(treated) - truth) / np.linalg.norm(truth))


def in_int8(program: Program) -> Program:
    return apply_lossy(program, INT8, Interpreted())


def test_values_of_unknown_type_are_passed_by() -> None:
    """What no op of this project makes may be a sequence: scales leave it for no layer."""
    program = outliers()
    mystery = [Node("onnx.Mystery", (name,), (f"{name}.seq",), opaque=b"") for name in ("x", "v0")]
    both = make_node("add", [node.output for node in mystery], ("sum",))
    strange = replace(program, nodes=(*program.nodes, *mystery, both), outputs=(*program.outputs, "sum"))
    assert [own.value for own in places(strange)] == [own.value for own in places(program)]
    assert place(strange, frozenset()).values == place(program, frozenset()).values


def test_layers_that_read_values_of_unknown_type_are_placed() -> None:
    net = Net(image=(4, 8))
    net.nodes.append(Node("onnx.Mystery", ("x",), ("m",), opaque=b""))
    h = net.op("add", net.op("matmul", "m", net.weights(8, 8)), net.constant(np.ones(8)))
    program = net.program(net.op("transpose", net.op("matmul", h, net.weights(8, 8)), perm=(0, 2, 1)))
    assert places(program) == []
    assert place(program, frozenset()).values == ["m", "v1", "v2", "v3"]


@pytest.mark.parametrize("seed", range(5))
def test_any_scales_change_no_bit(seed: int) -> None:
    program = simplify(transformer()).program
    exponents = np.random.default_rng(seed).integers(-MOST_EXPONENT, MOST_EXPONENT + 1, 8)
    np.testing.assert_array_equal(run(moved(program, *map(int, exponents))), run(program))


@pytest.mark.parametrize("strength", [0.0, 0.5, 1.0, None])
def test_every_strength_leaves_the_outputs(strength: float | None) -> None:
    program = outliers()
    step = replace(MIGRATE, params={} if strength is None else {"strength": strength})
    after = simplified(Traced(apply_lossy(program, step, Interpreted()))).program
    assert after.digest != program.digest
    assert len(after.nodes) == len(program.nodes)
    np.testing.assert_array_equal(run(after), run(program))
    assert compare_programs(program, after).verdict == "equal"


def test_scales_that_do_not_come_back_are_found_out() -> None:
    program = outliers()
    after = moved(program, *range(8))
    names = [name for name in after.constants if name not in program.constants]
    wrong = after.with_constants({names[1]: np.ones(8, np.float32)})
    assert compare_programs(program, wrong).verdict == "different"
    assert judged(EXACT[BACK]).problems == ()
    assert [twin for lemma in EXACT[BACK].lemmas() for twin in lemma.twins()]


def test_outliers_are_no_reason_to_stay_in_float() -> None:
    program = outliers()
    plain, calm = error(program, in_int8(program)), error(program, in_int8(outliers(1.0)))
    after = simplified(Traced(apply_lossy(program, MIGRATE, Interpreted()))).program
    migrated = error(program, in_int8(after))
    assert migrated < 0.3 * plain
    assert migrated < 1.3 * calm


def test_channels_that_are_alike_stay() -> None:
    with pytest.raises(ProgramError, match="no channels are so much larger"):
        exact_steps(outliers(1.0), MIGRATE, Interpreted())


def test_a_trail_holds_exact_steps_that_need_no_data(tmp_path: Path) -> None:
    program = outliers()
    model = tmp_path / "model.onnx"
    write_onnx(program, model)
    builder = Builder(model, program, tmp_path, Interpreted())
    built = builder.built(Plan.of((MIGRATE, INT8)))
    rules = [step.rule for step in built.trail]
    assert "migrate" not in rules and BACK in rules and rules.index(BACK) < rules.index("int8")
    assert [step.rule for step in built.trail if step.kind == "lossy"] == ["int8"]
    assert {question.kind for question in built.asked} == {"histogram"}
    again = replay(program, [Step.from_json(step.to_json()) for step in built.trail], Interpreted())
    assert again.digest == builder.program(Plan.of((MIGRATE, INT8))).program.digest


def test_a_certificate_checks_the_moves() -> None:
    """As exact steps, and constants that they fold are folded without rounding."""
    program = outliers()
    steps = exact_steps(program, MIGRATE, Interpreted())
    assert steps is not None
    traced = simplified(Traced(program).then(replay_exact(program, steps), *steps))
    checks = [check for _, check in Checker(program).check(traced.trail)]
    fields = [check for check in checks if isinstance(check, FieldCheck)]
    folds = [check for check in checks if isinstance(check, FoldError)]
    assert {check.verdict for check in fields} == {"equal"}
    assert max(check.error_probability for check in fields) < CHECKED
    assert sum(check.count for check in folds) == 3 and {check.ulps for check in folds} == {0}


def test_a_kept_layer_takes_no_scales() -> None:
    program = outliers()
    (place,) = places(program)
    kept = replace(MIGRATE, params={"kept": [place.layers[0].site]})
    with pytest.raises(ProgramError, match="no channels"):
        exact_steps(program, kept, Interpreted())
    assert len(exact_steps(program, MIGRATE, Interpreted()) or ()) == 3


def test_it_is_offered_beside_what_rounds_activations() -> None:
    def offered(program: Program, *steps: Step) -> list[list[str]]:
        prospect = Prospect(program, 8, frozenset(), {}, dict)
        plan = Standing(steps, "", steps[0] if steps else None, False, True)
        forms = [*LOSSY["migrate"].retreats(plan, prospect), *LOSSY["migrate"].extensions(plan, prospect)]
        return [[step.rule for step in form.steps] for form in forms]

    program = outliers()
    assert offered(program, INT8) == 2 * [["int8", "migrate"]]
    assert offered(program, LOSSY["weight_only"].step()) == offered(program, INT8, MIGRATE) == []
    assert offered(replay_exact(program, ()), LOSSY["dynamic_int8"].step()) != []


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({}, "takes exponents"),
        ({"exponents": [1] * 8, "more": 1}, "takes exponents"),
        ({"exponents": "11111111"}, "takes exponents"),
        ({"exponents": [0.5] * 8}, "whole numbers"),
        ({"exponents": [True] * 8}, "whole numbers"),
        ({"exponents": [MOST_EXPONENT + 1] * 8}, "whole numbers"),
        ({"exponents": [1] * 7}, "does not apply"),
    ],
)
def test_steps_of_no_sense_are_refused(params: Mapping[str, Any], message: str) -> None:
    program = outliers()
    step = Step(BACK, places(program)[0].value, params)
    with pytest.raises(ProgramError, match=message):
        replay_exact(program, [step])


def test_other_rules_take_no_parameters() -> None:
    with pytest.raises(ProgramError, match="takes no parameters"):
        replay_exact(outliers(), [Step("dead_code", params={"exponents": [1]})])


def test_a_strength_is_a_share() -> None:
    with pytest.raises(ProgramError, match="strength"):
        exact_steps(outliers(), replace(MIGRATE, params={"strength": 2}), Interpreted())
