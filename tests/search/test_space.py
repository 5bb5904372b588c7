"""What a search tries is what methods say: no list of methods stands in the search."""

from __future__ import annotations

import inspect
import itertools
import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from test_beam import SENSITIVITY, two_layers

from lossy_samples import Net, chain, residual
from tensmith.errors import ProgramError
from tensmith.ir import Program, TensorType, make_node
from tensmith.rewrite.calibration import Calibration
from tensmith.rewrite.method import LOSSY, WEIGHTS, Form, Method, Prospect, Standing
from tensmith.search import space as space_module
from tensmith.search.candidate import Candidate
from tensmith.search.plan import Plan
from tensmith.search.space import Idea, Space


def product(largest: float = 4.0, dtype: str = "f32") -> Program:
    weights = np.random.default_rng(0).uniform(-largest, largest, size=(64, 64)).astype(f"float{dtype[1:]}")
    node = make_node("matmul", ("x", "w"), ("y",))
    return Program("one", {"x": TensorType(dtype, (1, 64))}, ("y",), (node,), {"w": weights})


class Doubling(Method):
    """A method of somebody else's."""

    name, stage, promise = "doubling", WEIGHTS, "weights twice as large"

    def apply(
        self, program: Program, site: str, params: Mapping[str, Any], calibration: Calibration
    ) -> Program:
        return program

    def starts(self, prospect: Prospect) -> Iterator[Form]:
        yield Form((self.step(times=2),), self.name, order=15)


