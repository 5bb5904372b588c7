"""Statements in order: branches, returns in the middle, switch; loops are next door."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

from tensmith.lifting.loops import (
    BOOL,
    Apply,
    Assign,
    Constant,
    Declare,
    Expr,
    If,
    Loop,
    Position,
    Scalar,
    Statement,
    Variable,
)
from tensmith.lifting.refusal import Refusal
from tensmith.lifting.source.c_arithmetic import cast, negation
from tensmith.lifting.source.c_context import Context, Frame
from tensmith.lifting.source.c_cursor import Cursor, children, is_expression, kind, position
from tensmith.lifting.source.c_declarations import declare
from tensmith.lifting.source.c_evaluate import address, condition, evaluate, value
from tensmith.lifting.source.c_expressions import discard, sequenced
from tensmith.lifting.source.c_places import Address, Region, Value
from tensmith.lifting.source.c_types import is_pointer, scalar, unsupported, vector_element
from tensmith.lifting.source.c_writes import body, returns

Handler: TypeAlias = Callable[[Context, Cursor], None]
STATEMENTS: dict[str, Handler] = {}

COPIES = 4  # how many statements an `if` may have to be written out twice
REFUSED = {
    "GOTO_STMT": "goto: use a loop or if and else",
    "INDIRECT_GOTO_STMT": "goto: use a loop or if and else",
    "LABEL_STMT": "a label for goto: use a loop or if and else",
    "ASM_STMT": "inline assembly: write it in C",
    "MS_ASM_STMT": "inline assembly: write it in C",
    "CXX_TRY_STMT": "try: an exception ends the function early; check the input before the call",
    "BREAK_STMT": "break ends the loop early, depending on data: let the loop run over all iterations and "
    "keep what counts with if, or put the test at the start of the loop if it only concerns the counter",
}


def statement(*kinds: str) -> Callable[[Handler], Handler]:
    """Register the handler of cursor kinds."""

    def register(handler: Handler) -> Handler:
        STATEMENTS.update(dict.fromkeys(kinds, handler))
        return handler

    return register


def run(context: Context, statements: list[Cursor]) -> None:
    """Lower statements in order; what follows a `return` or `continue` in a branch moves into the other."""
    for number, cursor in enumerate(statements):
        name, rest = kind(cursor), statements[number + 1 :]
        if name == "COMPOUND_STMT":
            return run(context, children(cursor) + rest)
        if name == "RETURN_STMT":
            return leave(context, cursor)
        if name == "CONTINUE_STMT":
            return None
        if name == "IF_STMT":
            follow = rest if leaves(cursor) else []
            branch(context, cursor, follow)
            if follow:
                return None
        elif name == "SWITCH_STMT":
            follow = rest if leaves(cursor) else []
            switch(context, cursor, follow)
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
                raise Refusal(REFUSED.get(name, reason), position(cursor))
            handler(context, cursor)
    return None


LOOPS = ("FOR_STMT", "WHILE_STMT", "DO_STMT", "CXX_FOR_RANGE_STMT")


def leaves(cursor: Cursor) -> bool:
    """Whether a branch may return, or continue the loop around."""
    for inner in children(cursor):
        name = kind(inner)
        if name in ("RETURN_STMT", "CONTINUE_STMT"):
            return True
        if name not in LOOPS and not is_expression(inner) and leaves(inner):
            return True
    return False


# Branches.


def branch(context: Context, cursor: Cursor, follow: list[Cursor]) -> None:
    """if (c) a; else b; and, where a branch may leave, what follows."""
    parts = children(cursor)
    if not is_expression(parts[0]) or len(parts) > 3:
        raise Refusal("a declaration inside an if: put it before", position(cursor))
    with context.full_expression():
        test = sequenced(context, condition, parts[0])
    if isinstance(test, Constant):
        taken = parts[1:2] if test.value else parts[2:]
        return run(context, taken + follow)
    ways(context, test, [parts[1], *follow], [*parts[2:], *follow], position(cursor))
    return None


def ways(context: Context, test: Expr, first: list[Cursor], second: list[Cursor], where: Position) -> None:
    """An if, from the statements of its two ways."""
    start = dict(context.pointers)
    with context.block() as then:
        run(context, first)
    end, context.pointers = context.pointers, dict(start)
    with context.block() as otherwise:
        run(context, second)
    context.pointers = context.joined([end, context.pointers])
    for made in split(test, tuple(then), tuple(otherwise), where):
        context.emit(made)


def split(
    test: Expr, then: tuple[Statement, ...], otherwise: tuple[Statement, ...], where: Position
) -> list[Statement]:
    """An if; where && guards its right side, an if in an if."""
    if not then and not otherwise:
        return []
    if not then:
        test, then, otherwise = negation(test), otherwise, ()
    if isinstance(test, Apply) and test.operator == "select":
        left, a, b = test.arguments
        if isinstance(b, Constant) and not b.value and small(otherwise):
            return split(left, tuple(split(a, then, otherwise, where)), otherwise, where)
        if isinstance(a, Constant) and a.value and small(then):
            return split(left, then, tuple(split(b, then, otherwise, where)), where)
    return [If(test, then, otherwise, where)]


def small(statements: tuple[Statement, ...]) -> bool:
    """Whether statements may stand twice."""
    return len(statements) <= COPIES and not any(isinstance(s, Loop | If | Declare) for s in statements)


def switch(context: Context, cursor: Cursor, follow: list[Cursor]) -> None:
    """switch over constants, every group ended by break, return or continue: a chain of ifs."""
    selector, inside = children(cursor)
    where = position(cursor)
    with context.full_expression():
        chosen = value(context, selector)
        if not isinstance(chosen, Constant):
            chosen = context.declare("selected", chosen.type, chosen, where)
    groups = grouped(inside)
    default = [group for labels, group in groups if is_default(labels)]
    others = [pair for pair in groups if not is_default(pair[0])]
    chain(context, chosen, others, (default or [[]])[0], follow, where)


Group: TypeAlias = tuple[list[Cursor | None], list[Cursor]]


def is_default(labels: list[Cursor | None]) -> bool:
    return any(label is None for label in labels)


def chain(
    context: Context,
    chosen: Expr,
    groups: list[Group],
    default: list[Cursor],
    follow: list[Cursor],
    where: Position,
) -> None:
    """if (chosen == first label) ... else the rest."""
    if not groups:
        return run(context, default + follow)
    labels, group = groups[0]
    tests = [
        Apply("eq", (chosen, cast(value(context, label), chosen.type)), BOOL, position(label))
        for label in labels
    ]
    test: Expr = tests[0]
    for other in tests[1:]:
        test = Apply("or", (test, other), BOOL, where)
    start = dict(context.pointers)
    with context.block() as then:
        run(context, group + follow)
    end, context.pointers = context.pointers, dict(start)
    with context.block() as otherwise:
        chain(context, chosen, groups[1:], default, follow, where)
    context.pointers = context.joined([end, context.pointers])
    for made in split(test, tuple(then), tuple(otherwise), where):
        context.emit(made)
    return None


def grouped(inside: Cursor) -> list[Group]:
    """The labels (None: default) and statements of every group of a switch, without the final break."""
    groups: list[Group] = []
    ended = True
    for cursor in children(inside) if kind(inside) == "COMPOUND_STMT" else [inside]:
        labels: list[Cursor | None] = []
        where = position(cursor)
        while kind(cursor) in ("CASE_STMT", "DEFAULT_STMT"):
            parts = children(cursor)
            if len(parts) > 2:
                raise Refusal("a range of cases: list them", position(cursor))
            labels.append(parts[0] if kind(cursor) == "CASE_STMT" else None)
            cursor = parts[-1]
        if labels and not ended:
            raise Refusal("a case falls through into the next: end it with break", where)
        if labels:
            groups.append((labels, []))
        if not groups:
            raise Refusal("a statement before the first case: remove it", position(cursor))
        ended = ends(cursor)
        parts = children(cursor) if kind(cursor) == "COMPOUND_STMT" else [cursor]
        groups[-1][1].extend(part for part in parts if kind(part) != "BREAK_STMT")
    return groups


def ends(cursor: Cursor) -> bool:
    """Whether a statement ends a group of a switch."""
    if kind(cursor) == "COMPOUND_STMT" and children(cursor):
        return ends(children(cursor)[-1])
    return kind(cursor) in ("BREAK_STMT", "RETURN_STMT", "CONTINUE_STMT")


# Functions.


def function_body(context: Context, frame: Frame, name: str) -> Value:
    """Lower a function's statements; the value it returns, None where it returns none."""
    statements, found = children(body(frame.function)), returns(frame.function)
    result = frame.function.result_type
    frame.type = scalar(result)
    last = bool(statements) and kind(statements[-1]) == "RETURN_STMT" and len(found) == 1
    if isinstance(frame.type, Scalar) and found and not last:
        variable = context.declare(f"{name}_result", frame.type, None, position(found[0]))
        frame.result = variable.name
    void = result.get_canonical().kind.name == "VOID"
    if frame.type is None and not void and vector_element(result) is None and not is_pointer(result):
        raise Refusal(unsupported(result, f"the result of {name}"), position(frame.function))
    run(context, statements)
    if frame.result is not None:
        assert isinstance(frame.type, Scalar)
        return Variable(frame.result, frame.type, position(found[-1]))
    values = frame.returned
    if not void and not values:
        raise Refusal(f"{name} ends without a return", position(frame.function))
    if any(other != values[0] for other in values[1:]):
        raise Refusal(
            f"{name} returns one of several arrays: return the same in all places", position(found[-1])
        )
    return values[0] if values else None


