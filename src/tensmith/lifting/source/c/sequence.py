"""Operands in an order that C leaves open: none may change what another reads or changes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TypeVar

from tensmith.lifting import loops
from tensmith.lifting.refusal import Refusal
from tensmith.lifting.source.c.context import LoweringContext
from tensmith.lifting.source.c.places import Address, ArrayRegion, ElementPlace
from tensmith.lifting.source.defined import expressions

Found = TypeVar("Found")


def unsequenced(
    context: LoweringContext, where: loops.SourcePosition, evaluations: Sequence[Callable[[], Found]]
) -> list[Found]:
    """The values of operands, evaluated one after the other.

    Raises:
        Refusal: another order would give other values.
    """
    results: list[Found] = []
    effects: list[list[loops.Statement]] = []
    for evaluation in evaluations:
        before = len(context.out)
        results.append(evaluation())
        effects.append(context.out[before:])
    for number, statements in enumerate(effects):
        changed = writes(statements) if statements else set()
        for other in range(len(results)) if changed else ():
            if other != number:
                touched = reads(results[other]) | touches(effects[other])
                refuse_shared(changed & touched, where)
    return results


def refuse_shared(names: set[str], where: loops.SourcePosition) -> None:
    """Refuse an expression in which an order that C leaves open decides over variables."""
    if names:
        reason = f"{min(names)} is changed and read in one expression, in an order C leaves open"
        raise Refusal(f"{reason}: make them two statements", where)


def reads(found: object) -> set[str]:
    """The variables and arrays that a value reads, or that say where it is."""
    match found:
        case loops.Variable(name, _, _):
            return {name}
        case loops.Load(array, indices, _, _):
            return {array}.union(*map(reads, indices))
        case loops.Length(array, _, _, _):
            return {array}
        case loops.Apply(_, arguments, _, _):
            return set().union(*map(reads, arguments))
        case loops.ScalarCast(value, _, _):
            return reads(value)
        case ElementPlace(_, indices) | ArrayRegion(_, indices) | Address(_, indices):
            return set().union(*map(reads, indices))
    return set()


def writes(statements: Iterable[loops.Statement]) -> set[str]:
    """The variables and arrays of others that statements change."""
    found: set[str] = set()
    own: set[str] = set()
    for statement in statements:
        match statement:
            case loops.Assign(name, _, _) | loops.Store(name, _, _, _) | loops.Append(name, _, _):
                found.add(name)
            case loops.Declare(name, _, _, _) | loops.Allocate(name, _, _, _, _):
                own.add(name)
            case loops.If(_, then, otherwise, _):
                found |= writes(then) | writes(otherwise)
            case loops.Loop(_, body, _, _):
                found |= writes(body)
    return found - own


def touches(statements: Iterable[loops.Statement]) -> set[str]:
    """The variables and arrays that statements read or change."""
    found = writes(statements)
    for statement in statements:
        parts: tuple[loops.Expr, ...] = expressions(statement)
        found = found.union(*map(reads, parts))
        if isinstance(statement, loops.If):
            found |= touches(statement.then) | touches(statement.otherwise)
        elif isinstance(statement, loops.Loop):
            found |= touches(statement.body)
    return found
