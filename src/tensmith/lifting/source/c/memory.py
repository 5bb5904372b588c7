"""Pointers as subscripts: &x, p + k, p - q, p < q, c ? p : q, p[i], s.x, casts between pointer types."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from tensmith.formula.expr import Call, Expr, Num
from tensmith.formula.functions import MIRRORED
from tensmith.formula.types import BOOL, I64
from tensmith.lifting import assumptions
from tensmith.lifting.refusal import Refusal
from tensmith.lifting.source.c.arithmetic import cast, offset
from tensmith.lifting.source.c.context import LoweringContext
from tensmith.lifting.source.c.cursor import Cursor, children, is_expression, kind, position
from tensmith.lifting.source.c.evaluate import (
    address,
    decayed,
    element,
    evaluate,
    expression,
    keep_defined,
    not_null,
    spelled,
    value,
)
from tensmith.lifting.source.c.heap import allocated
from tensmith.lifting.source.c.places import (
    POINTERS,
    Address,
    AddressOf,
    ArrayRegion,
    ElementPlace,
    Heap,
    Null,
    Pointer,
    ScalarPlace,
    StructPlace,
    Value,
    is_number,
)
from tensmith.lifting.source.c.sequence import unsequenced
from tensmith.lifting.source.c.types import is_array, is_pointer, scalar, shape, structs


def address_of(found: Value, cursor: Cursor) -> Pointer:
    """&x."""
    if isinstance(found, ElementPlace):
        return Address(found.array, found.indices)
    if isinstance(found, ArrayRegion) and found.indices:
        return Address(found.array, found.indices)
    if isinstance(found, ScalarPlace | StructPlace):
        return AddressOf(found)
    raise Refusal(f"`{spelled(cursor)}` takes the address of a pointer or whole array", position(cursor))


def moved(pointer: Pointer, by: Expr, cursor: Cursor, sign: str = "add") -> Address:
    """A pointer plus or minus an integer."""
    if isinstance(pointer, AddressOf) and isinstance(pointer.place, StructPlace):
        name, fields = pointer.place.name, list(pointer.place.declaration.type.get_fields())
        raise Refusal(structs(f"{name}, as `{spelled(cursor)}` takes it,", name, fields), position(cursor))
    if not isinstance(pointer, Address):
        reason = f"`{spelled(cursor)}` moves a pointer that does not point into an array"
        raise Refusal(f"{reason}: use an array", position(cursor))
    return pointer.moved(by, position(cursor), sign)


def arithmetic(context: LoweringContext, cursor: Cursor, sign: str, left: Cursor, right: Cursor) -> Value:
    """p + k, k + p, p - k, p - q."""
    if sign == "sub" and is_pointer(left.type) and is_pointer(right.type):
        a, b = same_array(context, cursor, *both(context, cursor, left, right))
        return offset(a, b, position(cursor), "sub")
    if sign not in ("add", "sub"):
        raise Refusal(f"`{spelled(cursor)}` computes with a pointer's bits: use subscripts", position(cursor))
    if not is_pointer(left.type):
        left, right = right, left
    pointer, by = indexed(context, cursor, left, right)
    return moved(pointer, by, cursor, sign)


def both(context: LoweringContext, cursor: Cursor, left: Cursor, right: Cursor) -> list[Pointer]:
    """Two pointers, in whatever order."""
    return unsequenced(
        context, position(cursor), [lambda: address(context, left), lambda: address(context, right)]
    )


def indexed(context: LoweringContext, cursor: Cursor, base: Cursor, index: Cursor) -> tuple[Pointer, Expr]:
    """A pointer and a number, in whatever order."""
    evaluations: list[Callable[[], Expr | Pointer]]
    evaluations = [lambda: value(context, index), lambda: address(context, base)]
    by, pointer = unsequenced(context, position(cursor), evaluations)
    assert is_number(by) and isinstance(pointer, POINTERS)
    return pointer, by


def same_array(context: LoweringContext, cursor: Cursor, a: Pointer, b: Pointer) -> tuple[Expr, Expr]:
    """The last subscripts of two pointers into one array (and one row of it)."""
    if isinstance(a, Address) and isinstance(b, Address) and a.array == b.array:
        if a.indices[:-1] == b.indices[:-1]:
            keep_defined(context, Address(a.array, a.indices[:-1]), position(cursor))
            return a.indices[-1], b.indices[-1]
        reason = f"`{spelled(cursor)}` compares pointers into different rows of {a.array}"
        raise Refusal(f"{reason}: compare subscripts", position(cursor))
    reason = f"`{spelled(cursor)}` compares pointers that may be into different arrays"
    raise Refusal(f"{reason}; take one pointer and a length", position(cursor))


def compared(context: LoweringContext, cursor: Cursor, sign: str, left: Cursor, right: Cursor) -> Expr:
    """p < q as a comparison of subscripts; a comparison with null has a known answer."""
    a, b = both(context, cursor, left, right)
    if isinstance(a, Null) or isinstance(b, Null):
        if sign not in ("equal", "not_equal"):
            raise Refusal(f"`{spelled(cursor)}` orders the null pointer", position(cursor))
        if isinstance(a, Null) and isinstance(b, Null):
            return Num(sign == "equal", BOOL, position(cursor))
        for pointer in (a, b):
            keep_defined(context, pointer, position(cursor))
        return not_null(context, cursor, sign == "not_equal")
    first, second = same_array(context, cursor, a, b)
    first, second = cast(first, I64), cast(second, I64)
    if sign in MIRRORED:
        first, second, sign = second, first, MIRRORED[sign]
    return Call(sign, (first, second), BOOL, position(cursor))


def choose(context: LoweringContext, cursor: Cursor, chosen: Expr, first: Cursor, second: Cursor) -> Value:
    """c ? p : q, where both point into one array."""
    start, later = dict(context.pointers), len(context.later)
    with context.block() as effects:
        a, b = address(context, first), address(context, second)
    if effects or len(context.later) > later or context.pointers != start:
        reason = f"`{spelled(cursor)}` has side effects on one of its sides"
        raise Refusal(f"{reason}: branch with if and else", position(cursor))
    if not isinstance(a, Address) or not isinstance(b, Address) or a.array != b.array:
        reason = f"`{spelled(cursor)}` may point into more than one array"
        raise Refusal(f"{reason}: branch with if and else", position(cursor))
    x, y = same_array(context, cursor, a, b)
    index = Call("where", (chosen, cast(x, I64), cast(y, I64)), I64, position(cursor))
    return Address(a.array, (*a.indices[:-1], index))


@expression("ARRAY_SUBSCRIPT_EXPR")
def subscript(context: LoweringContext, cursor: Cursor) -> Value:
    """p[i], also i[p]."""
    base, index = children(cursor)
    if scalar(base.type) is not None:
        base, index = index, base
    pointer, by = indexed(context, cursor, base, index)
    if not (isinstance(pointer, AddressOf) and is_zero((by,))):  # else it is one variable
        pointer = moved(pointer, by, cursor)
    return element(context, pointer, cursor)


@expression("MEMBER_REF_EXPR")
def member(context: LoweringContext, cursor: Cursor) -> Value:
    """s.x, s->x."""
    inner = [part for part in children(cursor) if is_expression(part)]
    base = evaluate(context, inner[0]) if inner else None
    if inner and is_pointer(inner[0].type):
        base = element(context, decayed(context, base, inner[0]), cursor)
    found = context.binding(cursor.referenced) if not isinstance(base, StructPlace) else None
    if isinstance(base, StructPlace):
        found = context.fields.get((base.name, cursor.spelling))
    if found is None:
        reason = f"`{spelled(cursor)}`: only plain fields (numbers, pointers, arrays) of a struct are lifted"
        raise Refusal(reason, position(cursor))
    return found


def retyped(context: LoweringContext, pointer: Pointer, cursor: Cursor) -> Pointer:
    """A pointer converted to the pointer type of `cursor`: the elements must keep their type.

    Bytes (void*, uint8_t*) that nothing has read yet get the type of the first cast.
    """
    kind_of = cursor.type.get_canonical()
    reached = kind_of.element_type if is_array(kind_of) else kind_of.get_pointee()
    pointee = reached.get_canonical()
    wanted = scalar(pointee)
    if isinstance(pointer, Address) and is_array(pointee):
        check_rows(context, pointer, cursor)
    if isinstance(pointer, Heap):
        return pointer if wanted is None else allocated(context, pointer, wanted)
    if wanted is None or isinstance(pointer, Null):
        return pointer
    if isinstance(pointer, AddressOf):
        if isinstance(pointer.place, ScalarPlace) and pointer.place.type == wanted:
            return pointer
        raise Refusal(f"`{spelled(cursor)}` reads a variable as another type", position(cursor))
    array = context.arrays[pointer.array]
    if len(pointer.indices) != array.rank or array.element == wanted:
        return pointer
    if pointer.array in context.bytes and is_zero(pointer.indices):
        context.arrays[pointer.array] = replace(array, element=wanted)
        context.bytes.discard(pointer.array)
        context.note(assumptions.POINTEE(pointer.array, wanted))
        return pointer
    reason = f"`{spelled(cursor)}` reads {array.element} memory as {wanted}"
    raise Refusal(f"{reason}: declare {pointer.array} with the type of its elements", position(cursor))


def check_rows(context: LoweringContext, pointer: Address, cursor: Cursor) -> None:
    """A pointer to rows must point to rows of as many elements."""
    found = shape(cursor.type, position(cursor))
    array = context.arrays[pointer.array]
    known = array.extents[len(pointer.indices) :]
    implicit = kind(cursor) == "UNEXPOSED_EXPR"  # then lengths known at run time only must be equal in C
    same = found is not None and len(known) == found.rank - 1 and found.element == array.element
    for extent, size in zip(found.extents[1:] if found is not None and same else (), known, strict=False):
        fixed = isinstance(size, Num) and extent is not None and extent >= 0
        same = same and (implicit if not fixed else isinstance(size, Num) and extent == size.value)
    if not same:
        reason = f"`{spelled(cursor)}` takes the rows of {pointer.array} for others"
        raise Refusal(f"{reason}: declare {pointer.array} with its rows", position(cursor))


def is_zero(indices: tuple[Expr, ...]) -> bool:
    return all(isinstance(index, Num) and index.value == 0 for index in indices)
