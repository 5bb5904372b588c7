"""Elements that a loop remembers by their place, `if (a[i] > a[k]) k = i;`, kept in variables of their own.

What a[k] holds is read where k gets its value, at a place that counts, not where k is used, at a place that
data chose. Nothing of the array may change meanwhile. The element of the k before the loop is read where the
loop begins at all, or what follows the loop asks for it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import fields, is_dataclass, replace
from typing import Any

from tensmith.formula.expr import Num, Read, variable
from tensmith.formula.types import MachineType
from tensmith.lifting.loops import (
    Assign,
    Declare,
    Function,
    If,
    Length,
    Load,
    Loop,
    Statement,
    declares,
    new_name,
    nodes,
    reads,
    statements,
    writes,
)


def with_kept_elements(function: Function) -> Function:
    """The function with every such element in a variable."""
    taken = {name for name, _ in function.fields}
    return replace(function, body=tuple(_block(function.body, taken | declares(function.body))))


def _block(body: Sequence[Statement], taken: set[str]) -> Iterator[Statement]:
    """Statements in order, those inside others too."""
    rest = list(body)
    while rest:
        statement = rest.pop(0)
        match statement:
            case If(_, then, otherwise):
                sides = tuple(tuple(_block(side, taken)) for side in (then, otherwise))
                yield replace(statement, then=sides[0], otherwise=sides[1])
            case Loop(condition, inside, _):
                for load in dict.fromkeys(_kept(statement)):
                    places = ", ".join(sorted(reads(load.indices)))
                    name = new_name(f"{load.array}[{places}]", taken)
                    kept = variable(name, load.type, load.position)
                    later = _later(rest, load, kept)
                    nothing = {"float": 0.0, "bool": False}.get(load.type.kind, 0)
                    value = load if later != rest else Num(nothing, load.type)
                    yield Declare(name, load.type, value, load.position)
                    if later == rest:
                        yield If(condition, (Assign(name, load, load.position),), (), load.position)
                    inside = tuple(_followed(_replaced(inside, load, kept), load, name))
                    rest = later
                yield replace(statement, body=tuple(_block(inside, taken)))
            case _:
                yield statement


def _later(rest: Sequence[Statement], load: Load, kept: Read) -> list[Statement]:
    """What follows the loop, with the element that it left, up to where a part of that changes."""
    parts = {load.array, *reads(load.indices)}
    stop = next((n for n, each in enumerate(rest) if (writes(each) | declares(each)) & parts), len(rest))
    return [*_replaced(tuple(rest[:stop]), load, kept), *rest[stop:]]


def _kept(loop: Loop) -> Iterator[Load]:
    """The loads of a loop's body at a place that it remembers: of variables that branches alone set, not by
    what they were, while nothing else of the load changes."""
    changed, asked = writes(loop), set(nodes(loop.condition))
    assigned = [each for each in statements(loop.body) if isinstance(each, Assign)]
    remembered = {each.name for each in assigned} & changed
    remembered -= {each.name for each in loop.body if isinstance(each, Assign)}
    remembered -= {each.name for each in assigned if each.name in reads(each.value)}
    own = declares(loop.body)
    for load in nodes(loop.body):
        if isinstance(load, Load) and load not in asked and load.array not in changed | own:
            places = reads(load.indices)
            moving = places & changed
            if moving and moving <= remembered and not places & own and not _loads(load.indices):
                yield load


def _loads(part: object) -> bool:
    return any(isinstance(node, Load | Length) for node in nodes(part))


def _followed(body: Iterable[Statement], load: Load, name: str) -> Iterator[Statement]:
    """The element read anew wherever its place is set."""
    places = reads(load.indices)
    for statement in body:
        match statement:
            case If(_, then, otherwise):
                yield replace(
                    statement,
                    then=tuple(_followed(then, load, name)),
                    otherwise=tuple(_followed(otherwise, load, name)),
                )
            case Loop():
                yield replace(statement, body=tuple(_followed(statement.body, load, name)))
            case _:
                yield statement
                if isinstance(statement, Assign) and statement.name in places:
                    yield Assign(name, load, statement.position)


def _replaced(part: Any, load: Load, kept: Read) -> Any:
    """A part of a function with one expression in place of another."""
    if part == load:
        return kept
    if isinstance(part, tuple):
        return tuple(_replaced(each, load, kept) for each in part)
    if is_dataclass(part) and not isinstance(part, (MachineType, type)):
        return replace(
            part, **{field.name: _replaced(getattr(part, field.name), load, kept) for field in fields(part)}
        )
    return part
