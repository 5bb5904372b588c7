"""What loops and comprehensions run over: range, lists, slices, zip, enumerate and reversed, as one counted
loop."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import TypeAlias

from tensmith.formula.expr import Call, Expr, Num, Read, SourcePosition, variable
from tensmith.formula.types import BOOL, INT
from tensmith.lifting import assumptions, loops
from tensmith.lifting.refusal import Refusal
from tensmith.lifting.source.extremes import parts
from tensmith.lifting.source.python.arithmetic import (
    binary,
    constant,
    convert,
    counts_back,
    floor_divide,
    negate,
)
from tensmith.lifting.source.python.kinds import PY_INT, ArrayKind, NumberKind
from tensmith.lifting.source.python.liveness import Names
from tensmith.lifting.source.python.module import place
from tensmith.lifting.source.python.names import check_arguments
from tensmith.lifting.source.python.scope import (
    ArrayRef,
    Local,
    PythonScope,
    ScalarValue,
    Value,
    array,
    integer,
    value,
)

Item: TypeAlias = "Value | tuple[Item, ...]"
_MOST_ITEMS = 16  # of a display that is run over


@dataclass(frozen=True)
class CountedLoop:
    """counter = start; while counter < stop (> for negative steps): item(counter); counter += step.

    arrays: the lists run over, which must keep their length. ranged: the number of iterations is no length.
    cut: how many items fewer than elements the first of the arrays has; None where that is no constant. open:
    an item behind the last would lie outside of its array. kept: lists that Python copies before it runs over
    them.
    """

    start: ScalarValue
    stop: ScalarValue
    step: int
    item: Callable[[Expr, SourcePosition], Item]
    arrays: tuple[ArrayRef, ...] = ()
    ranged: bool = False
    cut: int | None = None
    open: bool = False
    kept: tuple[str, ...] = ()


def iteration(scope: PythonScope, node: ast.expr) -> CountedLoop:
    """The iteration over an expression; its bounds are evaluated now, once."""
    where = place(node)
    if isinstance(node, ast.Call):
        called = scope.callee(node.func)
        if called is not None and called in _SOURCES:
            scope.visit(node)
            check_arguments(scope, node, called)
            return _SOURCES[called](scope, node)
    if isinstance(node, ast.Subscript) and isinstance(node.slice, ast.Slice):
        scope.visit(node)
        return sliced(scope, array(scope, node.value), node.slice)
    whole = array(scope, node)
    return CountedLoop(
        constant(0, where),
        scope.hold("stop", scope.length(whole, 0, where), where),
        1,
        lambda counter, position: scope.load(whole, counter, position),
        (whole,),
        cut=0,
        open=True,
    )


def sliced(scope: PythonScope, whole: ArrayRef, node: ast.Slice) -> CountedLoop:
    """The iteration over a slice: over the range of its subscripts, each of which is read. So what Python
    leaves out where the list is too short is asked to be there."""
    where = place(node)
    scope.visit(node)
    step = integer(scope, node.step) if node.step else Num(1, INT, where)
    if not isinstance(step, Num) or step.value == 0:
        raise Refusal(
            "the step of a slice must be a literal that is not 0; write the loop for one step", where
        )
    if step.value < 0 and (node.lower or node.upper):
        raise Refusal("a slice with bounds runs backwards; loop over range(start, stop, step)", where)
    length = scope.length(whole, 0, where)
    start, stop = constant(0, where), length
    if step.value < 0:
        start, stop = binary("sub", length, constant(1, where), where), constant(-1, where)
    first: int | None = 0
    end: int | None = 0  # as far from the list's own
    if node.lower:
        start, first = _bound(scope, node.lower, length, read=True)
    if node.upper:
        stop, end = _bound(scope, node.upper, length, read=False)
        end = end if end is not None and end < 0 else None
    cut = None if first is None or first < 0 or end is None or step.value != 1 else first - end

    def item(counter: Expr, position: SourcePosition) -> Item:
        found = scope.load(whole, counter, position)
        if isinstance(found, ArrayRef):
            scope.touch(found, position)
        return found

    return CountedLoop(
        scope.hold("start", start, where),
        scope.hold("stop", stop, where),
        int(step.value),
        item,
        (whole,),
        cut=cut,
        open=node.upper is None,
        kept=(whole.name,) if whole.kind.rank == 1 and not whole.kind.numpy else (),
    )


def _bound(
    scope: PythonScope, node: ast.expr, length: ScalarValue, read: bool
) -> tuple[ScalarValue, int | None]:
    """A bound of a slice as a subscript from 0, and its value where it is a literal. Others count from the
    end where they do by their form, as subscripts do. That they do, or do not, is asked of them, but where an
    element is read at a bound below 0."""
    where, bound = place(node), ScalarValue(integer(scope, node), PY_INT)
    back = counts_back(bound.expr)
    value = int(bound.expr.value) if isinstance(bound.expr, Num) else None
    if back and value is None:
        at_least_0(scope, binary("sub", negate(bound, where), constant(1, where), where), where)
    elif value is None and not read:
        at_least_0(scope, bound, where)
    return binary("add", length, bound, where) if back else bound, value


def at_least_0(scope: PythonScope, number: ScalarValue, where: SourcePosition) -> None:
    """Asks that an integer is not negative: that a list one longer has an element of this number."""
    for part in parts(number.expr, "minimum"):
        one = ScalarValue(part, number.kind)
        if not any(isinstance(each, Num) and each.value >= 0 for each in parts(part, "maximum")):
            _has_element(scope, one, where)


def _has_element(scope: PythonScope, number: ScalarValue, where: SourcePosition) -> None:
    number = scope.hold("count", number, where)
    longer = binary("add", number, constant(1, where), where).expr
    marks = scope.allocate("marks", ArrayKind(PY_INT, 1), (longer,), Num(0, INT, where), where)
    scope.touch(scope.load(marks, number.expr, where), where)


def _range(scope: PythonScope, node: ast.Call) -> CountedLoop:
    where = place(node)
    if not 1 <= len(node.args) <= 3:
        raise Refusal("range takes one to three bounds; write range(start, stop, step)", where)
    bounds = [ScalarValue(integer(scope, bound), PY_INT) for bound in node.args]
    step = bounds[2].expr if len(bounds) == 3 else Num(1, INT, where)
    if not isinstance(step, Num) or step.value == 0:
        raise Refusal(
            "the step of a range must be a literal that is not 0; write the loop for one step", where
        )
    start, stop = (bounds[0], bounds[1]) if len(bounds) > 1 else (constant(0, where), bounds[0])
    return CountedLoop(
        start,
        scope.hold("stop", stop, where),
        int(step.value),
        lambda counter, _: ScalarValue(counter, PY_INT),
        ranged=True,
    )


def _normal(scope: PythonScope, source: CountedLoop, where: SourcePosition) -> CountedLoop:
    """The same iteration with a counter 0, 1, 2, ..."""
    if source.start.expr == constant(0, where).expr and source.step == 1:
        return source
    start = scope.hold("start", source.start, where)
    up = source.step > 0
    low, high = (start, source.stop) if up else (source.stop, start)
    span = binary("sub", high, low, where)
    size = abs(source.step)
    if size > 1:
        span = floor_divide(
            binary("add", span, constant(size - 1, where), where), constant(size, where), where
        )

    def item(counter: Expr, position: SourcePosition) -> Item:
        offset = binary("mul", ScalarValue(counter, PY_INT), constant(source.step, position), position)
        if source.step == 1:
            offset = ScalarValue(counter, PY_INT)
        return source.item(binary("add", start, offset, position).expr, position)

    return CountedLoop(
        constant(0, where),
        scope.hold("stop", span, where),
        1,
        item,
        source.arrays,
        source.ranged,
        source.cut,
        source.open,
        source.kept,
    )


def _enumerate(scope: PythonScope, node: ast.Call) -> CountedLoop:
    where = place(node)
    words = {word.arg: word.value for word in node.keywords}
    first = node.args[1] if len(node.args) > 1 else words.get("start")
    if not node.args or len(node.args) + len(words) > 2:
        raise Refusal("enumerate takes what to count and where to start; write enumerate(a, 1)", where)
    source = _normal(scope, iteration(scope, node.args[0]), where)
    start = (
        scope.hold("start", ScalarValue(integer(scope, first), PY_INT), where) if first is not None else None
    )

    def item(counter: Expr, position: SourcePosition) -> Item:
        count = ScalarValue(counter, PY_INT)
        if start is not None:
            count = binary("add", start, count, position)
        return (count, source.item(counter, position))

    return replace(source, item=item)


def _zip(scope: PythonScope, node: ast.Call) -> CountedLoop:
    """zip ends with its shortest part. The loop runs as far as its first part (a range, if there is one; else
    the shortest slice of that list) and reads all others there, so that a shorter one is met by the guard on
    its length."""
    where = place(node)
    parts = [_normal(scope, iteration(scope, part), where) for part in node.args]
    if not parts:
        raise Refusal("zip needs what to run over; write zip(a, b)", where)
    ranges = [part for part in parts if part.ranged]
    if any(part.stop.expr != ranges[0].stop.expr for part in ranges[1:]):
        raise Refusal("zip over different ranges ends with the shorter; use one range", where)
    leader = (
        ranges[0] if ranges else max((p for p in parts if _beside(p, parts[0])), key=_cut, default=parts[0])
    )
    for part in parts:
        if not (part.ranged or part.open or (_beside(part, leader) and _cut(part) <= _cut(leader))):
            at_least_0(scope, binary("sub", part.stop, leader.stop, where), where)
    arrays = tuple(whole for part in parts for whole in part.arrays)

    def item(counter: Expr, position: SourcePosition) -> Item:
        found = tuple(part.item(counter, position) for part in parts)
        for part, whole in zip(parts, found):
            if part is not leader and isinstance(whole, ArrayRef):
                scope.touch(whole, position)
        return found

    kept = tuple(name for part in parts for name in part.kept)
    return replace(leader, item=item, arrays=arrays, ranged=bool(ranges), kept=kept)


def _beside(part: CountedLoop, other: CountedLoop) -> bool:
    """Whether both are as long as one list without some of its elements."""
    known = part.cut is not None and other.cut is not None and not part.ranged and not other.ranged
    return known and part.arrays[0] == other.arrays[0]


def _cut(part: CountedLoop) -> int:
    return part.cut or 0


def _reversed(scope: PythonScope, node: ast.Call) -> CountedLoop:
    where = place(node)
    if len(node.args) != 1:
        raise Refusal("reversed takes one list or range; write reversed(a)", where)
    source = iteration(scope, node.args[0])
    one = constant(1, where)
    if source.ranged and abs(source.step) == 1 and not source.arrays:
        by = constant(source.step, where)
        start = binary("sub", source.stop, by, where)
        stop = binary("sub", source.start, by, where)
        return CountedLoop(start, scope.hold("stop", stop, where), -source.step, source.item, ranged=True)
    normal = _normal(scope, source, where)
    last = scope.hold("last", binary("sub", normal.stop, one, where), where)

    def item(counter: Expr, position: SourcePosition) -> Item:
        return normal.item(binary("sub", last, ScalarValue(counter, PY_INT), position).expr, position)

    return replace(normal, item=item, open=normal.cut == 0)


_SOURCES: dict[str | None, Callable[[PythonScope, ast.Call], CountedLoop]] = {
    "range": _range,
    "enumerate": _enumerate,
    "zip": _zip,
    "reversed": _reversed,
}


def written_out(scope: PythonScope, node: ast.expr) -> list[Item]:
    """The items of a short list or tuple that is displayed where it is run over, of one that is numbered, and
    of several that are zipped; none of what else is."""
    match node:
        case ast.Tuple(elts=parts) | ast.List(elts=parts) if len(parts) <= _MOST_ITEMS:
            scope.visit(node)
            return [_displayed(scope, part) for part in parts]
        case ast.Call(ast.Name("enumerate" | "zip" as name), [_, *_] as given, []) if (
            all(isinstance(part, ast.Tuple | ast.List) for part in given) and scope.callee(node.func) == name
        ):
            if name == "enumerate" and len(given) == 1:
                scope.visit(node)
                items = written_out(scope, given[0])
                return [(constant(n, place(node)), item) for n, item in enumerate(items)]
            if name == "zip":
                scope.visit(node)
                return list(zip(*(written_out(scope, part) for part in given)))
    return []


def _displayed(scope: PythonScope, node: ast.expr) -> Item:
    """An expression as an item, of which nothing changes what it is."""
    if isinstance(node, ast.Tuple):
        scope.visit(node)
        return tuple(_displayed(scope, part) for part in node.elts)
    found = value(scope, node)
    return scope.hold("item", found, place(node)) if isinstance(found, ScalarValue) else found


@contextmanager
def counted(
    scope: PythonScope,
    source: CountedLoop,
    name: str,
    where: SourcePosition,
    carried: Names | None = None,
) -> Iterator[Item]:
    """A loop over an iteration; its body is what is emitted inside. Yields the item of an iteration."""
    counter = scope.declare(name, source.start, where)
    scope.steady.add(counter.name)  # nothing else assigns it
    here = variable(counter.name, INT, where)
    sides, way = ((here, source.stop.expr), "add") if source.step > 0 else ((source.stop.expr, here), "sub")
    with scope.block(carried) as inside:
        yield source.item(here, where)
        following = Call(way, (here, Num(abs(source.step), INT, where)), INT, where)
        scope.emit(loops.Assign(counter.name, following, where))
    for name in sorted(loops.writes(tuple(inside)) & set(source.kept)):
        raise Refusal(
            f"{name} is written while a slice of it is run over; take the slice on a line before", where
        )
    test, label = Call("less", sides, BOOL, where), scope.label(counter.name, where)
    scope.emit(loops.Loop(test, tuple(inside), label, where))


def bind(scope: PythonScope, target: ast.expr, item: Item, own: bool = False) -> None:
    """Gives the names of a loop's target their items; `own`: the names are a comprehension's."""
    where = place(target)
    scope.visit(target)
    if isinstance(target, ast.Tuple | ast.List):
        if isinstance(item, ArrayRef) and len(target.elts) <= 8:
            parts: tuple[Item, ...] = tuple(
                scope.load(item, Num(n, INT, where), where) for n in range(len(target.elts))
            )
            scope.note(assumptions.PARTS(item.name, len(parts)))
        elif isinstance(item, tuple):
            parts = item
        else:
            raise Refusal("a number is taken apart; name it by one variable", where)
        if len(parts) != len(target.elts):
            raise Refusal(f"{len(parts)} items are given to {len(target.elts)} names; use as many", where)
        for inner, part in zip(target.elts, parts):
            bind(scope, inner, part, own)
        return
    if not isinstance(target, ast.Name):
        raise Refusal("a loop's variable must be a name; assign the element inside the loop", where)
    if isinstance(item, tuple):
        raise Refusal("a tuple is kept in a variable; name its parts", where)
    if own:
        held = scope.hold(target.id, item, where) if isinstance(item, ScalarValue) else item
        scope.frame.names[target.id] = held
    else:
        assign_name(scope, target.id, item, where, kept=True)


def assign_name(
    scope: PythonScope, name: str, given: Value, where: SourcePosition, kept: bool = False
) -> None:
    """name = given. A new variable unless readers outside this block wait for the old one; `kept`: nothing
    needs declaring where the value is a variable that keeps it."""
    frame = scope.frame
    if isinstance(given, ArrayRef):
        if name in frame.carried and frame.names.get(name) != given:
            raise Refusal(
                f"{name} stands for another list after this branch or loop; keep to one list, or copy",
                where,
            )
        scope.check_kept(given, where)
        if not kept:
            scope.touch(given, where)
        frame.names[name] = given
        return
    kind = frame.code.types.variables.get(name)
    if not isinstance(kind, NumberKind):
        kind = given.kind
    if name in frame.carried:
        local = frame.names.get(name)
        if not isinstance(local, Local):
            raise Refusal(f"{name} is a list here and a number there; use two names", where)
        scope.emit(loops.Assign(local.name, convert(given, local.kind, where), where))
        return
    if kept and given.kind == kind and isinstance(given.expr, Read) and scope.is_steady(given.expr):
        frame.names[name] = given
        return
    local = scope.variable(name, kind, convert(given, kind, where), where)
    if name in frame.code.once:
        scope.steady.add(local.name)
    frame.names[name] = local
