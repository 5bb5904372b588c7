"""C and C++ types as the loop language sees them: scalars, arrays with their extents, structs, vectors."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from tensmith.formula.types import BOOL, F32, F64, I32, I64, MachineType
from tensmith.lifting.loops import SourcePosition
from tensmith.lifting.refusal import Refusal
from tensmith.lifting.source.c.cursor import Cursor, Type, type_kind
from tensmith.lifting.source.c.whitelist import type_meaning
from tensmith.lifting.source.verdict import RefusedSyntax

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


def plain(kind: Type) -> Type:
    """The canonical type, without typedefs, behind a reference."""
    kind = kind.get_canonical()
    return kind.get_pointee().get_canonical() if type_kind(kind) in REFERENCES else kind


def is_reference(kind: Type) -> bool:
    return bool(type_kind(kind.get_canonical()) in REFERENCES)


def is_pointer(kind: Type) -> bool:
    return bool(type_kind(plain(kind)) == "POINTER")


def is_array(kind: Type) -> bool:
    return bool(type_kind(plain(kind)) in ARRAYS)


def scalar(kind: Type) -> MachineType | None:
    """The machine type of a scalar type, None where it is none (or one the loop language lacks)."""
    kind = plain(kind)
    if type_kind(kind) == "ENUM":
        return scalar(kind.get_declaration().enum_type)
    return SCALARS.get(type_kind(kind))


def vector_element(kind: Type) -> Type | None:
    """T of std::vector<T>."""
    kind = plain(kind)
    if type_kind(kind) != "RECORD":
        return None
    declaration = kind.get_declaration()
    if declaration.spelling != "vector" or declaration.semantic_parent.spelling != "std":
        return None
    return kind.get_template_argument_type(0)


def record(kind: Type) -> Cursor | None:
    """The declaration of a struct type, seen through pointers and references; None for other types."""
    kind = plain(kind)
    if type_kind(kind) == "POINTER":
        kind = kind.get_pointee().get_canonical()
    if type_kind(kind) != "RECORD" or vector_element(kind) is not None:
        return None
    return kind.get_declaration()


def shape(kind: Type, position: SourcePosition) -> Shape | None:
    """How an array-like type is subscripted; None for what is not array-like."""
    kind = plain(kind)
    extents: list[int | None] = []
    nested = pointers = 0
    const = volatile = False  # canonical array types carry the qualifiers of their elements
    while True:
        name = type_kind(kind)
        if name in ARRAYS:
            const, volatile = const or kind.is_const_qualified(), volatile or kind.is_volatile_qualified()
            extent = (
                kind.element_count if name == "CONSTANTARRAY" else -1 if name == "VARIABLEARRAY" else None
            )
            kind = kind.element_type.get_canonical()
        elif name == "POINTER":
            kind, extent = kind.get_pointee().get_canonical(), None
            pointers += 1
            nested += bool(extents)
            const = volatile = False
        elif (element := vector_element(kind)) is not None:
            if pointers:
                return None
            kind, extent = element.get_canonical(), None
            nested += 1
        else:
            break
        extents.append(extent)
    const, volatile = const or kind.is_const_qualified(), volatile or kind.is_volatile_qualified()
    if not extents:
        return None
    if volatile:
        raise Refusal("volatile memory: its reads and writes mean more than their values", position)
    void = type_kind(kind) == "VOID"
    element_type = U8 if void else scalar(kind)
    if element_type is None:
        return None
    memory: Literal["flat", "nested"] = "nested" if nested else "flat"
    return Shape(
        element_type, memory, tuple(extents), bool(const), void or (element_type.bits == 8 and not nested)
    )


def unsupported(kind: Type, what: str) -> str:
    """Why a type cannot be lifted, and what to write instead."""
    name, spelling = type_kind(plain(kind)), kind.spelling
    if name == "LONGDOUBLE":
        return f"{what} is a long double: use double"
    found = type_meaning(name)
    if isinstance(found, RefusedSyntax):
        return f"{what} is {found.why}"
    if name in ("FUNCTIONPROTO", "FUNCTIONNOPROTO") or "(*)(" in spelling:
        return f"{what} is a function pointer: call the function by its name"
    declaration = record(kind)
    if declaration is not None and declaration.kind.name == "UNION_DECL":
        return f"{what} is a union: use a struct, or one variable a meaning"
    return (
        f"{what} has the type {spelling}: only integers, float, double, bool, pointers and arrays of them, "
        "std::vector of them (up to vectors of vectors) and structs of them are lifted"
    )
