"""What nobody reads goes: dead nodes and constants."""

from __future__ import annotations

from tensmith.ir import Program
from tensmith.ir.part import without_dead
from tensmith.rewrite.rule import ProgramRule, exact


@exact("dead_code", order=0)
class DeadCode(ProgramRule):
    """Nodes and constants that no output depends on are removed."""

    structural = "a program means its outputs, and no op has a side effect"

    def rewrite(self, program: Program) -> Program | None:
        """One pass from the outputs back."""
        found = without_dead(program)
        return None if found is program else found
