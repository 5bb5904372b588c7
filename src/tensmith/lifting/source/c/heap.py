"""Memory counted in bytes: malloc, calloc, memset, memcpy and free become arrays, loops and nothing."""

from __future__ import annotations

from collections.abc import Callable

from tensmith.formula.expr import Call, Expr, Num, SourcePosition, is_cast, uncast
from tensmith.formula.types import BOOL, I64, MachineType
from tensmith.lifting import loops
from tensmith.lifting.refusal import Refusal
from tensmith.lifting.source.c.arithmetic import apply, cast, integer, zero
from tensmith.lifting.source.c.context import LoweringContext
from tensmith.lifting.source.c.cursor import (
    Cursor,
    bare,
    children,
    constant,
    descendants,
    kind,
    operator,
    position,
)
from tensmith.lifting.source.c.evaluate import evaluate, spelled, value
from tensmith.lifting.source.c.places import Address, Heap, Pointer
from tensmith.lifting.source.c.types import U64


def count(context: LoweringContext, cursor: Cursor, element: MachineType) -> Expr:
    """The number of elements in a number of bytes, written as `count * sizeof(element)`."""
    found = factor(context, cursor, element)
    if found is None:
        reason = f"`{spelled(cursor)}` bytes are no number of elements of type {element}"
        raise Refusal(f"{reason}: write count * sizeof(type)", position(cursor))
    return found


def factor(context: LoweringContext, cursor: Cursor, element: MachineType) -> Expr | None:
    assert element.bits is not None
    size, cursor = element.bits // 8, bare(cursor)
    known = constant(cursor) if kind(cursor) in ("CXX_UNARY_EXPR", "INTEGER_LITERAL") else None
    if known is not None:
        evaluate(context, cursor)
        return integer(int(known) // size, position(cursor)) if known % size == 0 else None
    if kind(cursor) == "BINARY_OPERATOR" and operator(cursor) == "mul":
        left, right = children(cursor)
        for side, other in ((left, right), (right, left)):
            found = factor(context, side, element) if holds_size(side) else None
            if found is not None:
                context.see(cursor)
                by = cast(value(context, bare(other)), I64)
                one = isinstance(found, Num) and found.value == 1
                return by if one else apply("mul", (found, by), I64, position(cursor))
    return cast(value(context, cursor), I64) if size == 1 else None


def is_size(found: Expr, element: MachineType) -> bool:
    """Whether a number is the size of an element in bytes."""
    number = uncast(found)
    return isinstance(number, Num) and number.value == (element.bits or 0) // 8


def holds_size(cursor: Cursor) -> bool:
    """Whether a sizeof stands in an expression."""
    return any(kind(inner) == "CXX_UNARY_EXPR" for inner in descendants(cursor))


def allocated(context: LoweringContext, heap: Heap, element: MachineType) -> Address:
    """malloc or calloc, now that the type of the elements is known: a local array."""
    where = position(heap.call)
    if heap.times is not None and is_size(value(context, heap.bytes), element):
        extent = cast(value(context, heap.times), I64)
    elif heap.times is None:
        extent = count(context, heap.bytes, element)
    else:
        raise Refusal("calloc whose second argument is not the size of an element", where)
    if not isinstance(extent, Num):
        extent = context.declare("count", I64, extent, where)
    array = loops.Array(element, 1, "flat", (extent,))
    name = context.array("memory", array)
    fill = zero(element, where) if heap.zeroed else None
    context.emit(loops.Allocate(name, array, (extent,), fill, where))
    return Address(name, (integer(0, where),))


def filled(
    context: LoweringContext,
    to: Pointer,
    extent: Expr,
    new: Expr,
    where: SourcePosition,
    unsigned: bool = False,
) -> None:
    """A loop that writes `extent` elements from `to` on; `new` may depend on nothing that it writes."""
    if isinstance(to, Address) and len(to.indices) < context.arrays[to.array].rank:
        size = context.arrays[to.array].extents[len(to.indices)]
        rows = None if size is None else quotient(extent, size)
        if size is None or rows is None:
            raise Refusal(f"so many elements are no number of rows of {to.array}: write a loop", where)

        def row(at: Expr) -> None:
            start = (*to.moved(at, where).indices, integer(0, where))
            filled(context, Address(to.array, start), cast(size, I64), new, where)

        return repeat(context, rows, where, "fill", row, unsigned)

    def body(at: Expr) -> None:
        context.emit(store_at(context, to, at, new, where))

    return repeat(context, extent, where, "fill", body, unsigned)


def quotient(extent: Expr, size: Expr) -> Expr | None:
    """extent / size, where that is seen at once."""
    if isinstance(extent, Num) and isinstance(size, Num) and size.value:
        return (
            integer(int(extent.value // size.value), extent.position)
            if extent.value % size.value == 0
            else None
        )
    if isinstance(extent, Call) and extent.function == "mul":
        a, b = extent.args
        if stripped(b) == stripped(size):
            return a
        if stripped(a) == stripped(size):
            return b
    return None


def stripped(found: Expr) -> Expr:
    """A number without conversions to a wider integer."""
    return stripped(found.args[0]) if is_cast(found) and found.type.bits == 64 else found


def copied(
    context: LoweringContext,
    to: Pointer,
    source: Pointer,
    extent: Expr,
    where: SourcePosition,
) -> None:
    """A loop that copies elements."""
    if isinstance(source, Address) and context.arrays[source.array].rank != len(source.indices):
        raise Refusal(f"{source.array} cannot be read as a line of elements: write a loop", where)

    def body(at: Expr) -> None:
        assert isinstance(source, Address)
        element = context.arrays[source.array].element
        context.bytes.discard(source.array)
        loaded = loops.Load(source.array, source.moved(at, where).indices, element, where)
        context.emit(store_at(context, to, at, loaded, where))

    repeat(context, extent, where, "copy", body, True)


def store_at(
    context: LoweringContext, to: Pointer, at: Expr, new: Expr, where: SourcePosition
) -> loops.Store:
    assert isinstance(to, Address)
    array = context.arrays[to.array]
    if not array.written or array.rank != len(to.indices):
        raise Refusal(f"{to.array} cannot be written as a line of elements: write a loop", where)
    context.bytes.discard(to.array)
    return loops.Store(to.array, to.moved(at, where).indices, cast(new, array.element), where)


def repeat(
    context: LoweringContext,
    extent: Expr,
    where: SourcePosition,
    base: str,
    body: Callable[[Expr], None],
    unsigned: bool = False,
) -> None:
    """for (at = 0; at < extent; at++) body(at). unsigned: the extent is one of size_t, huge where it is
    computed from what is negative."""
    kind_of = U64 if unsigned else I64
    at = context.declare("at", kind_of, zero(kind_of, where), where)
    extent = cast(extent, kind_of)
    if not isinstance(extent, Num):
        extent = context.declare("count", kind_of, extent, where)
    step = loops.Assign(
        at.tensor, apply("add", (at, cast(integer(1, where), kind_of)), kind_of, where), where
    )
    with context.block() as inside:
        body(at)
        context.emit(step)
    test = Call("less", (at, extent), BOOL, where)
    context.emit(loops.Loop(test, tuple(inside), context.label(base, where), where))
