"""Loops that look for something and do no more: here they go through all iterations and remember the first.

for (i = a; i < n; i++)         ended = false; first = the greatest number
    if (test) { S; break; }     for (i = a; i < n; i++)
                                    if (test) { ended = true; first = min(first, i) }
                                if (ended) { i = first; S }

So does `while (i < n && !test) i++`. The test is then met in iterations that C would not reach: what it reads
there has to be defined.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from tensmith.formula.expr import Call, Expr, Num, Read, SourcePosition, is_cast
from tensmith.formula.types import BOOL
from tensmith.lifting import loops
from tensmith.lifting.refusal import Refusal
from tensmith.lifting.source.c.arithmetic import integer
from tensmith.lifting.source.c.context import LoweringContext
from tensmith.lifting.source.c.cursor import Cursor, children, is_expression, kind, position
from tensmith.lifting.source.c.evaluate import condition
from tensmith.lifting.source.c.statements import BREAK, LOOPS, LoopExit, run, split


@dataclass(frozen=True)
class EarlyExit:
    """`if (test) { statements; break; }` behind nothing but `declared` locals. A return is among the
    statements. rest: of an iteration that goes on; path: the if, the braces and the break."""

    declared: list[Cursor]
    test: Cursor
    statements: list[Cursor]
    rest: list[Cursor]
    path: list[Cursor]


def early_exit(statements: list[Cursor]) -> EarlyExit | None:
    """Of a loop whose body this is; None where it does not begin so."""
    count = next((n for n, each in enumerate(statements) if kind(each) != "DECL_STMT"), len(statements))
    declared, rest = statements[:count], statements[count + 1 :]
    parts = children(statements[count]) if kind_at(statements, count) == "IF_STMT" else []
    if len(parts) != 2 or not is_expression(parts[0]):
        return None
    path, inside = [statements[count]], [parts[1]]
    while len(inside) == 1 and kind(inside[0]) == "COMPOUND_STMT":
        path, inside = [*path, inside[0]], children(inside[0])
    if any(map(continues, inside)):
        return None
    last = kind_at(inside, len(inside) - 1)
    if last == "BREAK_STMT":
        return EarlyExit(declared, parts[0], inside[:-1], rest, [*path, inside[-1]])
    return EarlyExit(declared, parts[0], inside, rest, path) if last == "RETURN_STMT" else None


def continues(cursor: Cursor) -> bool:
    """Whether a statement may continue the loop around it."""
    name = kind(cursor)
    if name == "CONTINUE_STMT" or name in LOOPS or is_expression(cursor):
        return name == "CONTINUE_STMT"
    return any(map(continues, children(cursor)))


def kind_at(statements: list[Cursor], place: int) -> str:
    """The kind of one of them; "" where there is none."""
    return kind(statements[place]) if 0 <= place < len(statements) else ""


def stopping(context: LoweringContext, leaving: EarlyExit) -> Expr:
    """The test of an exit, behind what is declared for it; Refusal where it has effects."""
    run(context, leaving.declared)
    emitted, where = len(context.out), position(leaving.test)
    stop, after = tested(context, leaving.test, where)
    if after or len(context.out) > emitted:
        raise Refusal(BREAK, where)
    context.see(*leaving.path)
    return stop


def tested(
    context: LoweringContext, test: Cursor | None, where: SourcePosition
) -> tuple[Expr, list[loops.Statement]]:
    """A condition, and the effects of its i++ that follow its value."""
    if test is None:
        return Num(True, BOOL, where), []
    with context.apart():
        found = condition(context, test)
        with context.block() as after:
            context.sequence_point()
    return found, after


def depends_on_data(test: object) -> bool:
    """Whether elements of arrays are read."""
    return any(isinstance(part, loops.Load) for part in loops.nodes(test))


def bounded(go: Expr) -> tuple[Expr, Expr | None]:
    """`i < n && rest` in two, where the rest depends on data; any other condition, and None."""
    first, *others = both(go)
    if not depends_on_data(others):
        return go, None
    rest = others[-1]
    for other in reversed(others[:-1]):
        rest = Call("where", (other, rest, Num(False, BOOL)), BOOL, other.position)
    return first, rest


def both(test: Expr) -> Iterator[Expr]:
    """What && joins, in order."""
    match test:
        case Call("and", (left, right)) | Call("where", (left, right, Num(False))):
            yield from both(left)
            yield from both(right)
        case _:
            yield test


def search(
    context: LoweringContext,
    label: tuple[str, SourcePosition],
    go: Expr,
    head: Callable[[], Expr],
    move: Callable[[], None],
    ending: list[Cursor],
) -> LoopExit:
    """The loop through all iterations; Refusal where it does more than look, or its counter is not plain.

    go: its condition. head: declares what the test needs, and gives it. move: to the next. ending: what is
    done where it ended early.
    """
    (name, where), pointers = label, dict(context.pointers)
    context.frame.loops += 1
    with context.block() as looking:
        stop = head()
    with context.block() as moves:
        move()
    context.frame.loops -= 1
    counter, sign = counted(moves)
    inner = frozenset(made.name for made in looking if isinstance(made, loops.Declare))
    if counter is None and narrow(moves):
        reason = "a loop that ends early has a counter that is narrower than int"
        raise Refusal(f"{reason}: let the counter be an int", where)
    if counter is None or len(inner) < len(looking) or context.pointers != pointers:
        raise Refusal(BREAK, where)
    if not (counter.type.signed or bounds(go, counter, sign)):
        reason = "the unsigned counter of a loop that ends early may begin again at the other end"
        raise Refusal(f"{reason}: compare it with < or >", where)
    ended = context.declare("ended", BOOL, Num(False, BOOL, where), where)
    assert counter.type.limits is not None
    last = integer(counter.type.limits[sign > 0], where, counter.type)
    first = context.declare(f"first_{counter.tensor}", counter.type, last, where)
    nearer = Call("minimum" if sign > 0 else "maximum", (first, counter), counter.type, where)
    found = (
        loops.Assign(ended.tensor, Num(True, BOOL, where), where),
        loops.Assign(first.tensor, nearer, where),
    )
    body = (*looking, *split(stop, found, (), where), *moves)
    context.emit(loops.Loop(go, body, context.label(name, where), where))
    return LoopExit(ended, loops.Assign(counter.tensor, first, where), inner, ending)


def counted(moves: list[loops.Statement]) -> tuple[Read | None, int]:
    """The counter where counting is all that is done, and the sign of its step."""
    match moves:
        case [loops.Assign(name, value)]:
            # What is unsigned wraps.
            added = value.args[0] if is_cast(value) else value
            match added:
                case Call("add" | "sub" as way, (Read(own) as counter, Num(size))) if (
                    own == name and size and counter.type == added.type == value.type and added.type.limits
                ):
                    return counter, 1 if (size > 0) == (way == "add") else -1
    return None, 0


def narrow(moves: list[loops.Statement]) -> bool:
    """Whether all that is done is to step a counter that C computes with as an int."""
    match moves:
        case [loops.Assign(name, Call("cast", (Call("add" | "sub", (Call("cast", (Read(own),)), Num())),)))]:
            return own == name
    return False


def bounds(go: Expr, counter: Read, sign: int) -> bool:
    """Whether a condition bounds the counter on the side that it goes to."""
    match go:
        case Call("less" | "less_equal", (left, right)):
            return (left if sign > 0 else right) == counter
    return False
