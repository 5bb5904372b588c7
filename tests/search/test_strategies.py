"""The searches by name, and the plans of those that look at equal programs first."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from nets import Net
from tensmith.config import make_config
from tensmith.errors import MissingExtra, UsageError
from tensmith.ir import Program
from tensmith.report.metric import exact
from tensmith.rewrite.rule import Step
from tensmith.rewrite.trail import Traced, simplified, stepped
from tensmith.search.candidate import Candidate
from tensmith.search.checkpoint import Checkpoint
from tensmith.search.objective import Objective
from tensmith.search.plan import Plan
from tensmith.search.sensitivity import Sensitivity
from tensmith.search.space import Space
from tensmith.search.strategy import STRATEGIES, Quest, Strategy


def two_products() -> Program:
    net = Net(4, 4)
    a, b = (net.add("matmul", "x", net.constant(4, 4)) for _ in range(2))
    return net.program(net.add("add", net.add("exp", a), net.add("tanh", b)))


def cost(program: Program) -> dict[str, float]:
    """Products are dear."""
    return {node.output: 10.0 if node.op == "matmul" else 1.0 for node in program.nodes}


def measured(plan: Plan) -> Candidate:
    metrics = {
        "packed_bytes": exact(100, "bytes"), "latency_ms": exact(1, "ms"), "speedup": exact(1, "x"),
    }  # fmt: skip
    return Candidate(plan.id, plan, "accepted", metrics=metrics, drop=exact(0, "pt"))


def asked(said: list[str], trials: int) -> Quest:
    program = simplified(Traced(two_products())).program
    layers = {"v0": Sensitivity(1.0, 5.0), "v1": Sensitivity(1.0, 5.0)}
    space = Space(program, ("onnxruntime",), sensitivity=lambda: layers, cost=cost)
    left = iter([True] * trials)
    return Quest(space, measured, Objective(), 100.0, lambda: next(left, False), "a model", 20.0, said.append)


@pytest.mark.parametrize("name", ["saturation", "exhaustive", "auto"])
def test_an_equal_form_is_a_plan_that_replays(name: str) -> None:
    pytest.importorskip("highspy")
    said: list[str] = []
    quest = asked(said, 40)
    program = quest.space.program
    tried = STRATEGIES[name].run(quest)
    exact_forms = [c.plan.steps for c in tried if {s.kind for s in c.plan.steps} == {"exact"}]
    (step,) = exact_forms[0]
    assert stepped(Traced(program), step).program.nodes != program.nodes
    assert "the optimum of this space under this cost model" in said[0]
    assert "complete; a model" in said[0]
    assert ("all 2 programs of this space were measured" in "".join(said[1:])) == (name != "saturation")


@pytest.mark.parametrize("name", STRATEGIES)
def test_every_search_says_how_far_it_is_from_the_optimum(name: str) -> None:
    pytest.importorskip("highspy")
    said: list[str] = []
    STRATEGIES[name].run(asked(said, 0))
    assert "of the optimum of this space under this cost model" in said[0]


def test_auto_goes_on_with_evolution_where_the_beam_ends() -> None:
    said: list[str] = []
    tried = STRATEGIES["auto"].run(asked(said, 300))
    keys = [candidate.plan.key for candidate in tried]
    assert len(set(keys)) == len(keys)
    assert "auto: exhaustive, a beam of" in said[0]
    assert "then evolution" in said[0]


def test_exact_steps_at_places_keep_their_order() -> None:
    later, sooner = Step("merge_parallel_matmuls", "b"), Step("merge_parallel_matmuls", "a")
    everywhere, lossy = Step("distribute"), Step("int8", kind="lossy")
    plan = Plan.of((lossy, everywhere, later, sooner))
    assert plan.steps == (later, sooner, everywhere, lossy)
    assert plan.having(Step("int8", params={"bits": 4}, kind="lossy")).steps[:3] == plan.steps[:3]


def test_searches_are_known_by_name() -> None:
    assert {"auto", "beam", "genetic", "saturation", "exhaustive"} == set(STRATEGIES)
    assert make_config(model="m.onnx", search="saturation").search == "saturation"
    with pytest.raises(UsageError, match=r"search: there is no search 'xyz'.*beam"):
        make_config(model="m.onnx", search="xyz")


def test_what_is_missing_is_said_with_its_extra() -> None:
    with pytest.raises(MissingExtra, match=r"--search deep needs .*tensmith\[search\]"):
        Strategy("deep", "no_such_module", lambda quest: []).demand()


@pytest.mark.parametrize("name", ["saturation", "exhaustive", "auto"])
def test_a_resumed_run_begins_with_the_forms_that_it_began_with(name: str, tmp_path: Path) -> None:
    pytest.importorskip("highspy")
    kept = Checkpoint(tmp_path / "run.sqlite")
    first = [c.plan.key for c in STRATEGIES[name].run(replace(asked([], 40), settled=kept.settled))]
    # This time the walk is over before it has found anything.
    hurried = replace(asked([], 40), settled=kept.settled, seconds=0.0)
    assert [candidate.plan.key for candidate in STRATEGIES[name].run(hurried)] == first
    kept.close()
