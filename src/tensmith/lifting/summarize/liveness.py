"""Which variables and arrays are read later, at each loop's head and behind it: backward, over the syntax."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tensmith.lifting import loops

Names = frozenset[str]


@dataclass(frozen=True)
class Live:
    """Names read later than a loop's head (the loop included), and later than the loop."""

    head: Names
    after: Names


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
        case loops.If(condition, then, otherwise):
            return _block(then, live, found) | _block(otherwise, live, found) | loops.reads(condition)
        case loops.Loop(condition, body, label):
            head = live | loops.reads(condition)
            while (grown := head | _block(body, head, found)) != head:
                head = grown
            found[label] = Live(head, live)
            return head
        case loops.Declare(name) | loops.Assign(name) | loops.Allocate(name):
            live = live - {name}
    return live | loops.reads(statement)
