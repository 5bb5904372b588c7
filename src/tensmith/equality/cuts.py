"""Cutting two programs at values they both compute, so that the polynomials between cuts stay small.

A cut passes a value through an unknown function in both programs. Programs that are equal with whatever
function in its place are equal with the identity, so a test that passes with cuts is as good as one without;
one that fails says nothing. Where to cut is a guess: at sums and quotients of the same name in both.
"""

from __future__ import annotations

from dataclasses import replace

from tensmith.ir import Node, Program
from tensmith.ir.program import make_node

# Where degrees grow: residual sums, and what divides.
_AT = frozenset({"add", "div", "sigmoid", "softmax"})
# Functions that no other op is made of.
_FUNCTIONS = ("atanh", "asinh", "acosh")


def cut(left: Program, right: Program) -> tuple[Program, Program, int] | None:
    """Both programs with the same cuts, and how many; None where there is no place or no free function."""
    used = {node.op for program in (left, right) for node in program.nodes}
    free = [function for function in _FUNCTIONS if function not in used]
    common = _places(left) & _places(right)
    if not free or not common:
        return None
    return _cut(left, common, free[0]), _cut(right, common, free[0]), len(common)


def _places(program: Program) -> set[str]:
    return {
        node.output
        for node in program.nodes
        if node.op in _AT
        and node.output not in program.outputs
        and node.output not in program.static_values
        and program.type(node.output).floating
    }


def _cut(program: Program, names: set[str], function: str) -> Program:
    nodes: list[Node] = []
    for node in program.nodes:
        if node.output not in names:
            nodes.append(node)
            continue
        whole = next(program.fresh(node.output))
        nodes.append(replace(node, outputs=(whole, *node.outputs[1:])))
        nodes.append(make_node(function, (whole,), (node.output,)))
    return replace(program, nodes=tuple(nodes))
