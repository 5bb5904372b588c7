"""The functions of <math.h>, <cmath>, <stdlib.h>, <string.h> and <algorithm> that have a meaning here."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import TypeAlias

from tensmith.formula.expr import Call, Expr, Num, SourcePosition, is_cast
from tensmith.formula.functions import ELEMENTARY, EXTREMES
from tensmith.formula.types import BOOL, F64, I64, MachineType
from tensmith.lifting import assumptions, loops
from tensmith.lifting.refusal import Refusal
from tensmith.lifting.source.c.arithmetic import apply, cast, integer, zero
from tensmith.lifting.source.c.assignment import store, updated
from tensmith.lifting.source.c.context import LoweringContext, refuse_shared
from tensmith.lifting.source.c.cursor import Cursor, constant, identity, position
from tensmith.lifting.source.c.evaluate import (
    address,
    condition,
    discarded,
    keep_defined,
    load,
    place,
    place_type,
    spelled,
    value,
)
from tensmith.lifting.source.c.heap import copied, count, filled, repeat, store_at
from tensmith.lifting.source.c.memory import same_array
from tensmith.lifting.source.c.places import Address, ElementPlace, Heap, Null, Pointer, ScalarPlace, Value
from tensmith.lifting.source.c.sequence import unsequenced
from tensmith.lifting.source.c.types import U64, scalar
from tensmith.lifting.source.c.writes import written_and_read
from tensmith.lifting.text import text
from tensmith.registry import entered_in

Library: TypeAlias = Callable[[LoweringContext, Cursor, list[Cursor]], Value]
LIBRARY: dict[str, Library] = {}
library = entered_in(LIBRARY)

OPERATORS = {
    "fabs": "abs",
    "abs": "abs",
    "labs": "abs",
    "llabs": "abs",
    **{name: name for name in (*ELEMENTARY, "floor", "ceil", "pow")},
    "rint": "round",
    "nearbyint": "round",
    "fmin": "minimum",
    "fmax": "maximum",
    "fmod": "fmod",
}
IO = [
    "printf",
    "fprintf",
    "sprintf",
    "snprintf",
    "scanf",
    "fscanf",
    "puts",
    "putchar",
    "getchar",
    "fopen",
    "fclose",
    "fread",
    "fwrite",
    "fflush",
    "operator<<",
    "operator>>",
]
WHY = {
    **dict.fromkeys(IO, "reads or writes files: move input and output out of the function"),
    **dict.fromkeys(("rand", "srand"), "is random: pass the random numbers as an array"),
    **dict.fromkeys(("time", "clock", "omp_get_wtime"), "reads the clock: measure outside the function"),
    **dict.fromkeys(
        ("exit", "abort", "longjmp", "setjmp"), "leaves the function early: check before the call"
    ),
    **dict.fromkeys(("system", "getenv"), "asks the operating system: pass what it answers as a parameter"),
    "realloc": "grows memory: allocate the final size, or use std::vector",
    "sort": "sorts: there is no tensor program for it here; sort outside the function",
}


def in_library(name: str) -> bool:
    """Whether a name has a meaning of its own here."""
    return name in LIBRARY or name in OPERATORS or (name.endswith("f") and name[:-1] in OPERATORS)


def call_library(context: LoweringContext, cursor: Cursor, name: str, arguments: list[Cursor]) -> Value:
    """A call of a function that is not in the file."""
    name, kind = name.removeprefix("__builtin_"), scalar(cursor.type)
    known = constant(cursor) if not arguments and kind is not None else None  # numeric_limits<int>::max()
    if known is not None and kind is not None:
        return Num(known, kind, position(cursor))
    meaning = LIBRARY.get(name)
    if meaning is not None:
        if name in ON_MEMORY:
            refuse_shared(written_and_read(arguments), position(cursor))
        return meaning(context, cursor, arguments)
    single = kind is not None and kind.kind == "float" and name.endswith("f")
    operator = OPERATORS.get(name) or (OPERATORS.get(name[:-1]) if single else None)
    if operator is None or kind is None:
        why = WHY.get(name, "is not known here: define it in this file, or write out what it computes")
        raise Refusal(f"{name} {why}", position(cursor))
    if name == "abs" and kind.kind == "float" and spelled(cursor).startswith("abs"):
        raise Refusal(
            "abs without std:: may be that of ints, by compiler: write std::abs or fabs", position(cursor)
        )
    if len(arguments) != (2 if operator in ("minimum", "maximum", "pow", "fmod") else 1):
        raise Refusal(
            f"{name} with other arguments than the library's: define it in this file", position(cursor)
        )
    values = [cast(found, kind) for found in numbers(context, cursor, arguments)]
    if operator in EXTREMES:
        return _beyond(values[0], values[1], operator == "maximum", kind, position(cursor))
    return apply(operator, tuple(values), kind, position(cursor))


def numbers(context: LoweringContext, cursor: Cursor, arguments: list[Cursor]) -> list[Expr]:
    """The arguments, in whatever order."""
    return unsequenced(
        context, position(cursor), [partial(value, context, argument) for argument in arguments]
    )


def _beyond(a: Expr, b: Expr, largest: bool, kind: MachineType, where: SourcePosition) -> Value:
    """fmax and fmin: the other argument where one is NaN."""
    behind = Call("less", (a, b) if largest else (b, a), BOOL, where)
    chosen = Call("or", (behind, Call("not_equal", (a, a), BOOL, where)), BOOL, where)
    return Call("where", (chosen, b, a), kind, where)


@library("huge_val", "huge_valf", "inf", "inff")
def infinity(context: LoweringContext, cursor: Cursor, arguments: list[Cursor]) -> Value:
    return Num(math.inf, scalar(cursor.type) or F64, position(cursor))


@library("nan", "nanf")
def not_a_number(context: LoweringContext, cursor: Cursor, arguments: list[Cursor]) -> Value:
    context.skipped.update(map(identity, arguments))  # the payload
    return Num(math.nan, scalar(cursor.type) or F64, position(cursor))


@library("isnan")
def isnan(context: LoweringContext, cursor: Cursor, arguments: list[Cursor]) -> Value:
    found = value(context, arguments[0])
    return Call("not_equal", (found, found), BOOL, position(cursor))


@library("trunc", "truncf")
def trunc(context: LoweringContext, cursor: Cursor, arguments: list[Cursor]) -> Value:
    found, where = value(context, arguments[0]), position(cursor)
    below = Call("less", (found, zero(found.type, where)), BOOL, where)
    sides = (
        Call("ceil", (found,), found.type, where),
        Call("floor", (found,), found.type, where),
    )
    return Call("where", (below, *sides), found.type, where)


def _away_from_zero(given: Expr, where: SourcePosition) -> Expr:
    """The nearest whole number, halves away from zero (C17 7.12.9.6); no step of it rounds."""
    kind = given.type if given.type.kind == "float" else F64
    found = cast(given, kind)
    size = Call("abs", (found,), kind, where)
    below = Call("floor", (size,), kind, where)
    near = Call("less", (Call("sub", (size, below), kind, where), Num(0.5, kind, where)), BOOL, where)
    above = Call("add", (below, cast(integer(1, where), kind)), kind, where)
    nearest = Call("where", (near, below, above), kind, where)
    negative = Call("less", (found, zero(kind, where)), BOOL, where)
    return Call("where", (negative, Call("neg", (nearest,), kind, where), nearest), kind, where)


@library("round", "roundf")
def away_from_zero(context: LoweringContext, cursor: Cursor, arguments: list[Cursor]) -> Value:
    return _away_from_zero(value(context, arguments[0]), position(cursor))


@library("lround", "lroundf", "llround", "llroundf")
def whole_away_from_zero(context: LoweringContext, cursor: Cursor, arguments: list[Cursor]) -> Value:
    return cast(_away_from_zero(value(context, arguments[0]), position(cursor)), I64)


@library("lrint", "lrintf", "llrint", "llrintf")
def whole_to_even(context: LoweringContext, cursor: Cursor, arguments: list[Cursor]) -> Value:
    found = value(context, arguments[0])
    return cast(Call("round", (found,), found.type, position(cursor)), I64)


@library("log2", "log2f", "log10", "log10f")
def logarithm(context: LoweringContext, cursor: Cursor, arguments: list[Cursor]) -> Value:
    """log(x) / log(base)."""
    where, kind = position(cursor), scalar(cursor.type) or F64
    base = Num(10.0 if "log10" in cursor.spelling else 2.0, kind, where)
    top = apply("log", (cast(value(context, arguments[0]), kind),), kind, where)
    return apply("div", (top, apply("log", (base,), kind, where)), kind, where)


@library("hypot", "hypotf")
def hypotenuse(context: LoweringContext, cursor: Cursor, arguments: list[Cursor]) -> Value:
    where, kind = position(cursor), scalar(cursor.type) or F64
    if len(arguments) != 2:
        raise Refusal("hypot of other than two numbers: write the square root", where)
    context.note(assumptions.HYPOTENUSE())
    sides = [cast(found, kind) for found in numbers(context, cursor, arguments)]
    squares = tuple(apply("mul", (side, side), kind, where) for side in sides)
    return apply("sqrt", (apply("add", squares, kind, where),), kind, where)


@library("fma", "fmaf")
def fma(context: LoweringContext, cursor: Cursor, arguments: list[Cursor]) -> Value:
    a, b, c = numbers(context, cursor, arguments)
    context.note(assumptions.FUSED())
    where = position(cursor)
    return apply("add", (apply("mul", (a, b), a.type, where), c), a.type, where)


def ordered(sign: str, a: Expr, b: Expr, where: SourcePosition) -> Expr:
    """std::min and std::max: the first of two equal numbers (C++17 [alg.min.max])."""
    if a.type.kind == "int":
        return Call(sign, (a, b), a.type, where)
    pair = (b, a) if sign == "minimum" else (a, b)
    return Call("where", (Call("less", pair, BOOL, where), b, a), a.type, where)


@library("min", "max")
def least_or_greatest(context: LoweringContext, cursor: Cursor, arguments: list[Cursor]) -> Value:
    if len(arguments) != 2:
        raise Refusal(f"{cursor.spelling} of other than two numbers: nest the calls", position(cursor))
    a, b = numbers(context, cursor, arguments)
    operator = "minimum" if cursor.spelling == "min" else "maximum"
    return ordered(operator, a, cast(b, a.type), position(cursor))


@library("clamp")
def clamp(context: LoweringContext, cursor: Cursor, arguments: list[Cursor]) -> Value:
    """std::clamp, which is undefined where its bounds are not in order (C++17 [alg.clamp])."""
    found, low, high = numbers(context, cursor, arguments)
    where = position(cursor)
    if not (isinstance(low, Num) and isinstance(high, Num) and low.value <= high.value):
        context.note(assumptions.CLAMPED(where.line))
    return ordered("minimum", ordered("maximum", found, low, where), high, where)


@library("swap")
def swap(context: LoweringContext, cursor: Cursor, arguments: list[Cursor]) -> Value:
    where = position(cursor)
    targets: list[ScalarPlace | ElementPlace] = []
    for argument in arguments:
        target = place(context, argument)
        if not isinstance(target, ScalarPlace | ElementPlace):
            raise Refusal("arrays are swapped: swap their elements in a loop", where)
        if isinstance(target, ElementPlace):  # the first store may change what the second subscript reads
            kept = tuple(context.kept("swapped_at", index, where) for index in target.indices)
            target = ElementPlace(target.array, kept)
        targets.append(target)
    kinds: list[MachineType] = [place_type(context, target) for target in targets]
    old = [
        context.declare("swapped", kind, load(context, target, cursor), where)
        for target, kind in zip(targets, kinds, strict=True)
    ]
    context.emit(store(context, targets[0], old[1], where))
    context.emit(store(context, targets[1], old[0], where))
    return None


# Memory.

ON_MEMORY = (
    "memset",
    "memcpy",
    "memmove",
    "fill",
    "fill_n",
    "copy",
    "iota",
    "accumulate",
    "inner_product",
    "swap",
)


@library("malloc", "calloc")
def malloc(context: LoweringContext, cursor: Cursor, arguments: list[Cursor]) -> Value:
    many = cursor.spelling == "calloc"
    return Heap(arguments[-1], arguments[0] if many else None, many, cursor)


@library("free")
def free(context: LoweringContext, cursor: Cursor, arguments: list[Cursor]) -> Value:
    """Memory made here may go; nobody else's."""
    target = address(context, arguments[0])
    if not isinstance(target, Null | Heap) and getattr(target, "array", None) not in context.local:
        raise Refusal(f"`{spelled(cursor)}` frees memory of the caller: remove it", position(cursor))
    return None


