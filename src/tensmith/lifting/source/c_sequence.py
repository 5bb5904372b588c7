"""Operands in an order that C leaves open: none may change what another reads or changes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TypeVar

from tensmith.lifting.loops import (
    Allocate,
    Append,
    Apply,
    Assign,
    Declare,
    Expr,
    If,
    Length,
    Load,
    Loop,
    ScalarCast,
    SourcePosition,
    Statement,
    Store,
    Variable,
)
from tensmith.lifting.refusal import Refusal
from tensmith.lifting.source.c_context import LoweringContext
from tensmith.lifting.source.c_places import Address, ArrayRegion, ElementPlace
from tensmith.lifting.source.defined import expressions

Found = TypeVar("Found")


def unsequenced(
    context: LoweringContext, where: SourcePosition, evaluations: Sequence[Callable[[], Found]]
) -> list[Found]:
    """The values of operands, evaluated one after the other.

    Raises:
        Refusal: another order would give other values.
    """
    results: list[Found] = []
    effects: list[list[Statement]] = []
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


def refuse_shared(names: set[str], where: SourcePosition) -> None:
    """Refuse an expression in which an order that C leaves open decides over variables."""
    if names:
        reason = f"{min(names)} is changed and read in one expression, in an order C leaves open"
        raise Refusal(f"{reason}: make them two statements", where)


def reads(found: object) -> set[str]:
    """The variables and arrays that a value reads, or that say where it is."""
    match found:
        case Variable(name, _, _):
            return {name}
        case Load(array, indices, _, _):
            return {array}.union(*map(reads, indices))
        case Length(array, _, _, _):
            return {array}
        case Apply(_, arguments, _, _):
            return set().union(*map(reads, arguments))
        case ScalarCast(value, _, _):
            return reads(value)
        case ElementPlace(_, indices) | ArrayRegion(_, indices) | Address(_, indices):
            return set().union(*map(reads, indices))
    return set()


def writes(statements: Iterable[Statement]) -> set[str]:
    """The variables and arrays of others that statements change."""
    found: set[str] = set()
    own: set[str] = set()
    for statement in statements:
        match statement:
            case Assign(name, _, _) | Store(name, _, _, _) | Append(name, _, _):
                found.add(name)
            case Declare(name, _, _, _) | Allocate(name, _, _, _, _):
                own.add(name)
            case If(_, then, otherwise, _):
                found |= writes(then) | writes(otherwise)
            case Loop(_, body, _, _):
                found |= writes(body)
    return found - own


def touches(statements: Iterable[Statement]) -> set[str]:
    """The variables and arrays that statements read or change."""
    found = writes(statements)
    for statement in statements:
        parts: tuple[Expr, ...] = expressions(statement)
        found = found.union(*map(reads, parts))
        if isinstance(statement, If):
            found |= touches(statement.then) | touches(statement.otherwise)
        elif isinstance(statement, Loop):
            found |= touches(statement.body)
    return found
