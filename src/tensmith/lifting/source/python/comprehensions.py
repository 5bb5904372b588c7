"""Values that need a loop: list displays, comprehensions, sums, extremes, copies, filled arrays."""

from __future__ import annotations

import ast
from collections.abc import Callable, Sequence
from functools import partial

from tensmith.formula.expr import Expr, Num, SourcePosition
from tensmith.formula.types import INT
from tensmith.lifting import assumptions
from tensmith.lifting.loops import Assign, If
from tensmith.lifting.refusal import Refusal
from tensmith.lifting.source.python import arithmetic
from tensmith.lifting.source.python import scope as python_scope
from tensmith.lifting.source.python.iteration import (
    CountedLoop,
    Item,
    at_least_0,
    bind,
    counted,
    iteration,
    sliced,
    written_out,
)
from tensmith.lifting.source.python.kinds import ArrayKind, NumberKind
from tensmith.lifting.source.python.liveness import reads, targets
from tensmith.lifting.source.python.module import place

WHOLE_ARRAYS = "arrays are combined as wholes; write the loop over their elements"


def array_kind(scope: python_scope.PythonScope, node: ast.expr) -> ArrayKind:
    """The inferred kind of an expression that makes an array."""
    kind = scope.frame.code.types.expressions.get(id(node))
    if not isinstance(kind, ArrayKind):
        raise Refusal("a list stands where a number is needed; take an element, or write a loop", place(node))
    return kind


def element_value(given: python_scope.ScalarValue, kind: ArrayKind, node: ast.AST) -> Expr:
    """The number as an element: lists take what they get, NumPy arrays convert."""
    if kind.numpy:
        return arithmetic.to_kind(given, kind.element, place(node)).expr
    return arithmetic.convert(given, kind.element, place(node))


# Displays and fills.


@python_scope.lowers(ast.List)
def _display(scope: python_scope.PythonScope, node: ast.List) -> python_scope.Value:
    where = place(node)
    kind = array_kind(scope, node)
    if not node.elts:
        return scope.allocate(scope.take_hint("list"), kind, (), None, where)
    name = scope.take_hint("list")
    values = [python_scope.value(scope, part) for part in node.elts]
    if kind.rank == 1 and _grows(scope, name):
        made = scope.allocate(name, kind, (), None, where)
        for part in values:
            assert isinstance(part, python_scope.ScalarValue)
            scope.append(made, element_value(part, kind, node), where)
        return made
    if kind.rank == 1:
        nothing = arithmetic.cast(Num(0, INT, where), kind.element.scalar, where)
        made = scope.allocate(name, kind, (Num(len(values), INT, where),), nothing, where)
        for n, part in enumerate(values):
            assert isinstance(part, python_scope.ScalarValue)
            scope.store(made, Num(n, INT, where), element_value(part, kind, node), where)
        return made
    made = scope.allocate(name, kind, (), None, where)
    for part in values:
        assert isinstance(part, python_scope.ArrayRef)
        append_row(scope, made, part, node)
    return made


def _grows(scope: python_scope.PythonScope, name: str) -> bool:
    """Whether the function appends to what it calls so."""
    for node in (inner for statement in scope.frame.code.body for inner in ast.walk(statement)):
        match node:
            case ast.Attribute(ast.Name(grown), "append") | ast.AugAssign(ast.Name(grown)) if grown == name:
                return True
    return False


def append(
    scope: python_scope.PythonScope,
    whole: python_scope.ArrayRef,
    parts: Sequence[ast.expr],
    where: SourcePosition,
) -> None:
    """Appends what expressions give, all of which are computed before."""
    made = []
    for part in parts:
        scope.hint = "row"
        found = python_scope.value(scope, part)
        scope.hint = ""
        if isinstance(found, python_scope.ScalarValue) and len(parts) > 1:
            found = scope.hold("item", found, where)
        made.append(found)
    for part, found in zip(parts, made):
        if isinstance(found, python_scope.ArrayRef):
            append_row(scope, whole, found, part)
        else:
            scope.append(whole, element_value(found, whole.kind, part), where)


def append_row(
    scope: python_scope.PythonScope, whole: python_scope.ArrayRef, row: python_scope.ArrayRef, node: ast.AST
) -> None:
    """Appends a list that was made for it."""
    if row.prefix or row.name not in scope.home:
        raise Refusal(
            "a row of another list is appended and would be shared by both; append a copy, row[:]",
            place(node),
        )
    scope.append(whole, row.name, place(node))


