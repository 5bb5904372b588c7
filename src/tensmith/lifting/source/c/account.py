"""Nothing of a function goes unread: every cursor in it met the handler of its kind, or has no effect.

This knows nothing of what handlers mean. Whatever they overlook (a subexpression, an attribute, a statement
behind a label) is found here and refused by name.
"""

from __future__ import annotations

from collections.abc import Iterable

from tensmith.formula.expr import SourcePosition
from tensmith.lifting.refusal import Refusal
from tensmith.lifting.source.c.context import LoweringContext
from tensmith.lifting.source.c.cursor import (
    Cursor,
    children,
    descendants,
    identity,
    initializer,
    is_expression,
    kind,
    position,
    spelling_word,
)
from tensmith.lifting.source.c.evaluate import spelled
from tensmith.lifting.source.c.pragmas import Hazard, attribute_hazard, harmless_attribute
from tensmith.lifting.source.c.whitelist import MODELLED, cursor_meaning
from tensmith.lifting.source.c.writes import changes


def check_account(context: LoweringContext, hazards: Iterable[Hazard]) -> None:
    """Refuse what no handler looked at, in the function and in the helpers that were written out in it.

    Raises:
        Refusal: at the first such place.
    """
    for function in context.lowered.values():
        for inner in children(function):
            account(context, inner)
        first, last = function.extent.start, function.extent.end
        file = first.file.name if first.file is not None else ""
        for hazard in hazards:
            inside = hazard.file == file and first.line <= hazard.position.line <= last.line
            if inside or hazard.everywhere:
                raise Refusal(hazard.why, hazard.position)


def account(context: LoweringContext, cursor: Cursor) -> None:
    """One cursor and all inside it."""
    stack = [cursor]
    while stack:
        cursor = stack.pop()
        if identity(cursor) in context.skipped:
            continue
        name = kind(cursor)
        if cursor.kind.is_attribute():
            check_attribute(cursor)
            continue
        found = cursor_meaning(name)
        if found.harmless:
            continue
        inner = children(cursor)
        if found.refused and identity(cursor) not in context.attributed:
            raise Refusal(found.refused, position(cursor))
        if identity(cursor) not in context.seen and not through(name, inner):
            reason = f"`{spelled(cursor) or name.lower()}` is not understood"
            raise Refusal(f"{reason}: write it in plainer terms", place(cursor))
        stack += reversed(counted(cursor, name, inner))


def through(name: str, inner: list[Cursor]) -> bool:
    """Whether a cursor is no more than what it holds, which is looked at by itself."""
    return name in ("PAREN_EXPR", "UNEXPOSED_EXPR") and len(inner) == 1 and is_expression(inner[0])


def counted(cursor: Cursor, name: str, inner: list[Cursor]) -> list[Cursor]:
    """The parts of a cursor that a handler has to look at: not the constant extents of an array's type."""
    if name not in ("VAR_DECL", "PARM_DECL"):
        return inner
    first = initializer(cursor)
    kept = identity(first) if first is not None else None
    if name == "PARM_DECL":  # what it is where the caller leaves it out
        inner = [part for part in inner if identity(part) != kept]
    # An extent that is no more than a number: where two types meet, C demands that theirs are equal.
    return [part for part in inner if not is_expression(part) or identity(part) == kept or changes(part)]


def check_attribute(cursor: Cursor) -> None:
    """An attribute must be known to change no value."""
    found = cursor_meaning(kind(cursor))
    if found.harmless:
        return
    if kind(cursor) == "UNEXPOSED_ATTR":
        name = spelling_word(cursor)
        if harmless_attribute(name):
            return
        raise Refusal(attribute_hazard(name), place(cursor))
    assert found != MODELLED
    raise Refusal(found.refused, place(cursor))


def place(cursor: Cursor) -> SourcePosition:
    """Where a cursor begins; what clang adds by itself has no place."""
    found = position(cursor)
    return found if found.line else SourcePosition(cursor.extent.start.line, cursor.extent.start.column)


def dead(context: LoweringContext, cursors: Iterable[Cursor]) -> None:
    """What is never run needs no meaning, as long as nothing jumps into it.

    Raises:
        Refusal: a label in it.
    """
    for cursor in cursors:
        for inner in descendants(cursor):
            if kind(inner) in ("LABEL_STMT", "CASE_STMT", "DEFAULT_STMT"):
                reason = "a label in code that is otherwise never run"
                raise Refusal(f"{reason}: use a loop or if and else", position(inner))
        context.skipped.add(identity(cursor))
