"""std::vector: construction, its methods, and the algorithms over whole vectors."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TypeAlias

from tensmith.formula.expr import Call, Expr, Num, SourcePosition, is_cast
from tensmith.formula.types import BOOL, I64
from tensmith.lifting import loops
from tensmith.lifting.refusal import Refusal
from tensmith.lifting.source.c.arithmetic import apply, cast, integer, zero
from tensmith.lifting.source.c.context import LoweringContext, refuse_shared
from tensmith.lifting.source.c.cursor import Cursor, bare, children, kind, position
from tensmith.lifting.source.c.evaluate import element, evaluate, spelled, value
from tensmith.lifting.source.c.heap import repeat
from tensmith.lifting.source.c.places import Address, ArrayRegion, Value
from tensmith.lifting.source.c.types import U64, Shape, shape, unsupported, vector_element
from tensmith.lifting.source.c.writes import written_and_read

Method: TypeAlias = Callable[[LoweringContext, Cursor, ArrayRegion, list[Cursor]], Value]


def declare_vector(context: LoweringContext, cursor: Cursor, first: Cursor | None, name: str) -> ArrayRegion:
    """A local vector, however it is initialised."""
    if first is None:
        return made(context, cursor, [], name)
    first = unwrapped(context, first)
    if kind(first) == "CALL_EXPR" and first.spelling == "vector":
        return constructed(context, first, name)
    if kind(first) == "INIT_LIST_EXPR":
        context.see(first)
        return listed(context, cursor, children(first), name)
    found = evaluate(context, first)
    if not isinstance(found, ArrayRegion):
        raise no_vector(first)
    if found.array in context.temporary:
        context.temporary.discard(found.array)
        return found
    return duplicate(context, found, name, position(cursor))


def no_vector(cursor: Cursor) -> Refusal:
    """What stands where a vector has to."""
    what = cursor.type.get_canonical().spelling
    reason = f"`{spelled(cursor)}` is a {what}, not a vector: keep its elements in a std::vector or an array"
    return Refusal(reason, position(cursor))


def unwrapped(context: LoweringContext, cursor: Cursor) -> Cursor:
    """The constructor call inside copies and conversions of a vector."""
    cursor = bare(cursor)
    while kind(cursor) in ("CALL_EXPR", "CXX_FUNCTIONAL_CAST_EXPR"):
        if kind(cursor) == "CALL_EXPR":
            arguments = list(cursor.get_arguments())
            if cursor.spelling != "vector" or len(arguments) != 1:
                break
            inner = arguments[0]
        else:
            inner = children(cursor)[-1]
        if vector_element(inner.type) is None or kind(bare(inner)) == "INIT_LIST_EXPR":
            break
        context.see(cursor)
        cursor = bare(inner)
    return cursor


def constructed(context: LoweringContext, call: Cursor, name: str = "made") -> ArrayRegion:
    """vector(), vector(n), vector(n, x), vector{x, y}, a copy of another vector."""
    arguments = list(call.get_arguments())
    context.see(call)
    if len(arguments) == 1:
        inner = bare(arguments[0])
        while kind(inner) in ("UNEXPOSED_EXPR", "CALL_EXPR") and "initializer_list" in inner.type.spelling:
            context.see(inner)
            inner = bare(children(inner)[-1])
        if kind(inner) == "INIT_LIST_EXPR":
            context.see(inner)
            return listed(context, call, children(inner), name)
        if vector_element(arguments[0].type) is not None:
            found = evaluate(context, arguments[0])
            if isinstance(found, ArrayRegion):
                return duplicate(context, found, name, position(call))
    return made(context, call, arguments, name)


def made(context: LoweringContext, cursor: Cursor, arguments: list[Cursor], name: str) -> ArrayRegion:
    """A vector of as many elements as the arguments say."""
    where = position(cursor)
    found = shape(cursor.type, where)
    if found is None:
        raise Refusal(unsupported(cursor.type, name), where)
    sizes, fill = sized(context, cursor, found, arguments)
    array = loops.Array(found.element, found.rank, "nested", (None,) * found.rank)
    unique = context.array(name, array)
    context.emit(loops.Allocate(unique, array, sizes, fill, where))
    return ArrayRegion(unique)


def sized(
    context: LoweringContext, cursor: Cursor, found: Shape, arguments: list[Cursor]
) -> tuple[tuple[Expr, ...], Expr]:
    """Extents and fill of vector(n), vector(n, x) and vector(n, vector(m, x))."""
    where = position(cursor)
    refuse_shared(written_and_read(arguments), where)
    fill = zero(found.element, where)
    sizes: list[Expr] = []
    while len(sizes) < found.rank:
        if not arguments:
            sizes.append(integer(0, where))
            continue
        if len(arguments) > 2:
            raise Refusal("a vector made from a range: copy the elements in a loop", where)
        sizes.append(count(context, arguments[0]))
        if len(sizes) == found.rank:
            if len(arguments) == 2:
                fill = cast(value(context, arguments[1]), found.element)
            break
        row = unwrapped(context, arguments[1]) if len(arguments) == 2 else None
        if row is not None and not (kind(row) == "CALL_EXPR" and row.spelling == "vector"):
            raise Refusal("rows copied from a vector: fill them in a loop", where)
        if row is not None:
            context.see(row)
        arguments = [] if row is None else list(row.get_arguments())
    return tuple(sizes), fill


def listed(context: LoweringContext, cursor: Cursor, elements: list[Cursor], name: str) -> ArrayRegion:
    """vector{x, y, z}."""
    region = made(context, cursor, [], name)
    array = context.arrays[region.array]
    for part in elements:
        if array.rank > 1:
            raise Refusal("a list of rows: append them one by one", position(part))
        context.emit(loops.Append(region.array, cast(value(context, part), array.element), position(part)))
    return region


def duplicate(context: LoweringContext, source: ArrayRegion, name: str, where: SourcePosition) -> ArrayRegion:
    """A copy of a vector or row, element by element."""
    array = context.arrays[source.array]
    rank = array.rank - len(source.indices)
    if rank == 0 or array.memory == "flat":
        raise Refusal("memory that is not a vector is copied: copy the elements in a loop", where)
    copy = replace(array, rank=rank, extents=(None,) * rank, written=True)
    sizes = tuple(
        cast(loops.Length(source.array, axis, U64, where, source.indices), I64)
        for axis in range(len(source.indices), array.rank)
    )
    unique = context.array(name, copy)
    context.emit(loops.Allocate(unique, copy, sizes, zero(array.element, where), where))
    copy_rows(context, source, unique, (), sizes, where)
    return ArrayRegion(unique)


def copy_rows(
    context: LoweringContext,
    source: ArrayRegion,
    to: str,
    at: tuple[Expr, ...],
    sizes: tuple[Expr, ...],
    where: SourcePosition,
) -> None:
    """Loops over all axes that copy one array into another."""

    def body(index: Expr) -> None:
        here = (*at, index)
        if len(here) < len(sizes):
            copy_rows(context, source, to, here, sizes, where)
            return
        kind_of = context.arrays[to].element
        context.emit(
            loops.Store(to, here, loops.Load(source.array, (*source.indices, *here), kind_of, where), where)
        )

    repeat(context, sizes[len(at)], where, "copy", body)


# Methods.


def count(context: LoweringContext, cursor: Cursor) -> Expr:
    """A subscript or length, before its conversion to size_t: below 0 it is an error either way."""
    found = value(context, cursor)
    converted = is_cast(found) and found.type == U64 and found.args[0].type.kind == "int"
    return found.args[0] if is_cast(found) and converted else found


def region_of(context: LoweringContext, cursor: Cursor) -> ArrayRegion:
    found = evaluate(context, cursor)
    if not isinstance(found, ArrayRegion):
        raise no_vector(cursor)
    return found


def length(region: ArrayRegion, where: SourcePosition) -> Expr:
    """size(): of a row, which must be there, the common length of all rows."""
    return loops.Length(region.array, len(region.indices), U64, where, region.indices)


def item(context: LoweringContext, cursor: Cursor, region: ArrayRegion, at: Expr) -> Value:
    return element(context, Address(region.array, (*region.indices, at)), cursor)


def index(context: LoweringContext, cursor: Cursor, region: ArrayRegion, arguments: list[Cursor]) -> Value:
    """v[i]."""
    return item(context, cursor, region, count(context, arguments[0]))


def size(context: LoweringContext, cursor: Cursor, region: ArrayRegion, arguments: list[Cursor]) -> Value:
    return length(region, position(cursor))


def empty(context: LoweringContext, cursor: Cursor, region: ArrayRegion, arguments: list[Cursor]) -> Value:
    where = position(cursor)
    return Call("equal", (length(region, where), Num(0, U64, where)), BOOL, where)


def front(context: LoweringContext, cursor: Cursor, region: ArrayRegion, arguments: list[Cursor]) -> Value:
    return item(context, cursor, region, integer(0, position(cursor)))


def back(context: LoweringContext, cursor: Cursor, region: ArrayRegion, arguments: list[Cursor]) -> Value:
    where = position(cursor)
    last = apply("sub", (length(region, where), Num(1, U64, where)), U64, where)
    return item(context, cursor, region, last)


def begin(context: LoweringContext, cursor: Cursor, region: ArrayRegion, arguments: list[Cursor]) -> Value:
    return Address(region.array, (*region.indices, integer(0, position(cursor))))


def end(context: LoweringContext, cursor: Cursor, region: ArrayRegion, arguments: list[Cursor]) -> Value:
    where = position(cursor)
    return Address(region.array, (*region.indices, cast(length(region, where), I64)))


def push(context: LoweringContext, cursor: Cursor, region: ArrayRegion, arguments: list[Cursor]) -> Value:
    """push_back: a number, or a whole local vector as a row."""
    where = position(cursor)
    array = context.arrays[region.array]
    if region.indices:
        raise Refusal("a row of a vector grows: build the row first, then append it", where)
    if region.array not in context.local:
        raise Refusal(f"{region.array}, a parameter, grows: write into a vector that is returned", where)
    if array.rank == 1:
        context.emit(loops.Append(region.array, cast(value(context, arguments[0]), array.element), where))
        return None
    row = unwrapped(context, arguments[0])
    is_made = kind(row) == "CALL_EXPR" and row.spelling == "vector"
    found = constructed(context, row) if is_made else region_of(context, row)
    if found.indices or found.array not in context.local:
        found = duplicate(context, found, "row", where)
    context.emit(loops.Append(region.array, found.array, where))
    return None


def resize(context: LoweringContext, cursor: Cursor, region: ArrayRegion, arguments: list[Cursor]) -> Value:
    """resize(n), assign(n, x), clear(): of a local vector that was empty so far, or is given anew."""
    where = position(cursor)
    array = context.arrays[region.array]
    if region.indices or region.array not in context.local:
        raise Refusal("a parameter or row is given another length: use a local vector", where)
    if cursor.spelling == "resize" and not is_empty(context, region.array):
        raise Refusal(
            "resize of a vector that holds elements: give it its length where it is declared", where
        )
    found = Shape(array.element, "nested", (None,) * array.rank, False)
    sizes, fill = sized(context, cursor, found, arguments)
    context.emit(loops.Allocate(region.array, array, sizes, fill, where))
    return None


def is_empty(context: LoweringContext, name: str) -> bool:
    """Whether the block so far made a vector empty and did not touch it again."""
    last = None
    for statement in context.out:
        made = {part.name for part in loops.statements(statement) if isinstance(part, loops.Allocate)}
        if name in made | loops.writes(statement):
            last = statement
    zero = isinstance(last, loops.Allocate) and last.extents[0]
    return isinstance(zero, Num) and zero.value == 0


def reserve(context: LoweringContext, cursor: Cursor, region: ArrayRegion, arguments: list[Cursor]) -> Value:
    """reserve: no effect on values, but room for less than no element cannot be had."""
    where, array = position(cursor), context.arrays[region.array]
    room = replace(array, rank=1, extents=(None,))
    context.emit(
        loops.Allocate(context.array("room", room), room, (count(context, arguments[0]),), None, where)
    )
    return None


METHODS: dict[str, Method] = {
    "operator[]": index,
    "at": index,
    "size": size,
    "empty": empty,
    "front": front,
    "back": back,
    "data": begin,
    "begin": begin,
    "cbegin": begin,
    "end": end,
    "cend": end,
    "push_back": push,
    "emplace_back": push,
    "resize": resize,
    "assign": resize,
    "clear": resize,
    "reserve": reserve,
}
