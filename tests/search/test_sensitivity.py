"""Probing layers ends in time; layers that it did not reach are treated with care."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest.mock import MagicMock

import numpy as np
import pytest

from tensmith.data import Subset, as_dataset, split
from tensmith.errors import OutputError
from tensmith.evaluate.calibrator import Calibrator
from tensmith.evaluate.task import Measure, Task
from tensmith.formula.poly import Poly
from tensmith.ir import Program, TensorType, make_node
from tensmith.rewrite.lossy.weights import StoredWeights
from tensmith.rewrite.method import LOSSY, Prospect, Standing
from tensmith.search import sensitivity
from tensmith.search.checkpoint import Checkpoint
from tensmith.search.sensitivity import (
    Probe,
    Sensitivity,
    _compare,
    for_all_layers,
    layer_sensitivity,
)

WIDTHS = (8, 16, 32, 64, 8, 8)
SITES = [f"h{number}" for number in range(len(WIDTHS) - 1)]


@pytest.fixture
def program() -> Program:
    """A chain of products, the third the largest."""
    generator = np.random.default_rng(0)
    weights = {
        f"w{number}": generator.normal(size=WIDTHS[number : number + 2]).astype("f")
        for number in range(len(SITES))
    }
    values = ["x", *SITES]
    nodes = tuple(make_node("matmul", (values[n], f"w{n}"), (values[n + 1],)) for n in range(len(SITES)))
    return Program("chain", {"x": TensorType("f32", (Poly.symbol("n"), 8))}, (SITES[-1],), nodes, weights)


@pytest.fixture
def view() -> Subset:
    samples = np.random.default_rng(1).normal(size=(200, 8)).astype("f")
    return split(as_dataset((samples, np.zeros(200, int))), 50, 40).calibration


def probed(program: Program, view: Subset, seconds: float) -> dict[str, Sensitivity]:
    probe = Probe.of(program, view, None, 1, seconds)
    return layer_sensitivity(program, probe, Calibrator(view, None, 1), seconds)


def test_every_layer_is_probed_in_time(program: Program, view: Subset) -> None:
    found = probed(program, view, 60.0)
    assert sorted(found) == SITES
    assert for_all_layers(program, found) == found


def test_late_the_largest_layer_is_probed_alone(program: Program, view: Subset) -> None:
    found = probed(program, view, 0.0)
    assert list(found) == ["h2"] and found["h2"].in_bytes is None


def test_what_8_bits_cannot_hold_is_told_from_what_coarse_weights_harm(view: Subset) -> None:
    """A product of numbers of which one is large and counts for nothing, between two that bytes hold."""
    random = np.random.default_rng(4)
    last = random.normal(size=(8, 4)).astype("f")
    last[0] = 0
    weights = {"a": np.eye(8, dtype="f"), "large": np.array([1e6] + [1] * 7, "f"), "b": last,
               "c": 3 * np.eye(4, dtype="f")}  # fmt: skip
    nodes = (
        make_node("matmul", ("x", "a"), ("h0",)),
        make_node("mul", ("h0", "large"), ("m",)),
        make_node("matmul", ("m", "b"), ("h1",)),
        make_node("matmul", ("h1", "c"), ("h2",)),
    )
    program = Program("net", {"x": TensorType("f32", (Poly.symbol("n"), 8))}, ("h2",), nodes, weights)
    found = {site: each.in_bytes or 0.0 for site, each in probed(program, view, 60.0).items()}
    assert found["h1"] > 20 * max(found["h0"], found["h2"]) > 0
    step = LOSSY["int8"].step(calibration="minmax", default_bits=8)
    plan = Standing((step,), "int8", step, False, True)
    prospect = Prospect(program, 8, frozenset(), {}, dict, lambda: found)
    (form,) = LOSSY["int8"].retreats(plan, prospect)
    assert form.steps[0].params["weight_only"] == ["h1"]
    plan = replace(plan, steps=form.steps, graded=form.steps[0])
    (form,) = LOSSY["int8"].retreats(plan, prospect)
    assert form.steps[0].params.items() >= {"skip": ["h1"], "default_bits": 8}.items()
    assert "weight_only" not in form.steps[0].params


def test_what_was_not_probed_is_taken_for_as_sensitive_as_any(program: Program) -> None:
    found = {"h1": Sensitivity(0.1, 1.0), "h2": Sensitivity(2.0, 9.0)}
    taken = for_all_layers(program, found)
    assert taken["h1"] == found["h1"]
    assert {taken[site] for site in ("h0", "h3", "h4")} == {found["h2"]}


def test_layers_are_told_where_making_up_for_errors_does_harm(
    program: Program, view: Subset, monkeypatch: pytest.MonkeyPatch
) -> None:
    rounded = sensitivity.on_grid

    def harmful_in_h1(program: Program, layer: StoredWeights, bits: int, params: Any, data: Any) -> Any:
        grid = rounded(program, layer, bits, params, data)
        harmed = layer.site == "h1" and params["rounding"] == "compensated"
        return replace(grid, codes=-grid.codes) if harmed else grid

    monkeypatch.setattr(sensitivity, "on_grid", harmful_in_h1)
    found = probed(program, view, 60.0)
    assert found["h1"].plain and not found["h2"].plain
    others = for_all_layers(program, {"h1": found["h1"]}).items()
    assert not any(each.plain for site, each in others if site != "h1")


def test_a_model_that_answers_one_at_a_time_is_probed_so(program: Program, view: Subset) -> None:
    inputs = {"x": TensorType("f32", (1, 8))}
    nodes = (*program.nodes, make_node("transpose", (SITES[-1],), ("t",), {"perm": [1, 0]}))
    one = replace(program, inputs=inputs, outputs=(SITES[-1], "t"), nodes=nodes)
    assert sorted(probed(one, view, 60.0)) == SITES


def test_as_many_rows_as_were_found_are_compared() -> None:
    boxes, fewer, none = (np.zeros((rows, 4), "f") for rows in (3, 2, 0))
    assert _compare([[boxes]], [[fewer]]) == Sensitivity(sensitivity._BROKEN, 100.0)
    assert _compare([[none], [boxes]], [[none], [boxes]]) == Sensitivity(0.0, 0.0)


def test_numbers_and_further_outputs_count() -> None:
    """A change of one standard deviation is half a nat, of an output that is one number or comes second."""
    number = np.array([[1.0], [3.0]])
    assert _compare([[number]], [[number + 1]]).divergence == pytest.approx(0.5)
    classes = np.array([[0.0, 1.0], [1.0, 0.0]])
    both, other = [classes, np.array([1.0, 3.0])], [classes, np.array([2.0, 4.0])]
    assert _compare([both], [other]).divergence == pytest.approx(0.5)
    assert _compare([both], [both]) == Sensitivity(0.0, 0.0)


@pytest.mark.parametrize("shape", [(2, 3), (2, 3, 1), (2, 3, 1, 1)])
def test_classes_change_whatever_axes_of_size_1_follow(shape: tuple[int, ...]) -> None:
    before, after = np.array([[0.0, 1, 0], [2, 0, 0]]), np.array([[3.0, 1, 0], [2, 0, 0]])
    found = _compare([[before.reshape(shape)]], [[after.reshape(shape)]])
    assert found == _compare([[before]], [[after]]) and found.flips == 50


@pytest.mark.parametrize("shape", [(2,), (2, 1), (2, 1, 1), (2, 1, 1, 1)])
def test_a_number_is_changed_and_not_flipped(shape: tuple[int, ...]) -> None:
    number = np.array([1.0, 3.0]).reshape(shape)
    found = _compare([[number]], [[number + 1]])
    assert found.divergence == pytest.approx(0.5) and found.flips is None


def test_classes_of_one_sample_need_no_axis_of_samples(program: Program, view: Subset) -> None:
    nodes = (*program.nodes, make_node("reshape", (SITES[-1], "all"), ("classes",)))
    constants = {**program.constants, "all": np.array([-1])}
    inputs = {"x": TensorType("f32", (1, 8))}
    one = replace(program, inputs=inputs, outputs=("classes",), nodes=nodes, constants=constants)
    assert all(each.flips is not None for each in probed(one, view, 60.0).values())


@pytest.mark.parametrize(
    ("measure", "flips"),
    [("accuracy", 2.5), ("agreement", 2.5), ("loss", 2.5), ("fidelity", None), ("score", None)],
)
def test_flips_are_told_where_answers_tell_something_apart(
    measure: Measure, flips: float | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sensitivity.Sensitivities, "_probe", None)
    monkeypatch.setattr(sensitivity, "layer_sensitivity", lambda *_: {"h": Sensitivity(0.1, 2.5)})
    monkeypatch.setattr(sensitivity, "for_all_layers", lambda _, found: found)
    run: Any = MagicMock(task=Task(measure))
    for _ in range(2):  # as measured, and as the checkpoint tells
        checkpoint = Checkpoint(tmp_path / "run.sqlite")
        known = sensitivity.Sensitivities(run, MagicMock(), MagicMock(), checkpoint)
        assert known.of_all_layers() == {"h": Sensitivity(0.1, flips)}
        checkpoint.close()


def test_answers_that_are_no_numbers_are_no_small_damage() -> None:
    before, after = np.array([[0.0, 1.0]]), np.array([[np.nan, 1.0]])
    assert _compare([[before]], [[after]]).divergence > 100 > _compare([[before]], [[before]]).divergence


def test_what_a_step_alone_costs_is_measured_once(program: Program, view: Subset, tmp_path: Path) -> None:
    """In the unit of the layers'; what cannot be done costs much, and damage is told."""
    splits = MagicMock(calibration=view)
    run: Any = MagicMock(task=Task("accuracy"), splits=splits, judging_threads=1, time_budget=60.0)
    checkpoint = Checkpoint(tmp_path / "run.sqlite")
    known = sensitivity.Sensitivities(run, program, Calibrator(view, None, 1), checkpoint)
    fine, coarse = (LOSSY["weight_only"].step(default_bits=bits, stored="floats") for bits in (5, 2))
    nowhere = LOSSY["low_rank"].step("nowhere", rank=1)
    costs = [known.of_step(step) for step in (fine, coarse, nowhere)]
    assert 0 < 4 * costs[0] < costs[1] and costs[2] == sensitivity._BROKEN
    again = sensitivity.Sensitivities(MagicMock(), MagicMock(), MagicMock(), checkpoint)
    assert [again.of_step(step) for step in (fine, coarse, nowhere)] == costs
    checkpoint.note(f"sensitivity/{json.dumps(fine.to_json(), sort_keys=True)}", "none")
    with pytest.raises(OutputError, match="damaged"):
        again.of_step(fine)
    checkpoint.close()
