"""What methods would save of each layer is what they make of it, as far as weights alone tell."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from lossy_samples import Interpreted, chain, residual
from tensmith.errors import OutputError
from tensmith.hardware import load_target
from tensmith.ir import Program, TensorType, make_node
from tensmith.report.metric import Metric, exact
from tensmith.rewrite.kept import KEPT
from tensmith.rewrite.lossy.branch_pruning import branches
from tensmith.rewrite.lossy.channel_pruning import ChannelPruning
from tensmith.rewrite.lossy.dependency import groups
from tensmith.rewrite.lossy.grid import PROBE_BITS
from tensmith.rewrite.lossy.weights import find_layer, weighted_layers
from tensmith.rewrite.method import LOSSY, apply_lossy
from tensmith.rewrite.rule import Step
from tensmith.rewrite.trail import simplify
from tensmith.search.candidate import Candidate
from tensmith.search.checkpoint import DATABASE, Checkpoint
from tensmith.search.outlook import LayerOutlook, layer_outlooks, methods_found
from tensmith.search.plan import Plan
from tensmith.search.sensitivity import Sensitivity

TARGET = load_target("raspberry-pi-5")
PROGRAM = simplify(chain()).program
SITES = [layer.site for layer in weighted_layers(PROGRAM)]


def of(found: list[LayerOutlook], method: str) -> dict[str, LayerOutlook]:
    return {row.layer: row for row in found if row.method == method}


def product(depth: int, width: int, rank: int) -> Program:
    """One matrix product whose weights are of some rank."""
    random = np.random.default_rng(0)
    left, right = random.standard_normal((depth, rank)), random.standard_normal((rank, width))
    node = make_node("matmul", ("x", "w"), ("y",))
    weights = (left @ right).astype(np.float32)
    return Program("one", {"x": TensorType("f32", (1, depth))}, ("y",), (node,), {"w": weights})


def test_each_method_speaks_of_the_layers_that_it_changes() -> None:
    found = layer_outlooks(PROGRAM, TARGET)
    assert {row.layer for row in found} == set(SITES) and {row.method for row in found} <= set(LOSSY)
    assert of(found, "int8").keys() == of(found, "weight_only").keys() == set(SITES)
    assert of(found, "dynamic_int8") == {}  # the head is a gemm
    assert of(found, "recover") == {}
    order = [row.layer for row in found]
    assert sorted(order, key=SITES.index) == order


def test_bytes_are_those_of_the_weights() -> None:
    """Half is exactly half; a rank is what the method itself takes of the weights."""
    for row in of(layer_outlooks(PROGRAM, TARGET), "half").values():
        assert row.bytes_before == 4 * math.prod(find_layer(PROGRAM, row.layer).shape) == 2 * row.bytes_after
    program = product(48, 40, 5)
    row = of(layer_outlooks(program, TARGET), "low_rank")["y"]
    params = {"energy": 0.95, "criterion": "weights"}
    thinner = apply_lossy(program, Step("low_rank", "y", params, "lossy"), Interpreted())
    assert row.bytes_after == sum(array.nbytes for array in thinner.constants.values()) < row.bytes_before
    assert row.words.startswith("rank ") and row.ms_after is not None and row.ms_before is not None
    assert row.ms_after < row.ms_before


def test_what_would_not_shrink_is_left_out() -> None:
    """Weights whose directions all count, and numbers that are none."""
    program = product(40, 40, 40)
    turned = program.with_constants({"w": np.linalg.qr(program.constants["w"])[0]})
    assert of(layer_outlooks(turned, TARGET), "low_rank") == {}
    damaged = program.with_constants({"w": np.full_like(program.constants["w"], np.nan)})
    assert of(layer_outlooks(damaged, TARGET), "low_rank") == {}


def test_nothing_is_left_of_the_layers_of_a_branch() -> None:
    program = simplify(residual()).program
    found = of(layer_outlooks(program, TARGET), "branch_pruning")
    assert {*found} == {layer for branch in branches(program) for layer in branch.layers}
    assert {(row.bytes_after, row.ms_after) for row in found.values()} == {(0, 0.0)}


@pytest.mark.parametrize("make", [chain, residual])
def test_channels_that_go_take_weights_on_both_sides(make: Callable[[], Program]) -> None:
    """What is said of each layer is what is left when the search's first step was taken for every group."""
    program = simplify(make()).program
    found = of(layer_outlooks(program, TARGET), "channel_pruning")
    method = ChannelPruning()
    after = program
    for group in groups(program):
        if step := method._narrower(group, 0.25):
            plain = {**step.params, "criterion": "l1", "reconstruct": False}
            after = apply_lossy(after, replace(step, params=plain), Interpreted())
    sizes = {layer.site: 4 * math.prod(layer.shape) for layer in weighted_layers(program)}
    left = {layer.site: 4 * math.prod(layer.shape) for layer in weighted_layers(after)}
    assert {site: row.bytes_after for site, row in found.items()} == {
        site: size for site, size in left.items() if size < sizes[site]
    }


