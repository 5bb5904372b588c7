"""Structs: only plain ones have a meaning, fields in order and nothing that runs by itself."""

from __future__ import annotations

from tensmith.lifting.refusal import Refusal
from tensmith.lifting.source.c.account import check_attribute
from tensmith.lifting.source.c.cursor import Cursor, children, is_expression, kind, position
from tensmith.lifting.source.c.types import layers
from tensmith.lifting.source.c.whitelist import PROPERTIES

# What may stand in a struct besides fields: types, which only count where a field has them.
BESIDE = ("STRUCT_DECL", "UNION_DECL", "ENUM_DECL", "TYPEDEF_DECL", "TYPE_ALIAS_DECL", "CXX_ACCESS_SPEC_DECL")


def plain_fields(declaration: Cursor, where: Cursor) -> list[Cursor]:
    """The fields of a struct in order.

    Raises:
        Refusal: the struct has bases, methods, constructors, defaults, or a layout of its own.
    """
    name = declaration.spelling or "the struct"
    for part in children(declaration):
        if part.kind.is_attribute():
            check_attribute(part)
        elif kind(part) == "FIELD_DECL":
            check_field(part)
        elif kind(part) not in BESIDE:
            reason = f"{name} is more than a struct of plain fields ({part.spelling or kind(part).lower()})"
            raise Refusal(f"{reason}: use a struct that holds numbers and pointers only", position(where))
    return list(declaration.type.get_fields())


def check_field(field: Cursor) -> None:
    """A field keeps its value, and has none by itself."""
    problem = ""
    if field.is_mutable_field():
        problem = "mutable"
    parts = [part for part in children(field) if is_expression(part)]
    if parts and not field.is_bitfield() and not extents_only(field):
        problem = "default member"
    for part in children(field):
        if part.kind.is_attribute():
            check_attribute(part)
    if kind(field.type.get_canonical()) == "INCOMPLETEARRAY":
        problem = "flexible array"
    if problem:
        refuse(field, problem)


def extents_only(field: Cursor) -> bool:
    """Whether the expressions of a field are the extents of its array, as many as it has axes."""
    axes = list(layers(field.type)).count("CONSTANTARRAY")
    return sum(is_expression(part) for part in children(field)) <= axes


def refuse(field: Cursor, problem: str) -> None:
    """Refuse a field for a property that `PROPERTIES` names."""
    name = field.spelling or "without a name"
    raise Refusal(f"the field {name} is {PROPERTIES[problem]}", position(field))


def check_number_field(field: Cursor) -> None:
    """A field that is read or written as a number is all of it, and has a name."""
    if field.is_bitfield():
        refuse(field, "bit-field")
    if not field.spelling:
        refuse(field, "anonymous field")
