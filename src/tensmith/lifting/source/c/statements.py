"""Statements in order: branches, returns in the middle, switch; loops are next door."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import TypeAlias

from tensmith.formula.expr import Call, Expr, Num, Read, SourcePosition, variable
from tensmith.formula.types import BOOL, MachineType
from tensmith.lifting import loops
from tensmith.lifting.refusal import Refusal
from tensmith.lifting.source.c.account import dead
from tensmith.lifting.source.c.arithmetic import cast, negation
from tensmith.lifting.source.c.context import CFrame, LoweringContext
from tensmith.lifting.source.c.cursor import (
    Cursor,
    character_before,
    children,
    descendants,
    identity,
    is_expression,
    kind,
    position,
)
from tensmith.lifting.source.c.declarations import declare
from tensmith.lifting.source.c.evaluate import address, condition, evaluate, keep_defined, value
from tensmith.lifting.source.c.expressions import discard, sequenced
from tensmith.lifting.source.c.memory import is_zero
from tensmith.lifting.source.c.places import Address, ArrayRegion, Value
from tensmith.lifting.source.c.pragmas import harmless_attribute
from tensmith.lifting.source.c.types import is_pointer, is_reference, scalar, unsupported, vector_element
from tensmith.lifting.source.c.whitelist import cursor_meaning
from tensmith.lifting.source.c.writes import body, returns
from tensmith.registry import entered_in


@dataclass(frozen=True)
class LoopExit:
    """What happens behind a loop that ended early. test: whether it did; counter: set to where; inner: what
    only the loop knew; statements: of the branch that ended it."""

    test: Read
    counter: loops.Assign
    inner: frozenset[str]
    statements: list[Cursor]


Handler: TypeAlias = Callable[[LoweringContext, Cursor], LoopExit | None]
STATEMENTS: dict[str, Handler] = {}

COPIES = 4  # how many statements an `if` may have to be written out twice
BREAK = (
    "break or return ends the loop early, depending on data: let that be all that the loop does, under one "
    "if at its start, with one counter of a constant step; or let it run over all iterations and keep what "
    "counts with if"
)


statement = entered_in(STATEMENTS)


def run(context: LoweringContext, statements: list[Cursor]) -> None:
    """Lower statements in order; what follows a `return` or `continue` in a branch moves into the other."""
    for number, cursor in enumerate(statements):
        name, rest = kind(cursor), statements[number + 1 :]
        if name in STRUCTURE:
            context.see(cursor)
        if name == "COMPOUND_STMT":
            return run(context, children(cursor) + rest)
        if name == "UNEXPOSED_STMT":
            return run(context, [unattributed(context, cursor), *rest])
        if name in ("RETURN_STMT", "CONTINUE_STMT"):
            dead(context, rest)
            return leave(context, cursor) if name == "RETURN_STMT" else None
        if name in ("IF_STMT", "SWITCH_STMT"):
            follow = rest if leaves(cursor) else []
            (branch if name == "IF_STMT" else switch)(context, cursor, follow)
            if follow:
                return None
        elif name == "DECL_STMT":
            for declaration in children(cursor):
                declare(context, declaration)
        elif is_expression(cursor):
            discard(context, cursor)
        elif name != "NULL_STMT":
            handler = STATEMENTS.get(name)
            if handler is None:
                reason = f"a statement that is not understood ({name.lower()}): write it in plainer terms"
                reason = BREAK if name == "BREAK_STMT" else reason
                raise Refusal(cursor_meaning(name).refused or reason, position(cursor))
            context.see(cursor)
            if ended := handler(context, cursor):
                return early(context, ended, rest, position(cursor))
    return None


def early(context: LoweringContext, ended: LoopExit, rest: list[Cursor], where: SourcePosition) -> None:
    """What a loop ended early for, and what follows where it does not return."""
    follow = rest if any(map(leaves, ended.statements)) else []

    def first() -> None:
        context.emit(ended.counter)
        run(context, ended.statements + follow)
        if ended.inner & loops.reads(context.out):
            reason = "a loop that ends early hands on a value that it read"
            raise Refusal(f"{reason}: hand on where it ended, as a counter", where)

    ways(context, ended.test, first, partial(run, context, follow), where)
    return None if follow else run(context, rest)


# What `run` itself gives a meaning to.
STRUCTURE = (
    "COMPOUND_STMT",
    "RETURN_STMT",
    "CONTINUE_STMT",
    "IF_STMT",
    "SWITCH_STMT",
    "DECL_STMT",
    "NULL_STMT",
)


def unattributed(context: LoweringContext, cursor: Cursor) -> Cursor:
    """The statement behind attributes that change no value: [[likely]], [[fallthrough]]."""
    inner = children(cursor)
    words: list[str] = []
    for token in cursor.get_tokens():
        if inner and token.extent.start.offset >= inner[0].extent.start.offset:
            break
        words.append(token.spelling)
    names = [word for word in words if word[:1].isalpha() or word[:1] == "_"]
    pragma = words[:1] == ["#"]  # pragmas are looked at in the text
    known = all(name in ATTRIBUTE_WORDS or harmless_attribute(name) for name in names)
    if len(inner) != 1 or not words or not (pragma or known):
        raise Refusal(cursor_meaning(kind(cursor)).refused, position(cursor))
    context.see(cursor)
    context.attributed.add(identity(cursor))
    return inner[0]


ATTRIBUTE_WORDS = ("__attribute__", "__attribute", "gnu", "clang")


LOOPS = ("FOR_STMT", "WHILE_STMT", "DO_STMT", "CXX_FOR_RANGE_STMT")


def leaves(cursor: Cursor) -> bool:
    """Whether a statement may return, or continue the loop around it."""
    name = kind(cursor)
    if name in ("RETURN_STMT", "CONTINUE_STMT"):
        return True
    if name in LOOPS:
        return any(kind(inner) == "RETURN_STMT" for inner in descendants(cursor))
    return not is_expression(cursor) and any(map(leaves, children(cursor)))


# Branches.


def branch(context: LoweringContext, cursor: Cursor, follow: list[Cursor]) -> None:
    """if (c) a; else b; and, where a branch may leave, what follows."""
    parts = children(cursor)
    if not is_expression(parts[0]) or len(parts) > 3 or has_start(context, cursor):
        raise Refusal("a statement or declaration inside an if: put it before", position(cursor))
    with context.full_expression():
        test = sequenced(context, condition, parts[0])
    if isinstance(test, Num):
        taken, never = (parts[1:2], parts[2:]) if test.value else (parts[2:], parts[1:2])
        dead(context, never)
        return run(context, taken + follow)
    then, otherwise = [parts[1], *follow], [*parts[2:], *follow]
    ways(context, test, partial(run, context, then), partial(run, context, otherwise), position(cursor))
    return None


def has_start(context: LoweringContext, cursor: Cursor) -> bool:
    """Whether `if (start; test)`, which C++ knows, may be meant: libclang's children do not tell."""
    parts = children(cursor)
    ambiguous = context.language == "c++" and len(parts) == 3 and is_expression(parts[1])
    return ambiguous and character_before(parts[1]) != ")"