def leave(context: Context, cursor: Cursor) -> None:
    """return, return x."""
    frame, where = context.frame, position(cursor)
    if frame.loops:
        reason = "returns from inside a loop: the other iterations would not happen"
        raise Refusal(f"{reason}; keep the result in a variable and return it after the loop", where)
    if not children(cursor):
        return
    given = children(cursor)[0]
    with context.full_expression():
        if isinstance(frame.type, Scalar):
            found = cast(value(context, given), frame.type, where)
            if frame.result is not None:
                context.emit(Assign(frame.result, found, where))
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
        frame.returned.append(unplaced_value(found_value))


def returned_vector(context: Context, cursor: Cursor) -> Region:
    from tensmith.lifting.source.c_vectors import declare_vector, unwrapped

    inner = unwrapped(cursor)
    if kind(inner) == "DECL_REF_EXPR":
        found = evaluate(context, inner)
        if isinstance(found, Region) and not found.indices:
            return found
    return declare_vector(context, cursor, cursor, "result")


def unplaced_value(found: Value) -> Value:
    """A returned array, equal to itself wherever the return stands."""
    return Region(found.array) if isinstance(found, Address) and found.array and zero(found) else found


def zero(found: Address) -> bool:
    return all(isinstance(index, Constant) and index.value == 0 for index in found.indices)
