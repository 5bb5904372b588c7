"""Extraction against all choices there are."""

from __future__ import annotations

import itertools
import math
import random

import pytest

from tensmith.egraph.extract import extract
from tensmith.egraph.graph import EGraph, ENode
from tensmith.errors import UsageError

pytest.importorskip("highspy")


def best_of_all(graph: EGraph) -> float:
    """The least cost of every choice that has no cycle; infinity where there is none."""
    least = math.inf
    for positions in itertools.product(*(range(len(nodes)) for nodes in graph.classes)):
        try:
            least = min(least, graph.cost(dict(enumerate(positions))))
        except UsageError:
            continue
    return least


def some_graph(seed: int, classes: int = 7) -> EGraph:
    """Classes that read each other in any direction, costs that often tie or are nothing."""
    draw = random.Random(seed)

    def node() -> ENode:
        children = tuple(draw.sample(range(classes), draw.choice((0, 1, 1, 2, 2, 3))))
        return ENode("n", float(draw.choice((0, 0, 1, 1, 2, 5, 9))), children)

    table = tuple(tuple(node() for _ in range(draw.choice((1, 2, 3)))) for _ in range(classes))
    return EGraph(table, tuple(draw.sample(range(classes), draw.choice((1, 1, 2)))))


@pytest.mark.parametrize("seed", range(120))
def test_the_optimum_is_that_of_all_choices(seed: int) -> None:
    graph = some_graph(seed)
    least = best_of_all(graph)
    if math.isinf(least):
        with pytest.raises(UsageError, match="without a cycle"):
            extract(graph)
        return
    found = extract(graph)
    assert found.optimal
    assert found.cost == pytest.approx(least)
    assert graph.cost(found.choice) == found.cost


def test_what_is_shared_is_paid_once() -> None:
    """Two readers of one dear class are cheaper than two classes that are less dear each."""
    graph = EGraph(
        (
            (ENode("both", 0, (1, 2)),),
            (ENode("of shared", 0, (3,)), ENode("own", 6, ())),
            (ENode("of shared", 0, (3,)), ENode("own", 6, ())),
            (ENode("shared", 10, ()),),
        ),
        (0,),
    )
    assert extract(graph).cost == 10


# A part of the whole and the whole of its parts cost nothing together, and compute nothing.
CIRCLE = EGraph(
    (
        (ENode("whole of parts", 0, (1, 2)), ENode("computed", 9, ())),
        (ENode("first part", 0, (0,)), ENode("computed", 5, ())),
        (ENode("second part", 0, (0,)), ENode("computed", 5, ())),
    ),
    (0,),
)


def test_what_needs_no_solver_is_taken_too() -> None:
    """Reductions alone find the optimum here, after a greedy start that costs more."""
    graph = EGraph(
        (
            (ENode("shared", 2, ()),),
            (ENode("own", 3, ()), ENode("of shared", 2, (0,))),
            (ENode("dear", 3, (3, 4)), ENode("of shared", 2, (0,))),
            (ENode("first", 2, ()), ENode("of itself", 2, (3,))),
            (ENode("second", 2, ()), ENode("of itself", 2, (4, 1))),
        ),
        (1, 2),
    )
    found = extract(graph)
    assert found.cost == best_of_all(graph) == 6 and found.optimal


def test_a_circle_that_proves_itself_is_no_program() -> None:
    found = extract(CIRCLE)
    assert (found.cost, found.bound, found.optimal, found.gap) == (9, 9, True, 0)


def test_without_time_a_bound_holds_and_nothing_more_is_said() -> None:
    found = extract(CIRCLE, seconds=0.0)
    assert (found.cost, found.bound, found.optimal, found.gap) == (9, 0, False, 1)