def ways(
    context: LoweringContext,
    test: Expr,
    first: Callable[[], None],
    second: Callable[[], None],
    where: SourcePosition,
) -> None:
    """An if, from what lowers its two ways."""
    start = dict(context.pointers)
    with context.block() as then:
        first()
    end, context.pointers = context.pointers, dict(start)
    with context.block() as otherwise:
        second()
    context.pointers = context.joined([end, context.pointers])
    if not then and not otherwise:
        keep_defined(context, test, where)
    for made in split(test, tuple(then), tuple(otherwise), where):
        context.emit(made)


def split(
    test: Expr,
    then: tuple[loops.Statement, ...],
    otherwise: tuple[loops.Statement, ...],
    where: SourcePosition,
) -> list[loops.Statement]:
    """An if; where && guards its right side, an if in an if."""
    if not then and not otherwise:
        return []
    if not then:
        test, then, otherwise = negation(test), otherwise, ()
    if isinstance(test, Call) and test.function == "where":
        left, a, b = test.args
        if isinstance(b, Num) and not b.value and small(otherwise):
            return split(left, tuple(split(a, then, otherwise, where)), otherwise, where)
        if isinstance(a, Num) and a.value and small(then):
            return split(left, then, tuple(split(b, then, otherwise, where)), where)
    return [loops.If(test, then, otherwise, where)]