def fill(
    scope: python_scope.PythonScope, node: ast.expr
) -> tuple[list[Expr], python_scope.ScalarValue] | None:
    """Extents and fill of [c] * n, [c for _ in range(n)], [[c] * m for _ in range(n)]; None for others."""
    match node:
        case ast.BinOp(ast.List(elts=[inner]) as whole, ast.Mult(), count) | ast.BinOp(
            count, ast.Mult(), ast.List(elts=[inner]) as whole
        ):
            held = scope.frame.code.types.expressions.get(id(inner))
            if isinstance(held, ArrayKind):
                raise Refusal(
                    "the rows of this list are one list; write [[c] * m for _ in range(n)]", place(node)
                )
            scope.visit(node, whole)
            return [python_scope.integer(scope, count)], python_scope.number(scope, inner)
        case ast.ListComp(
            element, [ast.comprehension(target, ast.Call(args=[count], keywords=[]) as source, [], 0)]
        ) if scope.callee(source.func) == "range" and not reads(element) & targets(target):
            if isinstance(element, ast.Constant):
                scope.visit(node, source, target)
                return [python_scope.integer(scope, count)], python_scope.number(scope, element)
            inside = fill(scope, element)
            if inside is not None:
                scope.visit(node, source, target)
                return [python_scope.integer(scope, count), *inside[0]], inside[1]
    return None


def filled(scope: python_scope.PythonScope, node: ast.expr, name: str = "") -> python_scope.ArrayRef | None:
    """An array that one value fills, if the expression makes one."""
    found = fill(scope, node)
    if found is None:
        return None
    extents, content = found
    kind = array_kind(scope, node)
    name = name or scope.take_hint("list")
    return scope.allocate(name, kind, extents, element_value(content, kind, node), place(node))


@python_scope.lowers(ast.ListComp)
def _comprehension(scope: python_scope.PythonScope, node: ast.ListComp) -> python_scope.Value:
    where = place(node)
    kind = array_kind(scope, node)
    name = scope.take_hint("list")
    made = filled(scope, node, name)
    if made is not None:
        return made
    made = scope.allocate(name, kind, (), None, where)

    clauses(scope, node.generators, lambda: append(scope, made, [node.elt], where))
    return made


def clauses(
    scope: python_scope.PythonScope,
    generators: Sequence[ast.comprehension],
    body: Callable[[], None],
    folded: bool = False,
) -> None:
    """The loops of a comprehension around its body. folded: into one number, so that a filter may skip."""
    first, rest = generators[0], generators[1:]
    if first.ifs and not folded:
        raise Refusal(
            "a filter makes the length depend on the data; keep all elements and choose values by an if",
            place(first.ifs[0]),
        )
    inner = partial(clauses, scope, rest, body, folded) if rest else body
    if items := written_out(scope, first.iter):
        before = dict(scope.frame.names)
        for item in items:
            bind(scope, first.target, item, own=True)
            filtered(scope, first.ifs, inner)
        scope.frame.names = before
        return
    source = iteration(scope, first.iter)
    with counted(scope, source, counter_name(first.target, source), place(first.target), frozenset()) as item:
        bind(scope, first.target, item, own=True)
        filtered(scope, first.ifs, inner)


def filtered(scope: python_scope.PythonScope, tests: Sequence[ast.expr], body: Callable[[], None]) -> None:
    """The body, where all tests of a clause hold."""
    if not tests:
        return body()
    where = place(tests[0])
    condition = arithmetic.truth(python_scope.number(scope, tests[0]), where)
    with scope.block() as then:
        filtered(scope, tests[1:], body)
    return scope.emit(If(condition, tuple(then), (), where))


def counter_name(target: ast.expr, source: CountedLoop) -> str:
    """A loop's counter is named after the variable that is one."""
    if isinstance(target, ast.Name) and source.ranged:
        return target.id
    if isinstance(target, ast.Tuple) and isinstance(target.elts[0], ast.Name):
        return target.elts[0].id if source.ranged or not source.arrays else "i"
    return "i"


# Folds.


