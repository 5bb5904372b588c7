"""What nobody reads goes: dead nodes and constants."""

from __future__ import annotations

from dataclasses import replace

from tensmith.ir import Program
from tensmith.rewrite.rule import ProgramRule, exact


@exact("dead_code", order=0)
class DeadCode(ProgramRule):
    """Nodes and constants that no output depends on are removed."""

    structural = "a program means its outputs, and no op has a side effect"

    def rewrite(self, program: Program) -> Program | None:
        """One pass from the outputs back."""
        needed = set(program.outputs)
        alive = []
        for node in reversed(program.nodes):
            if needed.intersection(name for name in node.outputs if name):
                needed.update(name for name in node.inputs if name)
                alive.append(node)
        constants = {name: array for name, array in program.constants.items() if name in needed}
        if len(alive) == len(program.nodes) and len(constants) == len(program.constants):
            return None
        return replace(program, nodes=tuple(reversed(alive)), constants=constants)