def small(statements: tuple[loops.Statement, ...]) -> bool:
    """Whether statements may stand twice."""
    return len(statements) <= COPIES and not any(
        isinstance(s, loops.Loop | loops.If | loops.Declare) for s in statements
    )


def switch(context: LoweringContext, cursor: Cursor, follow: list[Cursor]) -> None:
    """switch over constants, every group ended by break, return or continue: a chain of ifs."""
    parts, where = children(cursor), position(cursor)
    hidden = context.language == "c++" and character_before(parts[0]) != "("
    if len(parts) != 2 or hidden:
        raise Refusal("a statement or declaration inside a switch: put it before", where)
    selector, inside = parts
    with context.full_expression():
        chosen = value(context, selector)
        if not isinstance(chosen, Num):
            chosen = context.declare("selected", chosen.type, chosen, where)
    groups = grouped(context, inside)
    default = [group for labels, group in groups if is_default(labels)]
    others = [pair for pair in groups if not is_default(pair[0])]
    chain(context, chosen, others, (default or [[]])[0], follow, where)


Group: TypeAlias = tuple[list[Cursor | None], list[Cursor]]


def is_default(labels: list[Cursor | None]) -> bool:
    return any(label is None for label in labels)


def chain(
    context: LoweringContext,
    chosen: Expr,
    groups: list[Group],
    default: list[Cursor],
    follow: list[Cursor],
    where: SourcePosition,
) -> None:
    """if (chosen == first label) ... else the rest."""
    if not groups:
        return run(context, default + follow)
    labels, group = groups[0]
    tests = [
        Call("equal", (chosen, cast(value(context, label), chosen.type)), BOOL, position(label))
        for label in labels
        if label is not None
    ]
    test: Expr = tests[0]
    for other in tests[1:]:
        test = Call("or", (test, other), BOOL, where)
    rest = partial(chain, context, chosen, groups[1:], default, follow, where)
    ways(context, test, partial(run, context, group + follow), rest, where)
    return None


def grouped(context: LoweringContext, inside: Cursor) -> list[Group]:
    """The labels (None: default) and statements of every group of a switch, without the final break."""
    groups: list[Group] = []
    ended = True
    for cursor in unbraced(context, inside):
        labels: list[Cursor | None] = []
        where = position(cursor)
        while kind(cursor) in ("CASE_STMT", "DEFAULT_STMT"):
            parts = children(cursor)
            context.see(cursor)
            if len(parts) != (2 if kind(cursor) == "CASE_STMT" else 1):
                raise Refusal("a range of cases: list them", position(cursor))
            labels.append(parts[0] if kind(cursor) == "CASE_STMT" else None)
            cursor = parts[-1]
        if labels and not ended:
            raise Refusal("a case falls through into the next: end it with break", where)
        if labels:
            groups.append((labels, []))
        if not groups:
            raise Refusal("a statement before the first case: remove it", position(cursor))
        if ended and not labels:
            dead(context, [cursor])
            continue
        ended = ends(cursor)
        groups[-1][1].extend(until_break(context, cursor))
    return groups


def unbraced(context: LoweringContext, cursor: Cursor) -> list[Cursor]:
    """The statements in braces, or the one there is."""
    if kind(cursor) != "COMPOUND_STMT":
        return [cursor]
    context.see(cursor)
    return children(cursor)


def until_break(context: LoweringContext, cursor: Cursor) -> list[Cursor]:
    """The statements of a group; what follows its break is never run."""
    parts = unbraced(context, cursor)
    for number, part in enumerate(parts):
        if kind(part) == "BREAK_STMT":
            context.see(part)
            dead(context, parts[number + 1 :])
            return parts[:number]
        if found := breaking(part):
            reason = "a break inside a branch ends the switch"
            raise Refusal(f"{reason}: turn its condition around, and break at the end", position(found))
    return parts