# What says something to the compiler.


@library("tensmith_assert", "assume")
def assumption(context: LoweringContext, cursor: Cursor, arguments: list[Cursor]) -> Value:
    """assert(e), __builtin_assume(e): e holds wherever the function has a meaning, which is stated."""
    where = position(cursor)
    later = len(context.later)
    with context.block() as effects:
        found = condition(context, arguments[0])
    if effects or len(context.later) > later:
        reason = "an assertion with side effects, which happen or not depending on how it is compiled"
        raise Refusal(f"{reason}: make them statements of their own", where)
    if isinstance(found, Num) and found.value:
        return None
    if isinstance(found, Num):
        raise Refusal("an assertion that never holds: nothing can be lifted behind it", where)
    context.note(assumptions.C_ASSERTION(where.line, text(found)))
    return None


@library("expect", "expect_with_probability")
def expected(context: LoweringContext, cursor: Cursor, arguments: list[Cursor]) -> Value:
    """__builtin_expect(x, c) is x."""
    found = numbers(context, cursor, arguments)
    for other in found[1:]:
        keep_defined(context, other, position(cursor))
    return found[0]


@library("assume_aligned")
def aligned(context: LoweringContext, cursor: Cursor, arguments: list[Cursor]) -> Value:
    """__builtin_assume_aligned(p, n) is p."""
    for argument in arguments[1:]:
        discarded(context, argument)
    return address(context, arguments[0])


