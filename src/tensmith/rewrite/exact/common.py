"""What is computed twice is computed once."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import replace

from tensmith.ir import Node, Program
from tensmith.ir.edits import reading_as
from tensmith.ir.text_values import same_array
from tensmith.rewrite.rule import ProgramRule, exact

_SAMPLE = 16


@exact("common_subexpressions", order=3)
class CommonSubexpressions(ProgramRule):
    """Nodes with equal ops, attributes and inputs become one; equal constants become one.

    Opaque nodes stay, as they may draw random numbers.
    """

    structural = "ops are pure functions: equal inputs and attributes give equal outputs"

    def rewrite(self, program: Program) -> Program | None:
        """Value numbering in one pass (Cocke 1970)."""
        renamed = _equal_constants(program)
        first: dict[Hashable, Node] = {}
        nodes: list[Node] = []
        for node in program.nodes:
            current = reading_as(node, renamed)
            key = (current.function, current.unordered(current.inputs), len(current.outputs))
            before = first.setdefault(key, current)
            if before is current or not _mergeable(before, current, program):
                nodes.append(current)
                continue
            renamed.update((old, new) for old, new in zip(current.outputs, before.outputs) if old)
        if not renamed:
            return None
        constants = {name: array for name, array in program.constants.items() if name not in renamed}
        return replace(program, nodes=tuple(nodes), constants=constants)


def _mergeable(before: Node, after: Node, program: Program) -> bool:
    """Whether `after` may go: no output of the program among its own, none of the kept node's missing."""
    return not any(
        new and (new in program.outputs or not old) for old, new in zip(before.outputs, after.outputs)
    )


def _equal_constants(program: Program) -> dict[str, str]:
    """Name of a constant -> the first constant with the same type and the same bits."""
    groups: dict[Hashable, list[str]] = {}
    renamed: dict[str, str] = {}
    for name, array in program.constants.items():
        flat = array.reshape(-1)
        stride = max(1, flat.size // _SAMPLE)
        sample = tuple(flat[::stride].tolist()) if array.dtype == object else flat[::stride].tobytes()
        group = groups.setdefault((str(array.dtype), array.shape, sample), [])
        twin = next((other for other in group if same_array(program.constants[other], array)), None)
        if twin is None:
            group.append(name)
        elif name not in program.outputs:
            renamed[name] = twin
    return renamed
