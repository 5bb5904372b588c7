"""Which values of a program its outputs need, and when: a choice of one of two tensors needs only the chosen.

A `where` of a 0-d condition chooses for all positions at once. What
only its sides need is not looked at where the other side is chosen, so that a view of a[n - 1] need not be
read where n is 0: its input is then guarded (`lifted.Input.when`), for every target alike.
"""

from __future__ import annotations

from typing import TypeAlias

from tensmith.ir import Node, Program

# A 0-d condition and what it is; all choices of a case hold in it, and a value is needed in any of its cases.
Choice: TypeAlias = tuple[str, bool]
Cases: TypeAlias = frozenset[frozenset[Choice]]
ALWAYS: Cases = frozenset((frozenset(),))
_MOST_CASES = 8


def needed(program: Program) -> dict[str, Cases]:
    """The cases in which some output depends on each value; what has too many counts as always needed."""
    found = dict.fromkeys(program.outputs, ALWAYS)
    for node in reversed(program.nodes):
        cases = frozenset[frozenset[Choice]]().union(*(found.get(name, ()) for name in node.outputs))
        sides: list[frozenset[Choice]] = [frozenset()] * len(node.inputs)
        if chooses(program, node):
            sides[1:] = (frozenset(((node.inputs[0], side),)) for side in (True, False))
        for name, side in zip(node.inputs, sides):
            found[name] = _least(found.get(name, frozenset()) | {case | side for case in cases})
    return found


def chooses(program: Program, node: Node) -> bool:
    """Whether a node is one of its operands, for all positions alike."""
    return node.op == "where" and program.type(node.inputs[0]).dims == ()


def _least(cases: Cases) -> Cases:
    """Without cases that others hold in already."""
    kept = frozenset(case for case in cases if not any(other < case for other in cases))
    return kept if len(kept) <= _MOST_CASES else ALWAYS
