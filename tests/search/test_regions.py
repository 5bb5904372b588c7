"""Regions in equal forms: found by saturation, made in the whole program, crossed, measured."""

from __future__ import annotations

from test_strategies import cost, two_products

from nets import Net
from tensmith.equality.programs import compare_programs
from tensmith.ir import Program
from tensmith.ir.part import cut_out
from tensmith.report.metric import exact
from tensmith.rewrite.rule import Step
from tensmith.rewrite.trail import Traced, replay_exact, simplified, stepped
from tensmith.search.candidate import Candidate
from tensmith.search.genetic import genetic_search
from tensmith.search.objective import Objective
from tensmith.search.plan import Plan
from tensmith.search.regions import Regions, origin
from tensmith.search.space import Space
from tensmith.search.strategy import Quest


def pairs(places: int) -> Program:
    """Products that read one value, two by two: each pair may become one product."""
    net, value = Net(4, 4), "x"
    for _ in range(places):
        a, b = (net.add("matmul", value, net.constant(4, 4)) for _ in range(2))
        value = net.add("add", net.add("exp", a), net.add("tanh", b))
    return simplified(Traced(net.program(value))).program


def names(program: Program) -> list[str]:
    return [node.output for node in program.nodes]


def test_a_part_reads_and_gives_what_crosses_its_border() -> None:
    program = pairs(2)
    part = cut_out(program, program.nodes[2:5])
    assert set(part.inputs) == {
        name for node in part.nodes for name in node.inputs if name in names(program)[:2]
    }
    assert part.outputs == (program.nodes[4].output,)
    assert part.facts[part.outputs[0]].type == program.type(part.outputs[0])


def test_forms_of_a_region_are_made_in_the_whole_program_and_replay() -> None:
    program = pairs(2)
    regions = Regions(program, cost)
    for start in (0, 5):
        (form,) = regions.forms((), start)
        formed = regions.formed(form)
        assert formed.steps == form
        assert regions.estimate(form) < regions.estimate(())
        assert compare_programs(program, formed.program).equal
        trail = Traced(program)
        for step in form:
            trail = stepped(trail, step)
        assert replay_exact(program, trail.trail).digest == formed.program.digest


def test_a_child_has_the_forms_of_either_parent_at_its_own_nodes() -> None:
    program = pairs(2)
    regions = Regions(program, cost)
    (ours,), (theirs,) = regions.forms((), 0), regions.forms((), 5)
    both = regions.formed(regions.of_both(ours, theirs, 5, 10))
    assert both.steps == (*ours, *theirs)
    assert compare_programs(program, both.program).equal
    assert regions.of_both(ours, theirs, 0, 5) == []
    assert origin(Step("rule", "v3.1.2")) == "v3"


def test_steps_that_do_not_apply_are_left_out_and_so_are_layers_that_are_gone() -> None:
    program = simplified(Traced(two_products())).program
    space = Space(program, ("onnxruntime",), cost=cost)
    (form,) = space.regions.forms((), 0)
    bits = Step("int8", params={"bits": {"v0": 5, "v1": 6}, "skip": ["v1"]}, kind="lossy")
    plan = space.fitted(Plan.of((*form, Step("distribute", "nowhere"), bits)))
    assert plan.steps[:-1] == form
    assert plan.steps[-1].params == {"bits": {}, "skip": []}
    assert space.fitted(Plan.of((bits,))).steps == (bits,)


def test_evolution_keeps_the_form_that_is_measured_to_pay_though_the_model_likes_all() -> None:
    """Here only the last pair is faster as one product; estimates say that of every pair."""
    program = pairs(3)
    space = Space(program, ("onnxruntime",), layer_seconds={"v0": 1.0}, cost=cost)
    place = {name: at // 5 for at, name in enumerate(names(program))}

    def attempt(plan: Plan) -> Candidate:
        if any(step.kind == "lossy" for step in plan.steps):
            return Candidate(plan.id, plan, "failed")
        sites = [origin(step) for step in plan.steps]
        changed = {0, 1, 2} if "*" in sites else {place[site] for site in sites}
        latency = 10.0 + sum(-1 if at == 2 else 1 for at in changed)
        metrics = {
            "packed_bytes": exact(100, "bytes"), "latency_ms": exact(latency, "ms"),
            "speedup": exact(10 / latency, "x"),
        }  # fmt: skip
        return Candidate(plan.id, plan, "accepted", metrics=metrics, drop=exact(0, "pt"))

    left = iter(range(40))
    tried = genetic_search(Quest(space, attempt, Objective(), 100.0, lambda: next(left, None) is not None))
    measured = [candidate for candidate in tried if candidate.metrics]
    fastest = min((c for c in measured if c.status == "accepted"), key=lambda c: c.latency)
    assert fastest.latency == 9
    assert {c.latency for c in measured} > {9, 11, 12}
