"""Which variables and arrays are read later, at each loop's head and behind it: backward, over the syntax."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from tensmith.lifting.loops import (
    Allocate,
    Append,
    Apply,
    Array,
    Assign,
    Declare,
    Expr,
    Function,
    If,
    Length,
    Load,
    Loop,
    Return,
    ScalarCast,
    Statement,
    Store,
    Struct,
    Variable,
)

Names = frozenset[str]


@dataclass(frozen=True)
class Live:
    """Names read later than a loop's head (the loop included), and later than the loop."""

    head: Names
    after: Names


def used(expression: Expr) -> Iterator[str]:
    """Variables and arrays that an expression reads."""
    match expression:
        case Variable(name, _):
            yield name
        case Load(name, indices, _) | Length(name, row=indices):
            yield name
            for part in indices:
                yield from used(part)
        case Apply(_, arguments, _):
            for part in arguments:
                yield from used(part)
        case ScalarCast(value, _):
            yield from used(value)


def liveness(function: Function) -> Mapping[str, Live]:
    """Loop label -> what is live. Parameters' arrays are always live: they are outputs."""
    found: dict[str, Live] = {}
    _block(function.body, frozenset(_outputs(function)), found)
    return found


def _outputs(function: Function) -> Iterator[str]:
    for parameter in function.parameters:
        if isinstance(parameter.type, Array):
            yield parameter.name
        elif isinstance(parameter.type, Struct):
            yield from (f"{parameter.name}.{name}" for name, _ in parameter.type.fields)


def _block(body: Sequence[Statement], live: Names, found: dict[str, Live]) -> Names:
    for statement in reversed(body):
        live = _before(statement, live, found)
    return live


def _before(statement: Statement, live: Names, found: dict[str, Live]) -> Names:
    match statement:
        case Declare(name, _, value):
            return (live - {name}) | (set(used(value)) if value is not None else set())
        case Assign(name, value):
            return (live - {name}) | set(used(value))
        case Allocate(name, _, extents, fill):
            read = {n for part in (*extents, *([fill] if fill is not None else [])) for n in used(part)}
            return (live - {name}) | read
        case Store(_, indices, value):
            return live | {n for part in (*indices, value) for n in used(part)}
        case Append(_, value):
            return live | ({value} if isinstance(value, str) else set(used(value)))
        case Return(value):
            return live | ({value} if isinstance(value, str) else set(used(value)))
        case If(condition, then, otherwise):
            return _block(then, live, found) | _block(otherwise, live, found) | set(used(condition))
        case Loop(condition, body, label):
            head = live | set(used(condition))
            while (grown := head | _block(body, head, found)) != head:
                head = grown
            found[label] = Live(head, live)
            return head
    raise TypeError(f"not a statement: {statement!r}")
