"""Patterns among the nodes of a graph."""

from __future__ import annotations

from tensmith.backend.native.steps.graph import StepGraph
from tensmith.ir import Node
from tensmith.rewrite.match import Match, match
from tensmith.rewrite.term import Use


def matched(graph: StepGraph, term: Use, value: str) -> Match | None:
    """How tensor nodes make a value as a pattern says, if they do."""
    found = match(term, graph.program, value)
    return found if isinstance(found, Match) and graph.tensors.issuperset(found.nodes) else None


def read_as(graph: StepGraph, term: Use, value: str) -> Match | None:
    """How the only node that reads a value, and tensor nodes before it, make another as a pattern says."""
    reader = next(iter(graph.program.consumers.get(value, ())), None)
    return matched(graph, term, reader.output) if reader and graph.program.uses(value) == 1 else None


def other_number(graph: StepGraph, node: Node) -> tuple[str, float] | None:
    """(the computed input, the number) of a node of two inputs, one of them a single number."""
    for value, other in (node.inputs, node.inputs[::-1]):
        number = graph.constants.number(other)
        if number is not None and graph.shapes[value] == graph.shapes[node.output]:
            return value, number
    return None


def addend(node: Node, value: str) -> str | None:
    """What a node adds to `value`; None if it is no sum of that and another value."""
    others = [name for name in node.inputs if name != value]
    return others[0] if node.op == "add" and len(others) == 1 else None


def closed(graph: StepGraph, nodes: tuple[Node, ...]) -> bool:
    """Whether nobody else reads what is computed on the way, and all are tensor nodes."""
    inner = [graph.program.consumers.get(node.output, ()) for node in nodes[:-1]]
    outputs = set(graph.program.outputs)
    read = all(reader in nodes for readers in inner for reader in readers)
    return read and not any(node.output in outputs for node in nodes[:-1]) and graph.tensors.issuperset(nodes)
