"""Which regions of a program native code gets."""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest
from mixed_models import F32, branching, convolution, detector, model, program, weights
from onnx import helper

from tensmith.backend.mixed.regions import Region, find_regions
from tensmith.backend.native.plan import make_plan
from tensmith.errors import EngineError
from tensmith.kernel import host_isa
from tensmith.rewrite.trail import simplify


def regions_of(made: object) -> list[Region]:
    start = simplify(program(made)).program  # type: ignore[arg-type]
    return find_regions(start, partial(make_plan, isa=host_isa()))


def ops(region: Region) -> list[str]:
    return sorted(node.op for node in region.nodes)


def test_all_before_a_selection_is_one_region() -> None:
    (region,) = regions_of(detector())
    assert (region.inputs, set(region.outputs)) == (("x",), {"boxes", "scores"})


def test_what_stands_between_two_products_parts_them() -> None:
    first, second = regions_of(branching())
    assert (first.inputs, first.outputs) == (("x",), ("a",))
    assert (second.inputs, second.outputs) == (("b",), ("y",))


def test_a_region_does_not_wait_for_itself() -> None:
    """a -> If -> sum and a -> sum: the sum may not join a, for then the If would wait for what it feeds."""
    nodes = [
        *branching().graph.node[:-1],
        helper.make_node("Add", ["a", "b"], ["c"]),
        convolution("c", "g", "y"),
    ]
    constants = {"zero": np.array(0, np.float32), **weights(f=(16, 3, 3, 3), g=(8, 16, 3, 3))}
    first, second = regions_of(model(nodes, {"y": (F32, (1, 8, 8, 8))}, constants))
    assert "conv" in ops(first) and ops(second) == ["add", "conv"]
    assert set(second.inputs) == {"a", "b"}


def test_a_model_that_native_takes_is_one_region() -> None:
    made = model([convolution("x", "f", "y")], {"y": (F32, (1, 4, 8, 8))}, weights(f=(4, 3, 3, 3)))
    (region,) = regions_of(made)
    assert ops(region) == ["conv"]


def test_a_node_that_native_refuses_is_left_out() -> None:
    """Random numbers have a fixed size, and no kernel."""
    nodes = [
        convolution("x", "f", "a"),
        helper.make_node("Dropout", ["a", "ratio", "training"], ["b"]),
        convolution("b", "g", "y"),
    ]
    constants = {
        "ratio": np.array(0.5, np.float32), "training": np.array(True),
        **weights(f=(16, 3, 3, 3), g=(8, 16, 3, 3)),
    }  # fmt: skip
    found = regions_of(model(nodes, {"y": (F32, (1, 8, 8, 8))}, constants))
    assert [ops(region) for region in found] == [["conv"], ["conv"]]


def test_what_is_not_worth_its_border_is_refused_with_a_reason() -> None:
    made = model([helper.make_node("Relu", ["x"], ["y"])], {"y": (F32, (1, 3, 8, 8))}, {})
    with pytest.raises(EngineError, match="nothing of 'small' is compiled: no product of fixed sizes"):
        regions_of(made)


def test_a_recurrent_layer_is_taken_or_left() -> None:
    """One that clips has no kernel."""
    nodes = [
        helper.make_node("Reshape", ["x", "steps"], ["s"]),
        helper.make_node("LSTM", ["s", "w", "r"], ["a"], hidden_size=8),
        helper.make_node("Reshape", ["a", "again"], ["b"]),
        helper.make_node("LSTM", ["b", "v", "u"], ["y"], hidden_size=8, clip=1.0),
    ]
    constants = {
        "steps": np.array([8, 1, 24]), "again": np.array([8, 1, 8]),
        **weights(w=(1, 32, 24), r=(1, 32, 8), v=(1, 32, 8), u=(1, 32, 8)),
    }  # fmt: skip
    (region,) = regions_of(model(nodes, {"y": (F32, (8, 1, 1, 8))}, constants))
    assert "lstm" in ops(region) and region.inputs == ("x",)
