"""No variable is read before it is set, whatever way the branches and loops go."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

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
    Parameter,
    Return,
    Scalar,
    ScalarCast,
    Statement,
    Store,
    Struct,
    Variable,
)
from tensmith.lifting.refusal import Refusal


def check_defined(body: Sequence[Statement], parameters: Iterable[Parameter]) -> None:
    """Raise a Refusal at the first read of a scalar that may not be set (Java's definite assignment)."""
    known: set[str] = set()
    for parameter in parameters:
        if isinstance(parameter.type, Struct):
            known |= {
                f"{parameter.name}.{name}" for name, kind in parameter.type.fields if isinstance(kind, Scalar)
            }
        elif isinstance(parameter.type, Scalar):
            known.add(parameter.name)
    follow(body, known)


def follow(body: Sequence[Statement], known: set[str]) -> None:
    """Check statements in order; `known` grows by what they set for sure."""
    for statement in body:
        for expression in expressions(statement):
            check(expression, known)
        match statement:
            case Declare(name, _, value, _):
                known.discard(name)
                if value is not None:
                    known.add(name)
            case Assign(name, _, _):
                known.add(name)
            case If(_, then, otherwise, _):
                first, second = set(known), set(known)
                follow(then, first)
                follow(otherwise, second)
                known |= first & second
            case Loop(_, inside, _, _):
                follow(inside, set(known))


def expressions(statement: Statement) -> tuple[Expr, ...]:
    """What a statement evaluates before its own blocks."""
    match statement:
        case Declare(_, _, value, _):
            return () if value is None else (value,)
        case Assign(_, value, _):
            return (value,)
        case Store(_, indices, value, _):
            return (*indices, value)
        case Allocate(_, _, extents, fill, _):
            return extents if fill is None else (*extents, fill)
        case Append(_, value, _) | Return(value, _):
            return () if isinstance(value, str) else (value,)
        case If(condition, _, _, _) | Loop(condition, _, _, _):
            return (condition,)
    return ()


def check(expression: Expr, known: set[str]) -> None:
    for variable in variables(expression):
        if variable.name not in known:
            reason = f"{variable.name} may be read before it is set"
            raise Refusal(f"{reason}: give it a value where it is declared", variable.position)


def variables(expression: Expr) -> Iterator[Variable]:
    """The scalar variables in an expression."""
    match expression:
        case Variable():
            yield expression
        case Load(_, parts, _, _) | Apply(_, parts, _, _) | Length(row=parts):
            for part in parts:
                yield from variables(part)
        case ScalarCast(value, _, _):
            yield from variables(value)
