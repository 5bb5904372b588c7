"""Constants outside functions: numbers and tables."""

from __future__ import annotations

from tensmith.lifting.refusal import Refusal
from tensmith.lifting.source.c_context import Context
from tensmith.lifting.source.c_cursor import Cursor, key, position
from tensmith.lifting.source.c_evaluate import spelled
from tensmith.lifting.source.c_places import Value


def global_constant(context: Context, declaration: Cursor, cursor: Cursor) -> Value:
    """A `const` variable outside the function becomes a local one; others are hidden inputs and outputs."""
    from tensmith.lifting.source.c_declarations import constant_array, declare

    name, where = spelled(cursor), position(cursor)
    if not declaration.type.is_const_qualified() and not constant_array(declaration):
        reason = f"{name} is a variable outside the function"
        raise Refusal(f"{reason}: declare it const, or pass it as a parameter", where)
    definition = declaration.get_definition()
    if definition is None:
        raise Refusal(f"the value of {name} is in another file: define it here, or pass it", where)
    with context.block() as statements:
        declare(context, definition)
    context.hoisted.extend(statements)
    found = context.bound[key(definition)]
    context.bound[key(declaration)] = found
    return found
