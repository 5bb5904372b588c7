"""C and C++ types as the loop language sees them: scalars, arrays with their extents, structs, vectors."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from tensmith.formula.expr import SourcePosition
from tensmith.formula.types import BOOL, F32, F64, I32, I64, MachineType
from tensmith.lifting.refusal import Refusal
from tensmith.lifting.source.c.cursor import Cursor, Type, kind
from tensmith.lifting.source.c.whitelist import type_meaning

I8, I16 = MachineType("i8"), MachineType("i16")
U8, U16, U32, U64 = map(MachineType, ("u8", "u16", "u32", "u64"))

# By the names of libclang's type kinds; plain char is signed and long has 64 bits (System V x86-64 ABI).
SCALARS = {
    "BOOL": BOOL,
    "CHAR_S": I8,
    "SCHAR": I8,
    "CHAR_U": U8,
    "UCHAR": U8,
    "SHORT": I16,
    "USHORT": U16,
    "INT": I32,
    "UINT": U32,
    "LONG": I64,
    "ULONG": U64,
    "LONGLONG": I64,
    "ULONGLONG": U64,
    "FLOAT": F32,
    "DOUBLE": F64,
}
REFERENCES = ("LVALUEREFERENCE", "RVALUEREFERENCE")
ARRAYS = ("CONSTANTARRAY", "INCOMPLETEARRAY", "VARIABLEARRAY")


@dataclass(frozen=True)
class Shape:
    """What a pointer, array or vector type reaches: `rank` subscripts lead to an element.

    extents: None where the type does not say, -1 where it is an expression (a variable-length array);
    bytes: the element is void or one byte wide, so that a cast may give it a type.
    """

    element: MachineType
    memory: Literal["flat", "nested"]
    extents: tuple[int | None, ...]
    const: bool
    bytes: bool = False

    @property
    def rank(self) -> int:
        return len(self.extents)


def plain(type_: Type) -> Type:
    """The canonical type, without typedefs, behind a reference."""
    type_ = type_.get_canonical()
    return type_.get_pointee().get_canonical() if kind(type_) in REFERENCES else type_


def is_reference(type_: Type) -> bool:
    return bool(kind(type_.get_canonical()) in REFERENCES)


def is_pointer(type_: Type) -> bool:
    return bool(kind(plain(type_)) == "POINTER")


def is_array(type_: Type) -> bool:
    return bool(kind(plain(type_)) in ARRAYS)


def layers(type_: Type) -> Iterator[str]:
    """The kinds of an array's or pointer's type, of its elements', and so on down to what is neither."""
    while True:
        type_ = type_.get_canonical()
        name = kind(type_)
        yield name
        if name == "POINTER":
            type_ = type_.get_pointee()
        elif name in ARRAYS:
            type_ = type_.element_type
        else:
            return


def constant_extents(type_: Type) -> bool:
    """Whether no extent of an array type is known at run time only."""
    return "VARIABLEARRAY" not in layers(plain(type_))


def scalar(type_: Type) -> MachineType | None:
    """The machine type of a scalar type, None where it is none (or one the loop language lacks)."""
    type_ = plain(type_)
    if kind(type_) == "ENUM":
        return scalar(type_.get_declaration().enum_type)
    return SCALARS.get(kind(type_))


def vector_element(type_: Type) -> Type | None:
    """T of std::vector<T>."""
    type_ = plain(type_)
    if kind(type_) != "RECORD":
        return None
    declaration = type_.get_declaration()
    if declaration.spelling != "vector" or declaration.semantic_parent.spelling != "std":
        return None
    return type_.get_template_argument_type(0)


def record(type_: Type) -> Cursor | None:
    """The declaration of a struct type, seen through pointers and references; None for other types."""
    type_ = plain(type_)
    if kind(type_) == "POINTER":
        type_ = type_.get_pointee().get_canonical()
    if kind(type_) != "RECORD" or vector_element(type_) is not None:
        return None
    return type_.get_declaration()


def shape(type_: Type, position: SourcePosition) -> Shape | None:
    """How an array-like type is subscripted; None for what is not array-like."""
    type_ = plain(type_)
    extents: list[int | None] = []
    nested = pointers = 0
    const = volatile = False  # canonical array types carry the qualifiers of their elements
    while True:
        name = kind(type_)
        if name in ARRAYS:
            const, volatile = const or type_.is_const_qualified(), volatile or type_.is_volatile_qualified()
            extent = (
                type_.element_count if name == "CONSTANTARRAY" else -1 if name == "VARIABLEARRAY" else None
            )
            type_ = type_.element_type.get_canonical()
        elif name == "POINTER":
            type_, extent = type_.get_pointee().get_canonical(), None
            pointers += 1
            nested += bool(extents)
            const = volatile = False
        elif (element := vector_element(type_)) is not None:
            if pointers:
                return None
            type_, extent = element.get_canonical(), None
            nested += 1
        else:
            break
        extents.append(extent)
    const, volatile = const or type_.is_const_qualified(), volatile or type_.is_volatile_qualified()
    if not extents:
        return None
    if volatile:
        raise Refusal("volatile memory: its reads and writes mean more than their values", position)
    void = kind(type_) == "VOID"
    element_type = U8 if void else scalar(type_)
    if element_type is None:
        return None
    memory: Literal["flat", "nested"] = "nested" if nested else "flat"
    return Shape(
        element_type, memory, tuple(extents), bool(const), void or (element_type.bits == 8 and not nested)
    )


def structs(what: str, name: str, fields: Sequence[Cursor]) -> str:
    """Why an array of structs cannot be lifted, and what to pass instead."""
    one = next((field for field in fields if scalar(field.type) is not None), None)
    like = f", as in {one.type.spelling} *{name}_{one.spelling}" if one is not None else ""
    return f"{what} is an array of structs: pass each field that is used as an array of its own{like}"


def innermost(type_: Type) -> Type:
    """The type of what arrays, pointers and vectors hold."""
    type_ = plain(type_)
    while True:
        if kind(type_) == "POINTER":
            type_ = type_.get_pointee()
        elif kind(type_) in ARRAYS:
            type_ = type_.element_type
        elif (element := vector_element(type_)) is not None:
            type_ = element
        else:
            return type_
        type_ = type_.get_canonical()


def unsupported(type_: Type, what: str) -> str:
    """Why a type cannot be lifted, and what to write instead."""
    name, spelling = kind(plain(type_)), type_.spelling
    if name == "LONGDOUBLE":
        return f"{what} is a long double: use double"
    if problem := type_meaning(name).refused:
        return f"{what} is {problem}"
    if name in ("FUNCTIONPROTO", "FUNCTIONNOPROTO") or "(*)(" in spelling:
        return f"{what} is a function pointer: call the function by its name"
    declaration = record(innermost(type_))
    if (
        declaration is not None
        and declaration.kind.name == "STRUCT_DECL"
        and innermost(type_) != plain(type_)
    ):
        return structs(what, re.sub(r"\W", "", what), list(declaration.type.get_fields()))
    declaration = record(type_)
    if declaration is not None and declaration.kind.name == "UNION_DECL":
        return f"{what} is a union: use a struct, or one variable a meaning"
    return (
        f"{what} has the type {spelling}: only integers, float, double, bool, pointers and arrays of them, "
        "std::vector of them (up to vectors of vectors) and structs of them are lifted"
    )
