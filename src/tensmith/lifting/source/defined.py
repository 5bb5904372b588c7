"""No variable is read before it is set, whatever way the branches and loops go."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from tensmith.formula.expr import Read
from tensmith.formula.types import MachineType
from tensmith.lifting import loops
from tensmith.lifting.refusal import Refusal


def check_defined(body: Sequence[loops.Statement], parameters: Iterable[loops.Parameter]) -> None:
    """Raise a Refusal at the first read of a scalar that may not be set (Java's definite assignment)."""
    fields = (field for parameter in parameters for field in parameter.fields)
    follow(body, {name for name, type_ in fields if isinstance(type_, MachineType)})


def follow(body: Sequence[loops.Statement], known: set[str]) -> None:
    """Check statements in order; `known` grows by what they set for sure."""
    for statement in body:
        check(statement.condition if isinstance(statement, loops.If | loops.Loop) else statement, known)
        match statement:
            case loops.Declare(name, _, value, _):
                known.discard(name)
                if value is not None:
                    known.add(name)
            case loops.Assign(name, _, _):
                known.add(name)
            case loops.If(_, then, otherwise, _):
                first, second = set(known), set(known)
                follow(then, first)
                follow(otherwise, second)
                known |= first & second
            case loops.Loop(_, inside, _, _):
                follow(inside, set(known))


def check(part: object, known: set[str]) -> None:
    """What a statement evaluates before its own blocks must be set."""
    variables = (node for node in loops.nodes(part) if isinstance(node, Read))
    unset = [variable for variable in variables if variable.tensor not in known]
    if unset:
        first = min(unset, key=lambda variable: variable.position)
        reason = f"{first.tensor} may be read before it is set"
        raise Refusal(f"{reason}: give it a value where it is declared", first.position)