def test_costs_are_measured_where_they_were_probed_and_else_estimated() -> None:
    probed = {SITES[0]: Sensitivity(0.5, 3.0)}
    found = layer_outlooks(PROGRAM, TARGET, sensitivity=probed)
    at_eight = of(found, "weight_only")[SITES[0]]
    assert at_eight.divergence == pytest.approx(0.5 * 4.0 ** (PROBE_BITS - 8))
    assert at_eight.divergence_evidence == "estimated" == at_eight.evidence
    assert of(found, "weight_only")[SITES[1]].divergence is None
    assert of(found, "half")[SITES[0]].divergence_evidence is None
    four = layer_outlooks(product(64, 64, 64), TARGET, sensitivity={"y": Sensitivity(0.5, 3.0)})
    assert (of(four, "block_int4")["y"].divergence, of(four, "block_int4")["y"].divergence_evidence) == (
        0.5,
        "measured",
    )


def candidate(size: float, drop: float, *steps: Step, status: str = "accepted") -> Candidate:
    metrics = {"packed_bytes": exact(size, "bytes"), "speedup": exact(2.0, "x")}
    plan = Plan.of(steps)
    found = Metric(drop, drop, drop, "pt", "measured")
    return Candidate(plan.id, plan, status, "", "e", metrics, found)  # type: ignore[arg-type]


def test_the_best_of_each_method_alone_is_what_was_measured() -> None:
    int8, half = LOSSY["int8"].step(), LOSSY["half"].step()
    other = replace(int8, params={"calibration": "mse"})
    tried = [
        candidate(500, 0.0, half),
        candidate(250, 0.1, int8),
        candidate(240, 9.0, other, status="rejected"),
        candidate(100, 0.0, LOSSY["low_rank"].step("v3", rank=1), int8),  # not alone
        candidate(1000, 0.0),
    ]
    found = {row.method: row for row in methods_found(tried, 1000.0)}
    assert found.keys() == {"int8", "half"}
    assert (found["int8"].times, found["int8"].drop, found["int8"].status) == (4.0, 0.1, "accepted")


def test_a_database_that_is_looked_at_is_not_written(tmp_path: Path) -> None:
    path = tmp_path / DATABASE
    made = Checkpoint(path)
    made.add(candidate(500, 0.0, LOSSY["half"].step(**{KEPT: ["v3"]})))
    made.close()
    before = path.read_bytes()
    seen = Checkpoint(path, looked_at=True)
    assert [each.plan.steps[0].rule for each in seen.candidates()] == ["half"]
    with pytest.raises(OutputError, match=r"readonly|read-only"):
        seen.note("any", 1)
    seen.close()
    assert path.read_bytes() == before and list(tmp_path.iterdir()) == [path]
