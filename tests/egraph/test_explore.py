"""Spaces of equal programs: what saturation and enumeration find, and what they say of it."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from nets import Net
from tensmith.egraph.explore import Explored, Reach, _Walk, enumerate_all, price, saturate
from tensmith.egraph.extract import extract
from tensmith.egraph.programs import ArrayHashes, ProgramGraph, signature
from tensmith.equality.programs import compare_programs
from tensmith.ir import Node, Program, make_node
from tensmith.ir.types import TensorType
from tensmith.rewrite.rule import Step
from tensmith.rewrite.trail import Traced, replay_exact, simplified, stepped
from tensmith.search.strategies.distance import distance

pytest.importorskip("highspy")


def cost(program: Program) -> dict[str, float]:
    """Products cost ten, everything else one."""
    return {node.output: 10.0 if node.op in ("mul", "matmul") else 1.0 for node in program.nodes}


def pairs(places: int) -> Program:
    """Two products with one matrix, one pair after the other: each pair may become one product by itself."""
    net = Net(4, 4)
    value = "x"
    for _ in range(places):
        a, b = (net.add("matmul", value, net.constant(4, 4)) for _ in range(2))
        value = net.add("add", net.add("exp", a), net.add("tanh", b))
    return net.program(value)


def replayed(program: Program, moves: tuple[Step, ...]) -> Traced:
    traced = simplified(Traced(program))
    for move in moves:
        traced = stepped(traced, move)
    return traced


@pytest.mark.parametrize("explore", [saturate, enumerate_all])
@pytest.mark.parametrize("places", [1, 2])
def test_the_optimum_is_found_proved_and_replayed(explore: object, places: int) -> None:
    program = pairs(places)
    found: Explored = explore(program, cost)  # type: ignore[operator]
    assert found.cost < found.start_cost
    assert found.gap == pytest.approx(0, abs=1e-6)
    assert found.ended == ""
    assert "the optimum of this space under this cost model" in distance(found, "test", found.cost)
    assert replayed(program, found.moves).program.digest == found.best.program.digest
    assert replay_exact(program, found.best.trail).digest == found.best.program.digest
    assert compare_programs(program, found.best.program).equal


def test_places_do_not_multiply_in_an_egraph() -> None:
    program = pairs(5)
    graph, every = saturate(program, cost), enumerate_all(program, cost)
    assert graph.cost == every.cost
    assert graph.programs < every.programs == 2**5


def test_limits_end_a_walk_with_what_was_found() -> None:
    program = pairs(3)
    few = enumerate_all(program, cost, Reach(programs=2))
    assert "limit of 2 programs" in few.ended
    assert few.gap is None
    assert "no bound is known" in distance(few, "test", few.cost)
    assert "time" in saturate(program, cost, Reach(seconds=0.0)).ended
    assert "nodes" in saturate(program, cost, Reach(nodes=1)).ended
    assert "depth" in enumerate_all(program, cost, Reach(depth=0)).ended


def test_what_is_cheaper_than_all_of_the_space_is_not_called_its_optimum() -> None:
    found = saturate(pairs(3), cost, Reach(programs=2))
    assert found.ended and found.bound > 0
    said = distance(found, "test", saturate(pairs(3), cost).cost)
    assert "optimum" not in said and "cheaper than all of this space" in said


def test_constants_cost_nothing_and_equal_ones_are_one() -> None:
    net = Net(2, 2)
    twice = [net.constant(values=np.float32([[1, 2], [3, 4]])) for _ in range(2)]
    program = net.program(net.add("matmul", net.add("matmul", "x", twice[0]), twice[1]))
    assert saturate(program, cost).cost <= 20


def test_an_output_may_be_called_as_rules_call_what_they_make() -> None:
    net = Net(4, 4)
    a, b = (net.add("matmul", "x", net.constant(4, 4)) for _ in range(2))
    net.nodes.append(make_node("add", (net.add("exp", a), net.add("tanh", b)), ("y.1",)))
    program = net.program("y.1")
    assert saturate(program, cost).cost < price(program, cost(program))


def of_nodes(*nodes: Node) -> Program:
    return Program("p", {"x": TensorType("f32", (4,))}, ("y",), nodes, {})


def test_what_the_graph_is_asked_for_costs_what_it_costs() -> None:
    walk = _Walk(
        of_nodes(make_node("exp", ("x",), ("e",)), make_node("mul", ("e", "x"), ("y",))), cost, Reach(), True
    )
    walk.begin()
    assert walk.graph is not None
    walk._sites(of_nodes(make_node("neg", ("x",), ("y",))), replace(walk.visits[0], place=0))
    assert extract(walk.graph.egraph()[0], 1.0).cost == 1.0


def test_operands_without_an_order_have_none_in_the_graph() -> None:
    graph, e = ProgramGraph(ArrayHashes()), make_node("exp", ("x",), ("e",))
    for read in (("e", "x"), ("x", "e")):
        graph.add(of_nodes(e, make_node("mul", read, ("y",))), {})
    assert graph.size == (3, 3)


def test_parts_of_another_number_are_other_values() -> None:
    """A split without sizes: how many outputs it has says what they are."""
    graph, signatures = ProgramGraph(ArrayHashes()), set()
    for parts in (2, 3):
        names = tuple(f"p{parts}.{at}" for at in range(parts))
        split = make_node("split", ("x",), names, {"axis": 0})
        program = Program("p", {"x": TensorType("f32", (6,))}, names[:1], (split,), {})
        signatures.add(signature(program, graph.hashes))
        graph._classes(program, {})
    assert graph.size == (8, 8) and len(signatures) == 2
