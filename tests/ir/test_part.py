"""What outputs depend on, and what is inferred again when hints change."""

from __future__ import annotations

from dataclasses import replace

import onnx

from tensmith.ir import Node, Program, TensorType, make_node
from tensmith.ir.part import alive, without_dead

NOBODY = onnx.helper.make_node("Nobody", ["x"], ["y"])


def test_an_input_or_output_that_is_left_out_keeps_nothing_alive() -> None:
    nodes = (
        Node("split", ("x",), ("first", ""), {"axis": 0, "num_outputs": 2}),
        make_node("clip", ("x", "", "high"), ("y",)),
    )
    program = Program("p", {"x": TensorType("f32", (4,)), "high": TensorType("f32", ())}, ("y",), nodes, {})
    assert [node.op for node in alive(program.nodes, program.outputs)] == ["clip"]
    assert [node.op for node in without_dead(program).nodes] == ["clip"]


def test_other_hints_are_inferred_anew_by_a_program_that_shares_what_is_known() -> None:
    node = Node("opaque", ("x",), ("y",), opaque=NOBODY.SerializeToString())
    program = Program("p", {"x": TensorType("f32", (4,))}, ("y",), (node,), {})
    assert program.facts["y"].type is None
    hinted = replace(program, hints={"y": TensorType("f32", (7,))})
    assert hinted.type("y").static == (7,)
    assert replace(hinted, hints={}).facts["y"].type is None