def total(
    scope: python_scope.PythonScope, node: ast.Call, source: ast.expr, start: python_scope.ScalarValue | None
) -> python_scope.ScalarValue:
    """sum(source, start)."""
    where = place(node)
    kind = scope.frame.code.types.expressions.get(id(node))
    first = start or arithmetic.constant(0, where)
    if not isinstance(kind, NumberKind):
        kind = first.kind
    first = python_scope.ScalarValue(arithmetic.convert(first, kind, where), kind)
    local = scope.declare("total", first, where)

    def add(element: python_scope.Value) -> None:
        grown = arithmetic.binary("add", local.at(where), _number(element, node), where)
        scope.emit(Assign(local.name, arithmetic.convert(grown, kind, where), where))

    each(scope, source, add)
    return local.at(where)


def all_or_any(
    scope: python_scope.PythonScope, node: ast.Call, source: ast.expr, every: bool
) -> python_scope.ScalarValue:
    """all(source), any(source): of every element, where Python stops at the first that decides."""
    where = place(node)
    local = scope.declare("all" if every else "any", arithmetic.constant(every, where), where)
    join = arithmetic.both if every else arithmetic.either

    def use(element: python_scope.Value) -> None:
        holds = arithmetic.truth(_number(element, node), where)
        scope.emit(Assign(local.name, join(local.at(where).expr, holds, where), where))

    each(scope, source, use)
    return local.at(where)


def each(
    scope: python_scope.PythonScope, source: ast.expr, use: Callable[[python_scope.Value], None]
) -> None:
    """Runs over the elements of a generator or of a list."""
    if isinstance(source, ast.GeneratorExp | ast.ListComp):
        scope.visit(source)
        clauses(scope, source.generators, lambda: use(python_scope.value(scope, source.elt)), folded=True)
        return
    run = iteration(scope, source)
    with counted(scope, run, "i", place(source), frozenset()) as item:
        use(_whole(item, source))


def _whole(item: Item, source: ast.expr) -> python_scope.Value:
    """An item that is no tuple."""
    if isinstance(item, tuple):
        raise Refusal(
            "tuples are added or compared as wholes; write the loop over their parts", place(source)
        )
    return item


def extreme(
    scope: python_scope.PythonScope, node: ast.Call, source: ast.expr, largest: bool
) -> python_scope.ScalarValue:
    """max(source), min(source): the first element, then every better one. An empty source is an error in
    Python, and the first element lies outside of it."""
    where = place(node)
    operator = "maximum" if largest else "minimum"
    generator = source if isinstance(source, ast.GeneratorExp | ast.ListComp) else None
    if generator is not None and (len(generator.generators) != 1 or generator.generators[0].ifs):
        raise Refusal("min and max are lifted over one range or list; write the loop", where)
    if generator is not None:
        scope.visit(generator)
    run = iteration(scope, generator.generators[0].iter if generator else source)
    if run.ranged:
        scope.note(assumptions.RANGE("max" if largest else "min", where))
    elif not run.open:  # the first element may be there, and not be run over
        span = arithmetic.binary("sub", run.stop, run.start, where)
        at_least_0(scope, arithmetic.binary("sub", span, arithmetic.constant(1, where), where), where)

    def element(counter: Expr) -> python_scope.ScalarValue:
        item = run.item(counter, where)
        if generator is None:
            return _number(_whole(item, source), node)
        bind(scope, generator.generators[0].target, item, own=True)
        return python_scope.number(scope, generator.elt)

    before = dict(scope.frame.names)
    best = scope.declare("best", element(run.start.expr), where)
    scope.frame.names = before
    step = arithmetic.constant(run.step, where)
    rest = CountedLoop(
        arithmetic.binary("add", run.start, step, where),
        run.stop,
        run.step,
        lambda c, _: python_scope.ScalarValue(c, run.start.kind),
    )
    with counted(scope, rest, "i", where, frozenset()) as counter:
        assert isinstance(counter, python_scope.ScalarValue)
        better = arithmetic.python_extreme(operator, best.at(where), element(counter.expr), where)
        scope.emit(Assign(best.name, arithmetic.convert(better, best.kind, where), where))
    return best.at(where)


def _number(element: object, node: ast.AST) -> python_scope.ScalarValue:
    if not isinstance(element, python_scope.ScalarValue):
        raise Refusal(
            "rows are added or compared as wholes; write the loops over their elements", place(node)
        )
    return element


# Copies.


