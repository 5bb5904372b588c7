"""Constants that outlive a call: numbers and tables."""

from __future__ import annotations

from collections.abc import Sequence

from tensmith.formula.expr import SourcePosition
from tensmith.lifting import loops
from tensmith.lifting.refusal import Refusal
from tensmith.lifting.source.c.account import check_attribute
from tensmith.lifting.source.c.context import LoweringContext
from tensmith.lifting.source.c.cursor import Cursor, children, key, kind, position
from tensmith.lifting.source.c.evaluate import spelled
from tensmith.lifting.source.c.places import Value

OUTSIDE = ("TRANSLATION_UNIT", "NAMESPACE", "LINKAGE_SPEC", "STRUCT_DECL", "CLASS_DECL")


def check_steady(
    context: LoweringContext, statements: Sequence[loops.Statement], name: str, where: SourcePosition
) -> None:
    """The value of what outlives a call must not depend on the call that came first."""
    known = {
        statement.name
        for statement in (*context.hoisted, *statements)
        if isinstance(statement, loops.Allocate)
        or (isinstance(statement, loops.Declare) and statement.value is not None)
    }
    made = list(statements)
    plain = all(isinstance(statement, loops.Declare | loops.Allocate | loops.Store) for statement in made)
    if not plain or not loops.reads(made) <= known or loops.writes(made):
        reason = f"{name} gets its value when it is first used, and keeps it from call to call"
        raise Refusal(f"{reason}: give it a constant, or make it a parameter", where)


def global_constant(context: LoweringContext, declaration: Cursor, cursor: Cursor) -> Value:
    """A `const` variable outside the function becomes a local one; others are hidden inputs and outputs."""
    from tensmith.lifting.source.c.declarations import constant_array, declare

    name, where = spelled(cursor), position(cursor)
    if not declaration.type.is_const_qualified() and not constant_array(declaration):
        reason = f"{name} is a variable outside the function"
        raise Refusal(f"{reason}: declare it const, or pass it as a parameter", where)
    definition = declaration.get_definition()
    if definition is None:
        raise Refusal(f"the value of {name} is in another file: define it here, or pass it", where)
    if kind(definition.semantic_parent) not in OUTSIDE:
        raise Refusal(f"{name} is declared in a place that is not understood: declare it before", where)
    for attribute in children(definition):
        if attribute.kind.is_attribute():
            check_attribute(attribute)
    with context.block() as statements:
        declare(context, definition)
    check_steady(context, statements, name, where)
    context.hoisted.extend(statements)
    found = context.bound[key(definition)]
    context.bound[key(declaration)] = found
    return found