@library("prefetch")
def prefetch(context: LoweringContext, cursor: Cursor, arguments: list[Cursor]) -> Value:
    """__builtin_prefetch(p) only asks for time; its arguments are computed."""
    for argument in arguments:
        discarded(context, argument)
    return None


def pointee(context: LoweringContext, pointer: Pointer, cursor: Cursor) -> MachineType:
    if not isinstance(pointer, Address):
        raise Refusal(f"`{spelled(cursor)}` works on what is not an array", position(cursor))
    return context.arrays[pointer.array].element


@library("memset")
def memset(context: LoweringContext, cursor: Cursor, arguments: list[Cursor]) -> Value:
    to, new = address(context, arguments[0]), value(context, arguments[1])
    keep_defined(context, new, position(cursor))  # also where no element is written
    kind = pointee(context, to, cursor)
    byte = int(new.value) & 255 if isinstance(new, Num) else None
    if kind.bits != 8 and byte != 0 and not (byte == 255 and kind.kind == "int"):
        raise Refusal("memset of larger elements to other than 0: write a loop", position(cursor))
    if kind.bits != 8:
        new = integer(-1 if byte else 0, position(cursor))
    elif kind == BOOL and byte not in (0, 1):
        raise Refusal("memset of bool to other than 0 and 1: write a loop", position(cursor))
    filled(context, to, count(context, arguments[2], kind), cast(new, kind), position(cursor), unsigned=True)
    return to