def breaking(cursor: Cursor) -> Cursor | None:
    """A break in a statement that ends the loop or switch around it."""
    if kind(cursor) == "BREAK_STMT" or kind(cursor) in (*LOOPS, "SWITCH_STMT") or is_expression(cursor):
        return cursor if kind(cursor) == "BREAK_STMT" else None
    return next(filter(None, map(breaking, children(cursor))), None)


def ends(cursor: Cursor) -> bool:
    """Whether a statement ends a group of a switch."""
    if kind(cursor) == "COMPOUND_STMT":
        return any(map(ends, children(cursor)))
    return kind(cursor) in ("BREAK_STMT", "RETURN_STMT", "CONTINUE_STMT")


# Functions.


def function_body(context: LoweringContext, frame: CFrame, name: str) -> Value:
    """Lower a function's statements; the value it returns, None where it returns none."""
    statements, found = children(body(frame.function)), returns(frame.function)
    result = frame.function.result_type
    frame.type = scalar(result)
    last = bool(statements) and kind(statements[-1]) == "RETURN_STMT" and len(found) == 1
    if isinstance(frame.type, MachineType) and found and not last:
        result_at = position(found[0])
        frame.result = context.declare(f"{name}_result", frame.type, None, result_at).tensor
    void = result.get_canonical().kind.name == "VOID"
    if frame.type is None and not void and vector_element(result) is None and not is_pointer(result):
        raise Refusal(unsupported(result, f"the result of {name}"), position(frame.function))
    run(context, statements)
    if frame.result is not None:
        assert isinstance(frame.type, MachineType)
        return variable(frame.result, frame.type, position(found[-1]))
    values = frame.returned
    if not void and not values:
        raise Refusal(f"{name} ends without a return", position(frame.function))
    if any(other != values[0] for other in values[1:]):
        raise Refusal(
            f"{name} returns one of several arrays: return the same in all places", position(found[-1])
        )
    return values[0] if values else None


def leave(context: LoweringContext, cursor: Cursor) -> None:
    """return, return x."""
    frame, where = context.frame, position(cursor)
    if frame.loops:
        reason = "returns from inside a loop: the other iterations would not happen"
        way = "let that be all that one loop does, with none around it, or keep the result in a variable"
        raise Refusal(f"{reason}; {way} and return it after the loop", where)
    if not children(cursor):
        return
    given = children(cursor)[0]
    with context.full_expression():
        if isinstance(frame.type, MachineType):
            found = cast(value(context, given), frame.type, where)
            if frame.result is not None:
                context.emit(loops.Assign(frame.result, found, where))
            else:
                if context.later:
                    found = context.declare("returned", frame.type, found, where)
                frame.returned.append(found)
            return
        if frame.function.result_type.get_canonical().kind.name == "VOID":
            evaluate(context, given)
            return
        pointer = is_pointer(frame.function.result_type)
        found_value = address(context, given) if pointer else returned_vector(context, given)
        frame.returned.append(whole(found_value))


def returned_vector(context: LoweringContext, cursor: Cursor) -> ArrayRegion:
    from tensmith.lifting.source.c.vectors import declare_vector, region_of, unwrapped

    if is_reference(context.frame.function.result_type):
        region = region_of(context, cursor)
        indices = (context.kept("result_at", index, position(cursor)) for index in region.indices)
        return ArrayRegion(region.array, tuple(indices))
    inner = unwrapped(context, cursor)
    if kind(inner) == "DECL_REF_EXPR":
        found = evaluate(context, inner)
        if isinstance(found, ArrayRegion) and not found.indices:
            return found
    return declare_vector(context, cursor, cursor, "result")


def whole(found: Value) -> Value:
    """A returned array, which a pointer to its first element means too."""
    return ArrayRegion(found.array) if isinstance(found, Address) and is_zero(found.indices) else found
