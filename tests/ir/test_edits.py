"""Edits carry tables over by their differences: what they give is what tables made anew would give."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tensmith.errors import ProgramError
from tensmith.ir import Node, Program
from tensmith.ir.edits import in_order
from tensmith.ir.types import TensorType
from tensmith.rewrite.trail import simplify

TABLES = ("producers", "consumers", "static_values", "facts")
BINARY, UNARY = ("add", "mul", "sub"), ("neg", "relu", "exp")


@st.composite
def programs(draw: st.DrawFn) -> Program:
    """Chains and joins of elementwise ops on [2, 3], one or two outputs."""
    names = ["x", "y", "w"]
    nodes = []
    for number in range(draw(st.integers(1, 12))):
        op = draw(st.sampled_from(BINARY + UNARY))
        inputs = [draw(st.sampled_from(names)) for _ in range(2 if op in BINARY else 1)]
        nodes.append(Node(op, tuple(inputs), (f"v{number}",)))
        names.append(f"v{number}")
    outputs = draw(st.lists(st.sampled_from(names[3:]), min_size=1, max_size=2, unique=True))
    kind = TensorType("f32", (2, 3))
    return Program(
        "random", {"x": kind, "y": kind}, tuple(outputs), tuple(nodes), {"w": np.ones((2, 3), "f4")}
    )


@st.composite
def edits(draw: st.DrawFn, program: Program) -> dict[str, object]:
    """A node replaced by two, by another value, by a constant, or by what does not fit."""
    node = draw(st.sampled_from(program.nodes))
    value = draw(st.sampled_from(sorted(program.names)))
    kind = draw(st.sampled_from(["two", "alias", "constant", "wide", "bare", "keep"]))
    if kind == "two":
        parts = (Node("neg", ("fresh",), node.outputs), Node("neg", (value,), ("fresh",)))
        return {"remove": (node,), "add": draw(st.permutations(parts))}
    if kind == "alias":
        return {"remove": (node,), "alias": {node.output: value}}
    if kind == "constant":
        return {"remove": (node,), "constants": {node.output: np.zeros((2, 3), "f4")}}
    if kind == "wide":
        return {"remove": (node,), "constants": {node.output: np.zeros((4, 1, 3), "f4")}}
    if kind == "bare":
        return {"remove": (node,)}
    return {"add": (Node("exp", (value,), ("fresh",)),), "alias": {node.output: "fresh"}}


def outcome(read: object, name: str) -> object:
    try:
        return getattr(read, name)
    except ProgramError as error:
        return str(error)


@settings(max_examples=300, deadline=None)
@given(st.data())
def test_tables_are_those_of_a_fresh_program(data: st.DataObject) -> None:
    program = data.draw(programs())
    for _ in range(3):
        for name in TABLES:
            outcome(program, name)
        if not program.nodes:
            return
        edit = data.draw(edits(program))
        try:
            after = program.edit(**edit)  # type: ignore[arg-type]
        except ProgramError as error:
            assert "its own output" in str(error)
            return
        fresh = replace(after)
        assert vars(fresh).keys().isdisjoint(TABLES)
        for name in (*TABLES, "names"):
            assert outcome(after, name) == outcome(fresh, name), name
        if isinstance(outcome(after, "facts"), str):
            return
        defined = {*after.inputs, *after.constants}
        assert list(in_order(after.nodes, defined)) == list(after.nodes)
        program = after


def test_tables_are_carried_where_only_one_place_changes() -> None:
    kind = TensorType("f32", (2, 3))
    nodes = [Node("exp", ("x" if n == 0 else f"v{n - 1}",), (f"v{n}",)) for n in range(5)]
    program = Program("chain", {"x": kind}, ("v4",), tuple(nodes), {})
    assert program.facts and program.static_values is not None
    after = program.edit(remove=(nodes[2],), add=(Node("relu", ("v1",), ("v2",)),))
    assert set(TABLES) <= vars(after).keys()


@pytest.mark.parametrize("op", ["neg", "relu"])
def test_long_chains_simplify(op: str) -> None:
    kind = TensorType("f32", (2, 3))
    nodes = [Node(op, ("x" if n == 0 else f"v{n - 1}",), (f"v{n}",)) for n in range(2000)]
    found = simplify(Program("chain", {"x": kind}, ("v1999",), tuple(nodes), {}))
    assert len(found.program.nodes) == 1


def test_an_edit_may_change_nothing() -> None:
    kind = TensorType("f32", (2,))
    program = Program("p", {"x": kind}, ("y",), (Node("neg", ("x",), ("y",)),), {})
    assert program.edit().nodes == program.nodes