@library("memcpy", "memmove")
def memcpy(context: LoweringContext, cursor: Cursor, arguments: list[Cursor]) -> Value:
    to, source = address(context, arguments[0]), address(context, arguments[1])
    kind = pointee(context, to, cursor)
    if pointee(context, source, cursor) != kind:
        raise Refusal("memcpy between arrays of different types: convert in a loop", position(cursor))
    refuse_shifting(to, source, cursor)
    copied(context, to, source, count(context, arguments[2], kind), position(cursor))
    return to


def refuse_shifting(to: Pointer, source: Pointer, cursor: Cursor) -> None:
    """Refuse a copy inside one array: where the ranges overlap, what is read may have been written."""
    if getattr(to, "array", 0) == getattr(source, "array", 1):
        reason = f"{cursor.spelling} inside one array: copy through a second array, or write a loop"
        raise Refusal(reason, position(cursor))


def span(context: LoweringContext, cursor: Cursor, first: Cursor, last: Cursor) -> tuple[Address, Expr]:
    """A range of iterators: where it begins, how many elements it has, unsigned: it is required not to end
    before it begins (C++17 [iterator.requirements.general])."""
    start, stop = address(context, first), address(context, last)
    low, high = same_array(context, cursor, start, stop)
    assert isinstance(start, Address)
    if isinstance(low, Num) and low.value == 0:
        return start, high
    return start, apply("sub", (unsigned(high), unsigned(low)), U64, position(cursor))


