"""What must hold for a summary to be right, as obligations for solvers; trusts nothing that made it.

obligations(summary) -> [Obligation, ...]
"""

from __future__ import annotations

from tensmith.errors import ProgramError
from tensmith.lifting.conditions.certify import certify
from tensmith.lifting.conditions.execute import Executor
from tensmith.lifting.conditions.programs import program_goals
from tensmith.lifting.conditions.results import demand_results
from tensmith.lifting.conditions.script import ObligationWriter
from tensmith.lifting.conditions.world import Malformed, ProofWorld
from tensmith.lifting.lifted import Lifted
from tensmith.lifting.summary import Summary
from tensmith.verify.obligation import Obligation, Script

__all__ = ["certify", "obligations", "program_obligations"]


def obligations(summary: Summary) -> list[Obligation]:
    """Everything that must be proved for `summary` to say what its function computes.

    A summary that cannot be proved for its form (unknown names, a loop without facts) gives one obligation
    that is false, of kind "form", saying why.
    """
    try:
        world = ProofWorld(summary)
        executor = Executor(world)
        demand_results(executor, executor.block(summary.function.body, executor.entry()))
        writer = ObligationWriter(world)
        return [writer.satisfiable(), *map(writer.obligation, executor.goals)]
    except Malformed as error:
        return [malformed(summary, str(error))]


def program_obligations(lifted: Lifted, summary: Summary) -> list[Obligation]:
    """Everything that must be proved for the program to compute what the summary says, views included."""
    try:
        return program_goals(lifted, summary)
    except (Malformed, ProgramError, ValueError, LookupError) as error:
        return [malformed(summary, f"program: {error}")]


def malformed(summary: Summary, reason: str) -> Obligation:
    """An obligation that nothing proves."""
    position = summary.function.position
    script = Script("QF_UFLIA", "QF_UFLIA", (), (), (), (), (), (), (), "false")
    return Obligation(reason, "form", summary.function.name, "", position.line, position.column, script)
