"""Which variables and arrays are read later, at each loop's head and behind it: backward, over the syntax."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from tensmith.lifting import loops

Names = frozenset[str]


@dataclass(frozen=True)
class Live:
    """Names read later than a loop's head (the loop included), and later than the loop."""

    head: Names
    after: Names


def used(expression: loops.Expr) -> Iterator[str]:
    """Variables and arrays that an expression reads."""
    match expression:
        case loops.Variable(name, _):
            yield name
        case loops.Load(name, indices, _) | loops.Length(name, row=indices):
            yield name
            for part in indices:
                yield from used(part)
        case loops.Apply(_, arguments, _):
            for part in arguments:
                yield from used(part)
        case loops.ScalarCast(value, _):
            yield from used(value)


def liveness(function: loops.Function) -> Mapping[str, Live]:
    """Loop label -> what is live. Parameters' arrays are always live: they are outputs."""
    found: dict[str, Live] = {}
    _block(function.body, frozenset(function.arrays), found)
    return found


def _block(body: Sequence[loops.Statement], live: Names, found: dict[str, Live]) -> Names:
    for statement in reversed(body):
        live = _before(statement, live, found)
    return live


def _before(statement: loops.Statement, live: Names, found: dict[str, Live]) -> Names:
    match statement:
        case loops.Declare(name, _, value):
            return (live - {name}) | (set(used(value)) if value is not None else set())
        case loops.Assign(name, value):
            return (live - {name}) | set(used(value))
        case loops.Allocate(name, _, extents, fill):
            read = {n for part in (*extents, *([fill] if fill is not None else [])) for n in used(part)}
            return (live - {name}) | read
        case loops.Store(_, indices, value):
            return live | {n for part in (*indices, value) for n in used(part)}
        case loops.Append(_, value):
            return live | ({value} if isinstance(value, str) else set(used(value)))
        case loops.Return(value):
            return live | ({value} if isinstance(value, str) else set(used(value)))
        case loops.If(condition, then, otherwise):
            return _block(then, live, found) | _block(otherwise, live, found) | set(used(condition))
        case loops.Loop(condition, body, label):
            head = live | set(used(condition))
            while (grown := head | _block(body, head, found)) != head:
                head = grown
            found[label] = Live(head, live)
            return head
    raise TypeError(f"not a statement: {statement!r}")