def unsigned(found: Expr) -> Expr:
    """A number as size_t: one that was size_t before its conversion to a subscript is that again."""
    inner = found.args[0] if is_cast(found) and found.args[0].type == U64 else found
    return cast(inner, U64)


@library("fill", "fill_n")
def fill(context: LoweringContext, cursor: Cursor, arguments: list[Cursor]) -> Value:
    new = value(context, arguments[2])
    if cursor.spelling == "fill_n":
        start: Pointer = address(context, arguments[0])
        extent = cast(value(context, arguments[1]), I64)
    else:
        start, extent = span(context, cursor, arguments[0], arguments[1])
    kept = context.declare("filling", new.type, new, position(cursor))
    filled(context, start, extent, kept, position(cursor), unsigned=cursor.spelling == "fill")
    return None


@library("copy")
def copy(context: LoweringContext, cursor: Cursor, arguments: list[Cursor]) -> Value:
    start, extent = span(context, cursor, arguments[0], arguments[1])
    to = address(context, arguments[2])
    if pointee(context, to, cursor) != pointee(context, start, cursor):
        raise Refusal("copy between arrays of different types: convert in a loop", position(cursor))
    refuse_shifting(to, start, cursor)
    copied(context, to, start, extent, position(cursor))
    return None


@library("iota")
def iota(context: LoweringContext, cursor: Cursor, arguments: list[Cursor]) -> Value:
    where = position(cursor)
    start, extent = span(context, cursor, arguments[0], arguments[1])
    first = value(context, arguments[2])
    first = context.declare("first", first.type, first, where)

    def body(at: Expr) -> None:
        new = apply("add", (first, cast(at, first.type)), first.type, where)
        context.emit(store_at(context, start, at, new, where))

    repeat(context, extent, where, "iota", body, unsigned=True)
    return None


@library("accumulate", "inner_product")
def accumulate(context: LoweringContext, cursor: Cursor, arguments: list[Cursor]) -> Value:
    """A sum, in the type of its start."""
    where, many = position(cursor), cursor.spelling == "inner_product"
    if len(arguments) != (4 if many else 3):
        raise Refusal(f"{cursor.spelling} with an operation of its own: write a loop", where)
    spans = [span(context, cursor, arguments[0], arguments[1])]
    if many:
        other = address(context, arguments[2])
        assert isinstance(other, Address)
        spans.append((other, spans[0][1]))
    start = value(context, arguments[-1])
    total = context.declare("total", start.type, start, where)

    def body(at: Expr) -> None:
        loaded = []
        for address_, _ in spans:
            target = ElementPlace(address_.array, address_.moved(at, where).indices)
            loaded.append(load(context, target, cursor))
        added = loaded[0] if len(loaded) == 1 else updated(loaded[0], "mul", loaded[1], where)
        context.emit(loops.Assign(total.tensor, cast(updated(total, "add", added, where), total.type), where))

    repeat(context, spans[0][1], where, cursor.spelling, body, unsigned=True)
    return total