def test_a_method_that_says_how_it_starts_is_tried(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(LOSSY._items, "doubling", Doubling())
    families = [idea.family for idea in Space(product(), ("onnxruntime",)).seeds()]
    assert families[:5] == ["untouched", "exact", "half", "int8", "doubling"]
    assert families[5:] == ["weight_only", "dynamic_int8", "block_int4"]


def test_a_method_that_fails_costs_no_run(monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(*_: object) -> Iterator[Form]:
        raise ProgramError("the type of 'seq' is not known")

    method, plan = Doubling(), Plan((LOSSY["int8"].step(default_bits=8),))
    for name in ("starts", "extensions", "retreats", "challenges"):
        monkeypatch.setattr(method, name, fails)

    def found() -> list[object]:
        space, ideas = Space(chain(), ("onnxruntime",)), (Idea(Plan(), "exact"), Idea(plan, "int8"))
        outcomes = (Candidate("c1", Plan(), "accepted"), Candidate("c2", plan, "rejected"))
        moves = [list(space.moves(*each)) for each in zip(ideas, outcomes)]
        return [list(space.seeds()), moves, list(space.challenges(plan))]

    expected = found()
    monkeypatch.setitem(LOSSY._items, "doubling", method)
    assert found() == expected


@pytest.mark.parametrize("dtype", ["f16", "f64"])
def test_ranges_are_taken_as_they_come_in_fp32_alone(dtype: str) -> None:
    seeds = Space(product(dtype=dtype), ("onnxruntime",)).seeds()
    assert "dynamic_int8" not in {idea.family for idea in seeds}


def test_weights_that_sixteen_bits_do_not_hold_keep_their_range() -> None:
    types = []
    for largest in (1e4, 1e5):
        seeds = Space(product(largest), ("onnxruntime",)).seeds()
        types += [idea.plan.steps[0].params["type"] for idea in seeds if idea.family == "half"]
    assert types == ["float16", "bfloat16"]


def test_the_space_names_no_method() -> None:
    text = inspect.getsource(space_module)
    assert [name for name in LOSSY if re.search(rf"\b{name}\b", text)] == []


def cuts(plan: Plan) -> dict[str, float]:
    """The share of each channel group that goes."""
    return {step.site: step.params["ratio"] for step in plan.steps if step.rule == "channel_pruning"}


def test_challenges_go_beyond_what_a_plan_takes() -> None:
    """Fewer bits, most weights gone, a part of all channels, or more of them."""
    plan = Plan((LOSSY["int8"].step(calibration="minmax", default_bits=8, bits={"v0": 8}),))
    space = Space(chain(), ("onnxruntime",))
    found = list(space.challenges(plan))
    taken = [[step.rule for step in each.steps] for each in found]
    assert taken.count(["int8"]) == 3 and ["magnitude_pruning", "int8"] in taken
    assert sum(rules[0] == "channel_pruning" and rules[-1] == "int8" for rules in taken) == 5
    bits = [each.steps[0].params for each in found if len(each.steps) == 1]
    assert [params["default_bits"] for params in bits] == [4, 3, 2] and "bits" not in bits[0]
    narrow = next(each for each in found if each.steps[0].rule == "channel_pruning")
    before, again = cuts(narrow), list(filter(None, map(cuts, space.challenges(narrow))))
    deeper = [cut for cut in again if cut != before]
    assert deeper and all(cut[site] >= gone for cut in deeper for site, gone in before.items())
    assert list(space.challenges(Plan())) == []
    line = Plan((LOSSY["int8"].step(rounding="coded", price=0.5, worth={"v0": 1.0}),))
    alone = [each.steps[0].params for each in space.challenges(line) if len(each.steps) == 1]
    assert [params["price"] for params in alone] == [1.0, 2.0, 4.0]


def test_ever_more_channels_go_that_take_most_time_for_what_they_lose() -> None:
    """A part of each, first of the one that loses least."""
    net = Net()
    value = "x"
    for width in (64, 64, 40):
        value = net.op("relu", net.conv(value, width, 1))  # v0, v2, v4
    seconds, lost = {"v0": 1.0, "v2": 1.0, "v4": 1.0}, {"v0": 1.0, "v2": 0.01, "v4": 0.1}
    space = Space(net.program(net.head(value)), ("onnxruntime",), seconds, lost=lambda step: lost[step.site])
    plan = Plan((LOSSY["int8"].step(calibration="minmax", default_bits=8),))
    found = list(filter(None, map(cuts, space.challenges(plan))))
    assert found[0] == {"v2": 0.25} and found[-1].keys() == lost.keys() and 4 < len(found) <= 8
    for less, more in itertools.pairwise(found):
        assert all(more[site] >= share for site, share in less.items()) and less != more
    begun = plan.having(LOSSY["channel_pruning"].step("v2", ratio=0.75, multiple=16))
    assert all(each["v2"] == 0.75 for each in filter(None, map(cuts, space.challenges(begun))))


def test_layers_that_go_as_a_whole_are_not_spoken_of() -> None:
    """What lists them leaves them out, and no channels of theirs go."""
    program = residual()
    space = Space(program, ("onnxruntime",), dict.fromkeys(("v2", "v4", "v8"), 1.0))
    branch = LOSSY["branch_pruning"].step("v2")
    bits = LOSSY["int8"].step(calibration="minmax", default_bits=8, bits={"v2": 4, "v8": 4}, skip=["v4"])
    narrow = LOSSY["channel_pruning"].step("v2", ratio=0.5, multiple=1)
    (after, low) = space.fitted(Plan.of((branch, narrow, bits))).steps
    assert (after, low.params["bits"], low.params["skip"]) == (branch, {"v8": 4}, [])


def test_a_branch_inside_another_one_goes_with_it() -> None:
    net = Net()
    x = net.op("relu", net.conv("x", 4))
    first = net.conv(x, 4)
    inner = net.op("add", first, net.conv(net.op("relu", first), 4))
    program = net.program(net.head(net.op("relu", net.op("add", x, inner))))
    method = LOSSY["branch_pruning"]
    outer, own = method.step("v2"), method.step("v4")
    assert {*method.sites(program)} == {"v2", "v4"} and set(method.removed(program, "v2")) == {"v2", "v4"}
    space = Space(program, ("onnxruntime",), dict.fromkeys(("v2", "v4"), 1.0))
    assert space.fitted(Plan.of((own, outer))).steps == (outer,)
    standing = Standing((outer,), "", None, False, True)
    assert not [*method.extensions(standing, space.prospect)]


def test_channels_go_by_quarters_of_two_groups_at_a_time() -> None:
    """On a line: of the two groups not yet cut, and more of the two that have lost least."""
    net = Net()
    value = "x"
    for width in (64, 64, 40):
        value = net.op("relu", net.conv(value, width, 1))  # v0, v2, v4
    prospect = Prospect(net.program(net.head(value)), 8, frozenset(), {"v0": 2.0, "v2": 1.0}, dict)
    method, graded = LOSSY["channel_pruning"], LOSSY["int8"].step(price=1.0)

    def offered(**gone: float) -> list[dict[str, float]]:
        cut = [method.step(site, ratio=ratio, multiple=1) for site, ratio in gone.items()]
        standing = Standing((*cut, graded), "", graded, True, True)
        forms = [form.steps for form in method.extensions(standing, prospect)]
        return [{s.site: s.params["ratio"] for s in steps if s.rule == method.name} for steps in forms]

    every = {"v0": 0.25, "v2": 0.25, "v4": 0.25}
    assert offered() == [{"v0": 0.25}, {"v2": 0.25}, every]
    assert offered(**every)[-1] == {"v0": 0.5, "v2": 0.5, "v4": 0.25}
    assert offered(**{**every, "v0": 0.5, "v2": 0.5})[-1] == dict.fromkeys(every, 0.75)
    assert offered(v0=0.25) == [{"v0": 0.25, "v2": 0.25}, {"v0": 0.25, "v4": 0.25}, {"v0": 0.5}]
    assert offered(v0=0.5, v2=0.25, v4=0.25) == [  # half of v4 would be no fewer
        {"v0": 0.5, "v2": 0.5, "v4": 0.25}, {"v0": 0.75, "v2": 0.25, "v4": 0.25},
    ]  # fmt: skip
    assert offered(v0=0.75, v2=0.75, v4=0.75) == []


@pytest.mark.parametrize("spared", [{}, {"weight_only": ["v0"]}, {"skip": ["v0"]}])
def test_what_eight_bits_leave_in_floats_may_be_multiplied_in_bfloat16(spared: dict[str, Any]) -> None:
    method = LOSSY["int8"]
    graded = method.step(price=1.0, **spared)
    for precisions in (frozenset(), frozenset({"bf16"})):
        prospect = Prospect(chain(), 8, precisions, {}, dict)
        forms = list(method.extensions(Standing((graded,), "int8", graded, True, True), prospect))
        assert [form.settings for form in forms] == [{"precision": "bf16"}] * bool(spared and precisions)
        net = Net()
        scores = net.op("matmul", "x", net.op("transpose", "x", perm=(0, 1, 3, 2)))
        attending = replace(prospect, program=net.program(net.head(scores)))
        forms = list(method.extensions(Standing((graded,), "int8", graded, True, True), attending))
        assert len(forms) == len(precisions), "products of values stay in floats"


@pytest.mark.parametrize("status", ["accepted", "unsure", "rejected"])
def test_nothing_changes_a_trained_plan(status: Any) -> None:
    """Its weights are those of the very steps before them."""
    plan = Plan((LOSSY["int8"].step(calibration="minmax", default_bits=8),))
    space = Space(two_layers(), ("onnxruntime",), sensitivity=lambda: SENSITIVITY)
    trained = plan.having(LOSSY["recover"].step(weights="0" * 64))
    for each in (plan, trained):
        idea, outcome = Idea(each, "begun"), Candidate("c1", each, status)
        found = [*space.moves(idea, outcome), *space.variants(idea, outcome), *space.challenges(each)]
        assert bool(found) == (each is plan)
