"""Sums of two values."""

from __future__ import annotations

from tensmith.ir import Node


def addend(node: Node, value: str) -> str | None:
    """What a node adds to `value`; None if it is no sum of that and another value."""
    others = [name for name in node.inputs if name != value]
    return others[0] if node.op == "add" and len(others) == 1 else None
