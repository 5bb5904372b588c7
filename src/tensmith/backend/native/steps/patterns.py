"""Patterns among the nodes of a graph."""

from __future__ import annotations

from tensmith.backend.native.steps.graph import StepGraph
from tensmith.rewrite.term import Match, Use, match


def matched(graph: StepGraph, term: Use, value: str) -> Match | None:
    """How tensor nodes make a value as a pattern says, if they do."""
    found = match(term, graph.program, value)
    return found if isinstance(found, Match) and graph.tensors.issuperset(found.nodes) else None


def read_as(graph: StepGraph, term: Use, value: str) -> Match | None:
    """How the only node that reads a value, and tensor nodes before it, make another as a pattern says."""
    reader = next(iter(graph.program.consumers.get(value, ())), None)
    return matched(graph, term, reader.output) if reader and graph.program.uses(value) == 1 else None
