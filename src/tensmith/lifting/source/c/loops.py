"""for, while, do-while and range-for, all as `Loop`: a condition, a body, the step at the body's end."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from tensmith.formula.expr import Call, Expr, Num, SourcePosition
from tensmith.formula.types import BOOL, I64
from tensmith.lifting import loops
from tensmith.lifting.refusal import Refusal
from tensmith.lifting.source.c.account import dead
from tensmith.lifting.source.c.arithmetic import apply, cast, integer, negation
from tensmith.lifting.source.c.context import UNKNOWN, LoweringContext
from tensmith.lifting.source.c.cursor import (
    Cursor,
    bare,
    character_before,
    children,
    descendants,
    for_parts,
    identity,
    is_expression,
    key,
    kind,
    position,
)
from tensmith.lifting.source.c.declarations import is_copy, may_copy
from tensmith.lifting.source.c.evaluate import element, load, place_type, spelled
from tensmith.lifting.source.c.places import Address, ArrayRegion, ElementPlace, ScalarPlace
from tensmith.lifting.source.c.search import (
    bounded,
    depends_on_data,
    early_exit,
    search,
    stopping,
    tested,
)
from tensmith.lifting.source.c.statements import BREAK, LoopExit, run, statement, unbraced
from tensmith.lifting.source.c.types import is_pointer, is_reference, scalar, unsupported, vector_element
from tensmith.lifting.source.c.vectors import duplicate, length, region_of


@statement("FOR_STMT")
def for_loop(context: LoweringContext, cursor: Cursor) -> LoopExit | None:
    """for (start; test; step) body."""
    start, test, step, inside = for_parts(cursor)
    name = "for"
    if start is not None:
        names = [c.spelling for c in descendants(start) if kind(c) in ("VAR_DECL", "DECL_REF_EXPR")]
        name = names[0] if names else name
        run(context, [start])
    return repeat(context, cursor, test, inside, name, [] if step is None else [step])


@statement("WHILE_STMT")
def while_loop(context: LoweringContext, cursor: Cursor) -> LoopExit | None:
    if len(children(cursor)) != 2:
        raise Refusal("a declaration inside a while: put it before", position(cursor))
    test, inside = children(cursor)
    return repeat(context, cursor, test, inside, "while", [])


@statement("DO_STMT")
def do_loop(context: LoweringContext, cursor: Cursor) -> LoopExit | None:
    """do body while (test): the body, then a loop."""
    inside, test = children(cursor)
    context.frame.loops += 1
    run(context, [inside])
    context.frame.loops -= 1
    return repeat(context, cursor, test, inside, "do", [])


def repeat(
    context: LoweringContext,
    cursor: Cursor,
    test: Cursor | None,
    inside: Cursor,
    name: str,
    step: list[Cursor],
) -> LoopExit | None:
    """A loop whose condition may itself have effects, before its value counts and after."""
    where = position(cursor)
    statements = unbraced(context, inside)
    leaving = early_exit(statements)
    start, touched, context.touched = dict(context.pointers), context.touched, {}
    with context.block() as before:
        found, after = tested(context, test, where)
        if leaving is not None and not (leaving.declared or leaving.statements):
            stop = stopping(context, leaving)
            if not (depends_on_data(stop) or loops.writes(after) & loops.reads(stop)):
                statements, found, leaving = leaving.rest, guarded(found, stop, where), None
    tests, context.touched = context.touched, {**context.touched, **touched}
    for made in before:
        context.emit(made)
    if isinstance(found, Num):
        if found.value and test is not None and is_pointer(bare(test).type):
            reason = "a loop that follows pointers until null"
            raise Refusal(f"{reason}: keep the data in an array, and count", where)
        if found.value:
            raise Refusal("a loop without end: give it a condition that concerns its counter", where)
        if name != "do":
            dead(context, [inside, *step])
        return None
    effects = [*before, *after]
    if leaving is not None:
        if effects:
            raise Refusal(BREAK, where)
        head, move = partial(stopping, context, leaving), partial(run, context, leaving.rest + step)
        return search(context, (name, where), found, head, move, leaving.statements)
    go, rest = bounded(found)
    moves = [each for each in statements + step if kind(each) != "NULL_STMT"]
    if rest is not None and not effects and len(moves) == 1 and is_expression(moves[0]):
        head, move = partial(negation, rest), partial(run, context, statements + step)
        return search(context, (name, where), go, head, move, [])

    def body() -> None:
        for made in after:
            context.emit(made)
        run(context, statements)
        run(context, step)
        for made in before:
            context.emit(made)

    label = context.label(name, where)
    context.emit(loops.Loop(found, repeated(context, body), label, where))
    for at, (pointer, read) in tests.items():
        if read == start.get(at) != context.pointers.get(at):
            reason = f"{pointer}, which a loop's condition reads, points elsewhere after an iteration"
            raise Refusal(f"{reason}: let the condition read a variable", where)
    for made in after:
        context.emit(made)
    return None


def guarded(found: Expr, stop: Expr, where: SourcePosition) -> Expr:
    """The condition of a loop that a test of its counters ends as well."""
    go = negation(stop)
    if isinstance(found, Num) and found.value:
        return go
    return Call("and", (found, go), BOOL, where)


def repeated(context: LoweringContext, body: Callable[[], None]) -> tuple[loops.Statement, ...]:
    """The statements of a loop's body.

    A pointer that the body lets point into another array than before the loop is unknown at the start of
    every iteration; the body is then lowered again with that knowledge.
    """
    names, labels, start = set(context.names), set(context.labels), dict(context.pointers)
    context.frame.loops += 1
    with context.block() as inside:
        body()
    moved = {
        at for at, entry in start.items() if entry is not None and context.pointers.get(at, entry) != entry
    }
    if moved:
        context.names, context.labels = names | set(context.types) | set(context.arrays), labels
        context.pointers = {**start, **dict.fromkeys(moved, UNKNOWN)}
        with context.block() as inside:
            body()
    context.frame.loops -= 1
    context.pointers = context.joined([start, context.pointers])
    return tuple(inside)


@statement("CXX_FOR_RANGE_STMT")
def range_loop(context: LoweringContext, cursor: Cursor) -> LoopExit | None:
    """for (T x : v) body."""
    parts = children(cursor)
    if len(parts) != 3 or character_before(parts[0]) != "(":
        raise Refusal(
            "a range-for with a statement before its range: put it before the loop", position(cursor)
        )
    variable, over, inside = parts
    context.see(variable)
    elements = [part for part in children(variable) if is_expression(part)]  # *begin, which clang adds
    context.skipped.update(map(identity, children(variable)))
    where, region = position(cursor), region_of(context, over)
    array = context.arrays[region.array]
    if array.memory == "nested":
        extent = cast(length(region, where), I64)
    else:
        known = array.extents[len(region.indices)]
        if known is None:
            raise Refusal(f"`{spelled(over)}` has no length: loop over subscripts", where)
        extent = cast(known, I64)
    at = context.declare(f"{variable.spelling}_at", I64, integer(0, where), where)

    def bind() -> None:
        found = element(context, Address(region.array, (*region.indices, at)), cursor)
        wanted = scalar(variable.type)
        named = is_reference(variable.type) and not (may_copy(variable) and any(map(is_copy, elements)))
        if isinstance(found, ElementPlace) and not (named and wanted == place_type(context, found)):
            if wanted is None:
                raise Refusal(unsupported(variable.type, variable.spelling), where)
            loaded = cast(load(context, found, variable), wanted)
            local = context.declare(variable.spelling, loaded.type, loaded, where)
            context.bound[key(variable)] = ScalarPlace(local.tensor, local.type)
        elif (
            isinstance(found, ArrayRegion)
            and not is_reference(variable.type)
            and vector_element(variable.type)
        ):
            context.bound[key(variable)] = duplicate(context, found, variable.spelling, where)
        else:
            context.bound[key(variable)] = found

    def move() -> None:
        context.emit(loops.Assign(at.tensor, apply("add", (at, integer(1, where)), I64, where), where))

    def body() -> None:
        bind()
        run(context, [inside])
        move()

    test = Call("less", (at, extent), BOOL, where)
    leaving = early_exit(children(inside) if kind(inside) == "COMPOUND_STMT" else [inside])
    if leaving is not None and not leaving.rest:
        context.see(inside)

        def head() -> Expr:
            bind()
            return stopping(context, leaving)

        return search(context, (variable.spelling, where), test, head, move, leaving.statements)
    context.emit(loops.Loop(test, repeated(context, body), context.label(variable.spelling, where), where))
    return None
