"""What may be done in a run holds for every plan of every search, whoever thought of it."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from lossy_samples import Interpreted, chain, recovered
from tensmith.errors import ProgramError, TensmithError
from tensmith.hardware import load_target
from tensmith.ir import Program, TensorType, make_node
from tensmith.report.metric import Metric, exact
from tensmith.rewrite.kept import KEPT, changed_layer
from tensmith.rewrite.lossy.weights import weighted_layers
from tensmith.rewrite.method import LOSSY, apply_lossy
from tensmith.rewrite.rule import Step
from tensmith.rewrite.trail import simplify
from tensmith.search.allowed import Allowed
from tensmith.search.beam import beam_search
from tensmith.search.builder import Builder
from tensmith.search.candidate import Candidate
from tensmith.search.genetic import genetic_search
from tensmith.search.objective import Objective
from tensmith.search.plan import UNTOUCHED, Plan
from tensmith.search.sensitivity import Sensitivity
from tensmith.search.space import Space
from tensmith.search.strategy import ALWAYS_TRIED, Quest

PROGRAM = simplify(chain()).program
SITES = [layer.site for layer in weighted_layers(PROGRAM)]
SENSITIVITY = {site: Sensitivity(0.01 * 3**number, 1.0) for number, site in enumerate(SITES)}
INT8 = LOSSY["int8"].step(default_bits=7, bits={"v3": 5, "v6": 4})


def space(allowed: Allowed, *begun: Plan) -> Space:
    return Space(
        PROGRAM,
        ("onnxruntime", "openvino"),
        dict.fromkeys(SITES, 1e-6),
        target=load_target("server-amx"),
        sensitivity=lambda: SENSITIVITY,
        allowed=allowed,
        begun=begun,
    )


def outcomes() -> Callable[[Plan], Candidate]:
    """Figures of chance, the same every time: most plans hold the budget, some may, some do not."""
    chance = random.Random(5)

    def attempt(plan: Plan) -> Candidate:
        drop, size = chance.choice((0.0, 0.1, 0.3, 0.6)), chance.uniform(100, 1000)
        metrics = {
            "packed_bytes": exact(size, "bytes"),
            "latency_ms": exact(size, "ms"),
            "speedup": exact(1000 / size, "x"),
        }
        status = "accepted" if drop < 0.3 else "unsure" if drop < 0.5 else "rejected"
        found = Metric(drop, drop, drop, "pt", "measured")
        return Candidate(plan.id, plan, status, "", "e", metrics, found)  # type: ignore[arg-type]

    return attempt


def searched(search: str, where: Space, count: int) -> list[Plan]:
    """The plans of a search, and what training would be given beside them."""
    left = iter(range(count))
    run = beam_search if search == "beam" else genetic_search
    tried = run(Quest(where, outcomes(), Objective(), 1000.0, lambda: next(left, None) is not None))
    plans = [candidate.plan for candidate in tried]
    return [*plans, *(challenge for plan in plans[:20] for challenge in where.challenges(plan))]


def lossy(plans: list[Plan]) -> list[Step]:
    return [step for plan in plans for step in plan.steps if step.kind == "lossy"]


@pytest.mark.parametrize("search", ["beam", "genetic"])
@pytest.mark.parametrize("kept", [("v3",), ("v1", "v10")])
def test_no_plan_of_a_search_changes_a_kept_layer(search: str, kept: tuple[str, ...], tmp_path: Path) -> None:
    """Whatever can be built of it has the very numbers; the wrong twin is the same search without that."""
    allowed = Allowed(kept)
    plans = searched(search, space(allowed), 50)
    for plan in plans:
        allowed.demand(plan)
    steps = lossy(plans)
    assert {"int8", "half", "low_rank", "magnitude_pruning", "channel_pruning"} <= {s.rule for s in steps}
    assert not any(step.site in kept for step in steps)
    told = [{*step.params.get("worth", ()), *step.params.get("skip", ())} for step in steps]
    assert any(told) and not any(set(kept) & layers for layers in told)
    assert not any(plan.engine_settings for plan in plans)
    model = tmp_path / "model.onnx"
    builder = Builder(model, chain(), tmp_path, Interpreted(), allowed=allowed)
    built = 0
    for plan in plans[:: max(1, len(plans) // 12)]:
        try:
            after = builder.treated(plan)
        except TensmithError as error:
            assert "kept" not in str(error)
            continue
        built += any(step.kind == "lossy" for step in plan.steps)
        assert changed_layer(PROGRAM, after, kept) is None
    assert built > 4
    free = searched(search, space(Allowed()), 50)
    assert any(step.site in kept for step in lossy(free))
    with pytest.raises(ProgramError, match="does not leave"):
        for plan in free:
            allowed.demand(plan)


@pytest.mark.parametrize("search", ["beam", "genetic"])
@pytest.mark.parametrize(
    "only",
    [
        ("int8",),
        ("half",),
        ("magnitude_pruning",),
        ("low_rank", "weight_clustering"),
        ("channel_pruning",),
        ("weight_only", "low_rank"),
    ],
)
def test_only_what_is_named_is_tried(search: str, only: tuple[str, ...]) -> None:
    """Methods that usually refine what others did begin with the exact rewrite where they are alone."""
    plans = searched(search, space(Allowed(only=only)), 40)
    assert {step.rule for step in lossy(plans)} == set(only)
    assert plans[:2] == [UNTOUCHED, Plan()]
    assert not any(plan.engine_settings for plan in plans)


def test_a_plan_to_begin_with_is_tried_after_the_safe_forms_and_gone_on_from() -> None:
    begun = Plan((INT8,))
    plans = searched("beam", space(Allowed(), begun), 60)
    assert plans.index(begun) == 4 == ALWAYS_TRIED
    assert searched("beam", space(Allowed(), begun), 0).count(begun) == 1  # whatever the time
    further = [plan for plan in plans if (step := plan.find("int8")) and step.params["default_bits"] == 7]
    assert len(further) > 1
    kept = Allowed(("v3",)).fitted(begun)
    assert kept.steps[0].params == {"default_bits": 7, "bits": {"v6": 4}, KEPT: ["v3"]}
    assert kept in searched("beam", space(Allowed(("v3",)), begun), 20)


def test_what_is_said_of_a_layer_that_is_kept_already_stays() -> None:
    """A step may leave layers on its own account; a run adds its own."""
    step = replace(INT8, params={KEPT: ["v10"]})
    assert Allowed(("v3",)).fitted(Plan((step,))).steps[0].params[KEPT] == ["v10", "v3"]
    assert Allowed().fitted(Plan((step,))).steps == (step,)


def test_exact_forms_that_take_a_kept_layer_away_are_for_exact_plans_alone() -> None:
    """A lossy method would find the layer as part of another, which nobody said to leave."""
    weights = np.random.default_rng(0).standard_normal((2, 8, 8)).astype(np.float32)
    nodes = [make_node("matmul", ("x", name), (f"of_{name}",)) for name in ("v", "w")]
    nodes.append(make_node("concat", ("of_v", "of_w"), ("y",), {"axis": 1}))
    types, constants = {"x": TensorType("f32", (1, 8))}, dict(zip(("v", "w"), weights))
    program = Program("both", types, ("y",), tuple(nodes), constants)
    where = replace(space(Allowed(("of_v",))), program=program)
    merge, rounded = Step("merge_parallel_matmuls"), LOSSY["weight_only"].step()
    merged = where.fitted(Plan((merge,)))
    assert changed_layer(program, where.regions.formed(merged.steps).program, ["of_v"])
    assert [step.rule for step in where.fitted(Plan.of((merge, rounded))).steps] == ["weight_only"]
    free = replace(where, allowed=Allowed()).fitted(Plan.of((merge, rounded)))
    assert [step.rule for step in free.steps] == ["merge_parallel_matmuls", "weight_only"]


@pytest.mark.parametrize(
    ("step", "what"),
    [
        (INT8, "'int8' does not leave 'v3' as it is"),
        (replace(INT8, rule="half", params={KEPT: ["v3"]}), "'half' is none of those that may be used"),
    ],
)
def test_the_builder_refuses_what_is_not_allowed(step: Step, what: str, tmp_path: Path) -> None:
    allowed = Allowed(("v3",), ("int8",))
    builder = Builder(tmp_path / "m.onnx", chain(), tmp_path, Interpreted(), allowed=allowed)
    with pytest.raises(ProgramError, match=what):
        builder.built(Plan((step,)))
    with pytest.raises(ProgramError, match="precision rounds in every layer"):
        builder.built(Plan(settings={"precision": "bf16"}))
    with pytest.raises(ProgramError, match="this plan changes 'v3'"):
        builder.treated(Plan((INT8,)))
    assert not list(tmp_path.iterdir())
    assert builder.built(allowed.fitted(Plan((INT8,)))).path.exists()


def test_training_learns_nothing_of_a_kept_layer() -> None:
    """And weights that were trained elsewhere do not get in by a step that names it."""
    pytest.importorskip("torch")
    from tensmith.recovery.learnable import learning_constants

    own = {"c5", "c6"}  # the weights and the bias of v3
    assert own <= learning_constants(PROGRAM, False).keys()
    learning = learning_constants(Allowed(("v3",)).covered(PROGRAM), False).keys()
    assert learning and not own & learning

    class Trained(Interpreted):
        def trained(self, weights: str) -> dict[str, np.ndarray]:
            return arrays

    arrays = {"c5": 2 * PROGRAM.constants["c5"]}
    step = recovered(arrays)
    assert changed_layer(PROGRAM, apply_lossy(PROGRAM, step, Trained()), ["v3"]) == "v3"
    (named,) = Allowed(("v3",)).fitted(Plan((step,))).steps
    with pytest.raises(ProgramError, match="no constant 'c5'"):
        apply_lossy(PROGRAM, named, Trained())
