"""The regions of a program that native code computes: connected, convex, and worth their border.

A set of nodes is convex if no path leaves it and comes back, so that one call can compute it. Nodes are taken
in waves, all that are ready for one side and then all for the other: a wave is a stretch of an order of
definition, and so each of its connected pieces is convex.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Collection
from dataclasses import dataclass

from tensmith.backend.native.plan import NativePlan
from tensmith.errors import EngineError
from tensmith.ir import Node, Program
from tensmith.ir.part import cut_out
from tensmith.kernel.buffer import C_TYPES

# Multiply-adds for each element that crosses a region's border, below which it stays with ONNX Runtime.
_LEAST_WORK = 1

Planner = Callable[[Program], NativePlan]


@dataclass(frozen=True, eq=False)
class Region:
    """Nodes of a program that one call computes, and how."""

    nodes: frozenset[Node]
    plan: NativePlan

    @property
    def inputs(self) -> tuple[str, ...]:
        """What it reads that others make."""
        return tuple(self.plan.program.inputs)

    @property
    def outputs(self) -> tuple[str, ...]:
        """What others read of what it makes."""
        return self.plan.program.outputs


def find_regions(program: Program, planner: Planner) -> list[Region]:
    """What native code computes of a simplified program of fixed sizes.

    EngineError if that is nothing, with a reason: a node that it refuses, or that no piece is worth it.
    """
    left = {node for node in program.nodes if _is_fixed(program, node)}
    reason = "no product of fixed sizes does more work than handing over its operands"
    while True:
        found: list[Region] = []
        refused: set[Node] = set()
        for nodes in _pieces(program, left):
            part = cut_out(program, nodes)
            if sum(map(part.macs, part.nodes)) < _LEAST_WORK * _border(part):
                continue
            try:
                found.append(Region(nodes, planner(part)))
            except EngineError as error:
                refused |= _refused(program, nodes, planner)
                reason = str(error)
        if not refused:
            break
        left -= refused
    if not found:
        raise EngineError(f"nothing of '{program.name}' is compiled: {reason}")
    return found


def _is_fixed(program: Program, node: Node) -> bool:
    """Whether TensIR knows a node, and native code the types and sizes of all that it touches."""
    if node.opaque is not None or node.output in program.static_values:
        return False
    moved = [name for name in (*node.inputs, *node.outputs) if name and name not in program.static_values]
    types = [program.facts[name].type for name in moved]
    shapes = [type_.static for type_ in types if type_ and type_.dtype in C_TYPES]
    return len(shapes) == len(types) and all(shape is not None and all(shape) for shape in shapes)


def _refused(program: Program, nodes: frozenset[Node], planner: Planner) -> set[Node]:
    """The nodes that cannot be planned even alone; all, if it is only together that they cannot."""

    def plans(node: Node) -> bool:
        try:
            planner(cut_out(program, {node}))
        except EngineError:
            return False
        return True

    return {node for node in nodes if not plans(node)} or set(nodes)


def _pieces(program: Program, native: Collection[Node]) -> list[frozenset[Node]]:
    """Connected convex sets of all `native` nodes, as large as one order of definition makes them."""
    made = {name: node for node in program.nodes for name in node.outputs if name}
    computed = [node for node in program.nodes if node.output not in program.static_values]
    behind: dict[Node, list[Node]] = {node: [] for node in computed}
    waiting: dict[Node, int] = {}
    for node in computed:
        before = {made[name] for name in node.inputs if name in made} & behind.keys()
        waiting[node] = len(before)
        for other in before:
            behind[other].append(node)
    ready: dict[bool, deque[Node]] = {False: deque(), True: deque()}
    for node in computed:
        if not waiting[node]:
            ready[node in native].append(node)
    pieces: list[frozenset[Node]] = []
    while any(ready.values()):
        for side, queue in ready.items():
            wave = []
            while queue:
                wave.append(node := queue.popleft())
                for reader in behind[node]:
                    waiting[reader] -= 1
                    if not waiting[reader]:
                        ready[reader in native].append(reader)
            if side:
                pieces += _connected(wave, behind)
    return pieces


def _connected(wave: list[Node], behind: dict[Node, list[Node]]) -> list[frozenset[Node]]:
    """The nodes of a wave in sets between which no value passes."""
    group = {node: {node} for node in wave}
    for node in wave:
        for reader in behind[node]:
            if reader in group and group[reader] is not group[node]:
                small, large = sorted((group[node], group[reader]), key=len)
                large |= small
                group.update(dict.fromkeys(small, large))
    return [frozenset(nodes) for nodes in {id(nodes): nodes for nodes in group.values()}.values()]


def _border(program: Program) -> int:
    """How many elements a program takes and gives."""
    types = [*program.inputs.values(), *map(program.type, program.outputs)]
    return sum(math.prod(type_.static or ()) for type_ in types)