def copy(
    scope: python_scope.PythonScope, source: python_scope.ArrayRef, name: str, kind: ArrayKind, node: ast.AST
) -> python_scope.ArrayRef:
    """A new array of the same elements, as elements of `kind`."""
    where = place(node)
    lengths = [scope.length(source, axis, where).expr for axis in range(source.kind.rank)]
    made = scope.allocate(name, kind, lengths, None, where)

    def rows(old: python_scope.ArrayRef, new: python_scope.ArrayRef, axis: int) -> None:
        stop = scope.hold("stop", scope.length(old, 0, where), where)
        run = CountedLoop(
            arithmetic.constant(0, where), stop, 1, lambda c, _: python_scope.ScalarValue(c, stop.kind)
        )
        with counted(scope, run, "ijk"[axis % 3], where, frozenset()) as counter:
            assert isinstance(counter, python_scope.ScalarValue)
            element = scope.load(old, counter.expr, where)
            if isinstance(element, python_scope.ArrayRef):
                rows(element, new.row(counter.expr), axis + 1)
            else:
                scope.store(new, counter.expr, element_value(element, kind, node), where)

    rows(source, made, 0)
    return made


def joined(
    scope: python_scope.PythonScope, parts: Sequence[python_scope.ArrayRef], node: ast.BinOp
) -> python_scope.ArrayRef:
    """a + b of lists: a new one."""
    where, kind = place(node), scope.frame.code.types.expressions.get(id(node))
    if not isinstance(kind, ArrayKind) or kind.rank > 1 or any(part.kind.numpy for part in parts):
        raise Refusal(WHOLE_ARRAYS, where)
    made = scope.allocate("list", kind, (), None, where)
    for part in parts:
        stop = scope.hold("stop", scope.length(part, 0, where), where)
        run = CountedLoop(arithmetic.constant(0, where), stop, 1, partial(scope.load, part))
        _extend(scope, made, run, kind, node)
    return made


def _extend(
    scope: python_scope.PythonScope,
    made: python_scope.ArrayRef,
    run: CountedLoop,
    kind: ArrayKind,
    node: ast.expr,
) -> None:
    """Appends all that a loop goes through to a list."""
    where = place(node)
    with counted(scope, run, "i", where, frozenset()) as item:
        assert isinstance(item, python_scope.ScalarValue)
        scope.append(made, element_value(item, kind, node), where)


def shape_of(scope: python_scope.PythonScope, node: ast.expr) -> list[Expr]:
    """The extents in np.zeros(shape)."""
    if isinstance(node, ast.Tuple | ast.List):
        scope.visit(node)
        return [python_scope.integer(scope, part) for part in node.elts]
    if isinstance(node, ast.Attribute) and node.attr == "shape":
        scope.visit(node)
        whole = python_scope.array(scope, node.value)
        return [scope.length(whole, axis, place(node)).expr for axis in range(whole.kind.rank)]
    return [python_scope.integer(scope, node)]


def shallow_copy(
    scope: python_scope.PythonScope,
    source: python_scope.ArrayRef,
    name: str,
    kind: ArrayKind,
    node: ast.AST,
    shallow: bool,
) -> python_scope.ArrayRef:
    if shallow and source.kind.rank > 1:
        raise Refusal(
            "this copy shares its rows with the original; copy each: [row[:] for row in a]", place(node)
        )
    return copy(scope, source, name, kind, node)


def row_copy(scope: python_scope.PythonScope, node: ast.Subscript, part: ast.Slice) -> python_scope.Value:
    """a[:] and a[i:j] of a list are copies."""
    where, name = place(node), scope.take_hint("row")
    source = python_scope.array(scope, node.value)
    if source.kind.numpy:
        what = f"{ast.unparse(node)} shares the memory of a NumPy array"
        raise Refusal(f"{what}; use .copy() of all of it, or a loop over the slice", where)
    kind = array_kind(scope, node)
    if not (part.lower or part.upper or part.step):
        scope.visit(part)
        return shallow_copy(scope, source, name, kind, node, True)
    if source.kind.rank > 1:
        raise Refusal(
            "this slice shares its rows with the original; copy each: [row[:] for row in a[1:]]", where
        )
    run = sliced(scope, source, part)
    made = scope.allocate(name, kind, (), None, where)
    _extend(scope, made, run, kind, node)
    return made
