"""The beam seeds, extends, bisects against the budget, and stops in time."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from tensmith.hardware import load_target
from tensmith.ir import Program, TensorType, make_node
from tensmith.report.metric import Metric, exact
from tensmith.rewrite.method import LOSSY
from tensmith.search.beam import beam_search
from tensmith.search.between import search_between
from tensmith.search.beyond import search_beyond
from tensmith.search.bits import predicted_divergence
from tensmith.search.candidate import Candidate
from tensmith.search.objective import Objective
from tensmith.search.plan import UNTOUCHED, Plan
from tensmith.search.sensitivity import Sensitivity
from tensmith.search.space import Space
from tensmith.search.strategy import Quest


def two_layers() -> Program:
    generator = np.random.default_rng(0)
    constants = {name: generator.normal(size=(64, 64)).astype("f") for name in ("w1", "w2")}
    nodes = (make_node("matmul", ("x", "w1"), ("h",)), make_node("matmul", ("h", "w2"), ("y",)))
    return Program("two", {"x": TensorType("f32", (1, 64))}, ("y",), nodes, constants)


SENSITIVITY = {"h": Sensitivity(1.0, 5.0), "y": Sensitivity(0.01, 0.1)}


def simulated(plan: Plan) -> Candidate:
    """A stand-in for measurement whose drop grows as bits fall: what the search must cope with."""
    prices = (s.params.get("price") for s in plan.steps)
    price = next((price for price in prices if price is not None), 0.0)
    bits = [8.0 if not price else 6 + np.log2(each.divergence / price) / 4 for each in SENSITIVITY.values()]
    mean = np.mean(np.clip(bits, 1, 8)) if plan.steps else 32.0
    drop = float(np.exp2(4 - mean)) if plan.steps else 0.0
    metrics = {
        "packed_bytes": exact(1000 * mean, "bytes"),
        "latency_ms": exact(1.0, "ms"),
        "speedup": exact(2.0 if plan.steps else 1.0, "x"),
    }
    status = "accepted" if drop <= 0.5 else "rejected"
    return Candidate(plan.key[:8], plan, status, "", "e", metrics, Metric(drop, drop, drop, "pt", "measured"))  # type: ignore[arg-type]


def run(in_time: bool = True) -> list[Candidate]:
    space = Space(two_layers(), ("onnxruntime",), sensitivity=lambda: SENSITIVITY)
    return beam_search(Quest(space, simulated, Objective(0.5), 32000.0, lambda: in_time))


def test_the_model_itself_and_its_exact_rewrite_come_first() -> None:
    assert [c.plan for c in run()[:2]] == [UNTOUCHED, Plan()]


def test_it_goes_below_eight_bits_up_to_the_budget() -> None:
    tried = run()
    accepted = [c.bytes for c in tried if c.status == "accepted"]
    assert min(accepted) < 6000
    assert any(c.status == "rejected" for c in tried), "the budget was never reached"


def test_beyond_the_budget_nothing_is_tried_twice_and_candidates_stand_as_they_were() -> None:
    objective, within = Objective(0.5), run(in_time=False)
    space = Space(two_layers(), ("onnxruntime",), sensitivity=lambda: SENSITIVITY)

    def attempt(plan: Plan) -> Candidate:
        found = simulated(plan)
        return replace(found, status=objective.standing(found.metrics, found.drop)[0])

    quest = Quest(space, attempt, objective, 32000.0, lambda: True)
    found = search_beyond(quest, within)
    assert not {c.plan.key for c in within} & {c.plan.key for c in found}
    beyond = [c for c in found if c.status == "beyond"]
    assert beyond and all(0.5 < c.drop.value <= 2.0 for c in beyond if c.drop is not None)
    assert min(c.bytes for c in beyond) < min(c.bytes for c in within if c.status == "accepted")
    assert search_beyond(replace(quest, time_left=lambda: False), within) == []


def test_between_the_original_and_the_best_each_plan_has_more_bits_until_they_buy_nothing() -> None:
    tried, found = run(), list[Candidate]()
    space = Space(two_layers(), ("onnxruntime",), sensitivity=lambda: SENSITIVITY)

    def attempt(plan: Plan) -> Candidate:
        found.append(simulated(plan))
        return found[-1]

    quest = Quest(space, attempt, Objective(0.5), 32000.0, lambda: True)
    search_between(quest, tried)
    sizes, drops = [c.bytes for c in found], [c.drop.value for c in found if c.drop is not None]
    assert len(found) > 3 and not {c.plan.key for c in tried} & {c.plan.key for c in found}
    assert sizes == sorted(sizes) and drops == sorted(drops, reverse=True)
    assert found[-1].bytes == 8000.0, "8 bits are 8 bits, whatever a megabyte costs"

    found.clear()
    search_between(quest, [c for c in tried if c.plan in (UNTOUCHED, Plan())])
    search_between(replace(quest, time_left=lambda: False), tried)
    assert not found


def test_no_plan_is_tried_twice_and_the_walk_is_the_same_every_time() -> None:
    first, second = run(), run()
    keys = [c.plan.key for c in first]
    assert len(set(keys)) == len(keys)
    assert keys == [c.plan.key for c in second]


def test_without_time_only_the_first_seeds_are_tried() -> None:
    safest = [[step.rule for step in tried.plan.steps] for tried in run(in_time=False)]
    assert safest == [[], [], ["half"], ["int8"]]


def test_of_many_weights_codes_are_of_no_trellis(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tensmith.search.space._MOST_ON_TRELLIS", 2 * 64 * 64 - 1)
    space = Space(two_layers(), ("onnxruntime",), sensitivity=lambda: SENSITIVITY)
    seed = next(idea for idea in space.seeds() if idea.family == "int8")
    (step,) = next(space.moves(seed, simulated(seed.plan))).plan.steps
    assert step.params["rounding"] == "coded"


def test_a_line_begins_where_little_should_be_lost_and_says_what_each_layer_is_worth() -> None:
    space = Space(two_layers(), ("onnxruntime",), sensitivity=lambda: SENSITIVITY)
    seed = next(idea for idea in space.seeds() if idea.family == "int8")
    line = next(space.moves(seed, simulated(seed.plan)))
    assert line.level is not None
    assert predicted_divergence(two_layers(), line.level) <= 0.004
    assert predicted_divergence(two_layers(), line.level + 1) > 0.004
    (step,) = line.plan.steps
    assert step.params["worth"] == {"h": 1.0, "y": 0.01}
    assert (step.params["rounding"], step.params["price"]) == ("dependent", 2**line.level)


def test_narrow_integers_never_exceed_seven_bits(tmp_path: Path) -> None:
    space = Space(
        two_layers(), ("onnxruntime",), target=load_target("server-avx2"), sensitivity=lambda: SENSITIVITY
    )
    tried = beam_search(Quest(space, simulated, Objective(0.5), 1.0, lambda: True))
    for plan in (c.plan for c in tried):
        for step in plan.steps:
            if step.rule in ("int8", "dynamic_int8"):
                assert step.params["default_bits"] == 7
                assert "bits" not in step.params
    outlooks = LOSSY["dynamic_int8"].outlooks(space.prospect)
    assert {(found.bits, found.words) for found in outlooks.values()} == {(7, "7-bit weights")}


def test_bfloat16_arithmetic_races_on_every_engine_that_can_be_told_to() -> None:
    def seeded(*engines: str) -> list[Mapping[str, str]]:
        space = Space(
            two_layers(), engines, target=load_target("server-amx"), sensitivity=lambda: SENSITIVITY
        )
        return [idea.plan.settings for idea in space.seeds() if idea.family == "bfloat16 arithmetic"]

    assert seeded("onnxruntime", "openvino", "native") == [{"precision": "bf16"}]
    assert seeded("onnxruntime", "native") == [{"precision": "bf16"}]
    assert seeded("onnxruntime") == []


def with_a_vector() -> Program:
    """Four products, one too shallow for blocks of 4-bit weights."""
    generator = np.random.default_rng(0)
    sizes = ((64, 64), (64, 64), (64, 16), (16, 8))
    constants = {f"w{i}": generator.normal(size=size).astype("f") for i, size in enumerate(sizes)}
    nodes = tuple(make_node("matmul", (f"h{i}" if i else "x", f"w{i}"), (f"h{i + 1}",)) for i in range(4))
    return Program("four", {"x": TensorType("f32", (1, 64))}, ("h4",), nodes, constants)


def test_what_blocks_of_four_bits_leave_takes_eight_and_what_they_hurt_most_is_skipped() -> None:
    sensitivity = {f"h{i}": Sensitivity(1.0 / i, 1.0) for i in range(1, 5)}
    space = Space(with_a_vector(), ("onnxruntime",), sensitivity=lambda: sensitivity)
    (seed,) = [idea for idea in space.seeds() if idea.family == "block_int4"]
    assert [step.rule for step in seed.plan.steps] == ["block_int4", "weight_only"]
    assert list(space.moves(seed, replace(simulated(seed.plan), status="accepted"))) == []
    rejected = replace(simulated(seed.plan), status="rejected")
    (next_one,) = space.moves(seed, rejected)
    assert next_one.plan.steps[0].params == {"skip": ["h1"]}
    assert list(space.moves(next_one, rejected)) == [], "half of the products at most"
    whole = Space(two_layers(), ("onnxruntime",), sensitivity=lambda: SENSITIVITY)
    (seed,) = [idea for idea in whole.seeds() if idea.family == "block_int4"]
    assert [step.rule for step in seed.plan.steps] == ["block_int4"]
