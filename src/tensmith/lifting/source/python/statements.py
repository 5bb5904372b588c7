"""Statements: assignments, loops, branches."""

from __future__ import annotations

import ast
from collections.abc import Sequence

from tensmith.formula.expr import Expr, SourcePosition
from tensmith.lifting.loops import If, Loop
from tensmith.lifting.refusal import Refusal
from tensmith.lifting.returned import returned_place
from tensmith.lifting.source.python import arithmetic
from tensmith.lifting.source.python import calls as python_calls
from tensmith.lifting.source.python import expressions as python_expressions  # they register what they lower
from tensmith.lifting.source.python.asserts import assertion
from tensmith.lifting.source.python.comprehensions import append, counter_name, element_value
from tensmith.lifting.source.python.expressions import operate, subscript
from tensmith.lifting.source.python.inline import alone, call
from tensmith.lifting.source.python.iteration import (
    assign_name,
    bind,
    counted,
    iteration,
    written_out,
)
from tensmith.lifting.source.python.kinds import NumberKind
from tensmith.lifting.source.python.liveness import changed_arrays, reads, targets
from tensmith.lifting.source.python.module import place
from tensmith.lifting.source.python.scope import (
    ArrayRef,
    Local,
    PythonScope,
    ScalarValue,
    Value,
    array,
    condition,
    listed,
    may_fail,
    number,
    value,
)

__all__ = ["block", "python_calls", "python_expressions"]


def block(scope: PythonScope, statements: Sequence[ast.stmt]) -> Value | tuple[Value, ...] | None:
    """Lowers statements; the value that a `return` at their end gives, or those of a tuple."""
    for statement in statements:
        if isinstance(statement, ast.Return):
            assert statement.value is not None
            return _returned(scope, statement.value)
        _statement(scope, statement)
    return None


def _returned(scope: PythonScope, node: ast.expr) -> Value | tuple[Value, ...]:
    scope.hint = "result"
    if not isinstance(node, ast.Tuple):
        found, _ = _whole(scope, node)
        return found
    scope.visit(node)
    return tuple(value(scope, part) for part in node.elts)


def _alone(scope: PythonScope, node: ast.expr) -> Value:
    """An expression that is all of its statement and one value."""
    found, helper = _whole(scope, node)
    return alone(found, helper, node)


def _whole(scope: PythonScope, node: ast.expr) -> tuple[Value | tuple[Value, ...], str]:
    """An expression that is all of its statement, and the helper that it calls, if it is no more than that:
    it may write to its arguments there, and give several values."""
    helper = _helper(scope, node)
    if not helper:
        return value(scope, node), ""
    assert isinstance(node, ast.Call)
    found = call(scope, node, helper, True)
    if found is None:
        raise Refusal(f"{helper} returns nothing, so its call has no value; drop the assignment", place(node))
    return found, helper


def _helper(scope: PythonScope, node: ast.expr) -> str:
    """The function of the file that an expression calls; "" where it is no such call."""
    if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Name):
        return ""
    called = scope.callee(node.func) or ""
    return called[4:] if called.startswith("def ") else ""


def _statement(scope: PythonScope, statement: ast.stmt) -> None:
    where = place(statement)
    scope.hint = ""
    match statement:
        case ast.Assign([target], given):
            _assign(scope, target, given)
        case ast.Assign(several, given):
            _assign_several(scope, several, given, where)
        case ast.AnnAssign(target, _, given):
            if given is not None:
                _assign(scope, target, given)
            elif isinstance(target, ast.Name):
                scope.visit(target)
        case ast.AugAssign():
            _augmented(scope, statement)
        case ast.For():
            _for(scope, statement)
        case ast.While():
            _while(scope, statement)
        case ast.If():
            _if(scope, statement)
        case ast.Expr(given):
            _expression(scope, given)
        case ast.Pass():
            pass
        case ast.Assert():
            assertion(scope, statement)
        case _:
            raise Refusal(f"{type(statement).__name__} cannot be lifted here; leave it out", where)


# Assignments.


def _assign(scope: PythonScope, target: ast.expr, given: ast.expr) -> None:
    if isinstance(target, ast.Tuple | ast.List):
        _unpack(scope, target, given)
        return
    scope.hint = target.id if isinstance(target, ast.Name) and target.id.isidentifier() else ""
    found = _alone(scope, given)
    scope.hint = ""
    _put(scope, target, found)


def _put(scope: PythonScope, target: ast.expr, found: Value) -> None:
    """target = found."""
    where = place(target)
    scope.visit(target)
    if isinstance(target, ast.Name):
        assign_name(scope, target.id, found, where)
        return
    if not isinstance(target, ast.Subscript):
        raise Refusal("only variables and elements of lists can be assigned; use a list", where)
    row, index = _element(scope, target)
    if isinstance(found, ArrayRef):
        raise Refusal("a whole row is stored; store its elements in a loop", where)
    scope.store(row, index, element_value(found, row.kind, target), where)


def _element(scope: PythonScope, target: ast.Subscript) -> tuple[ArrayRef, Expr]:
    """The innermost row of an element that is written, and the subscript in it."""
    parts = list(target.slice.elts) if isinstance(target.slice, ast.Tuple) else [target.slice]
    scope.visit(target, target.slice)
    for part in parts:
        if isinstance(part, ast.Slice):
            raise Refusal("a slice is written; write its elements in a loop", place(part))
    whole = array(scope, target.value)
    if len(parts) < whole.kind.rank:
        raise Refusal("a whole row is stored; store its elements in a loop", place(target))
    if len(parts) > whole.kind.rank:
        raise Refusal(f"{ast.unparse(target)} has too many subscripts; leave some out", place(target))
    for part in parts[:-1]:
        row = scope.load(whole, subscript(scope, whole, part), place(target))
        assert isinstance(row, ArrayRef)
        whole = row
    return whole, subscript(scope, whole, parts[-1])


def _unpack(scope: PythonScope, target: ast.Tuple | ast.List, given: ast.expr) -> None:
    where = place(target)
    scope.visit(target)
    if isinstance(given, ast.Attribute) and given.attr == "shape":
        scope.visit(given)
        whole = array(scope, given.value)
        if whole.kind.rank != len(target.elts):
            raise Refusal(
                f"the array has {whole.kind.rank} axes, not {len(target.elts)}; name them all", where
            )
        for axis, inner in enumerate(target.elts):
            _put(scope, inner, scope.length(whole, axis, where))
        return
    if not isinstance(given, ast.Tuple | ast.List):
        whole_or_parts, _ = _whole(scope, given)
        if not isinstance(whole_or_parts, tuple):
            bind(scope, target, listed(whole_or_parts, given))
            return
        _check_count(whole_or_parts, target)
        values = [scope.hold("value", v, where) if isinstance(v, ScalarValue) else v for v in whole_or_parts]
        for inner, result in zip(target.elts, values):
            _put(scope, inner, result)
        return
    scope.visit(given)
    _check_count(given.elts, target)
    written = frozenset().union(*(targets(inner) | reads(inner) for inner in target.elts))
    stores = any(isinstance(node, ast.Subscript) for node in ast.walk(target))  # known by other names too
    together = stores or any(written & reads(part) for part in given.elts[1:])
    found = []
    for inner, part in zip(target.elts, given.elts):
        result = value(scope, part)
        if together and isinstance(result, ScalarValue):
            result = scope.hold("old", result, place(part))
        if together:
            found.append((inner, result))
        else:
            _put(scope, inner, result)
    for inner, result in found:
        _put(scope, inner, result)


def _check_count(given: Sequence[object], target: ast.Tuple | ast.List) -> None:
    if len(given) != len(target.elts):
        reason = f"{len(given)} values are given to {len(target.elts)} names; use as many"
        raise Refusal(reason, place(target))


def _assign_several(
    scope: PythonScope, several: Sequence[ast.expr], given: ast.expr, where: SourcePosition
) -> None:
    """x = y = value."""
    found = _alone(scope, given)
    if isinstance(found, ScalarValue):
        found = scope.hold("value", found, where)
    for target in several:
        if isinstance(target, ast.Tuple | ast.List):
            raise Refusal("names in a chain of assignments are taken apart; use one line each", where)
        _put(scope, target, found)


def _augmented(scope: PythonScope, statement: ast.AugAssign) -> None:
    """target op= value."""
    where, target = place(statement), statement.target
    if isinstance(target, ast.Subscript):
        row, index = _element(scope, target)
        right = number(scope, statement.value)
        left = scope.load(row, index, where)
        assert isinstance(left, ScalarValue)
        result = operate(scope, statement.op, left, right, where)
        scope.store(row, index, element_value(result, row.kind, target), where)
        return
    if not isinstance(target, ast.Name):
        raise Refusal("only variables and elements of lists can be assigned; use a list", where)
    scope.visit(target)
    old = value(scope, ast.copy_location(ast.Name(target.id, ast.Load()), target))
    if isinstance(old, ArrayRef):
        _extend(scope, old, statement)
        return
    right = number(scope, statement.value)
    assign_name(scope, target.id, operate(scope, statement.op, old, right, where), where)


def _extend(scope: PythonScope, whole: ArrayRef, statement: ast.AugAssign) -> None:
    """out += [x] appends x."""
    if not isinstance(statement.op, ast.Add) or not isinstance(statement.value, ast.List):
        raise Refusal(
            "a list is changed as a whole; append or store its elements in a loop", place(statement)
        )
    scope.visit(statement.value)
    _append(scope, whole, statement.value.elts, statement)


def _append(scope: PythonScope, whole: ArrayRef, parts: Sequence[ast.expr], statement: ast.AST) -> None:
    where = place(parts[0] if parts else statement)
    if whole.kind.numpy:
        raise Refusal("a NumPy array has no append; make it with np.empty and store its elements", where)
    append(scope, whole, parts, where)


def _expression(scope: PythonScope, node: ast.expr) -> None:
    """A call on a line of its own; docstrings are skipped."""
    if isinstance(node, ast.Constant):
        scope.visit(node)
        return
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "append":
        if len(node.args) != 1 or node.keywords:
            raise Refusal("append takes one value; pass one", place(node))
        scope.visit(node, node.func)
        _append(scope, array(scope, node.func.value), node.args, node)
        return
    if found := _helper(scope, node):
        assert isinstance(node, ast.Call)
        call(scope, node, found, True)
    else:
        scope.touch(value(scope, node), place(node))


# Loops and branches.


def _prepare(scope: PythonScope, statement: ast.stmt) -> frozenset[str]:
    """Declares what a compound statement assigns for readers outside of it, and returns those names."""
    frame, where = scope.frame, place(statement)
    live = frame.code.live
    carried = live.carried(statement)
    for name in sorted(carried):
        bound = frame.names.get(name)
        needed = name in frame.carried or name in live.before[id(statement)]
        kind = frame.code.types.variables.get(name)
        if kind is None:
            raise Refusal(f"{name} is no number or list here but a tuple, or nothing; name its parts", where)
        if not isinstance(kind, NumberKind):
            if not isinstance(bound, ArrayRef):
                what = "a list that is returned" if returned_place(name) is not None else name
                reason = f"{what} is made inside a branch or loop and read after it; make the list before"
                raise Refusal(reason, where)
        elif isinstance(bound, Local) and needed:
            continue
        elif isinstance(bound, ScalarValue) and needed:
            frame.names[name] = scope.variable(name, kind, arithmetic.convert(bound, kind, where), where)
        elif isinstance(bound, ArrayRef) and needed:
            raise Refusal(f"{name} is a list here and a number there; use two names", where)
        else:
            frame.names[name] = scope.variable(name, kind, None, where)
    return carried


def _if(scope: PythonScope, statement: ast.If) -> None:
    where = place(statement)
    carried = _prepare(scope, statement)
    test = arithmetic.truth(condition(scope, statement.test), where)
    with scope.block(carried) as then:
        block(scope, statement.body)
    with scope.block(carried) as otherwise:
        block(scope, statement.orelse)
    if then or otherwise or may_fail(test):
        scope.emit(If(test, tuple(then), tuple(otherwise), where))


def _while(scope: PythonScope, statement: ast.While) -> None:
    where = place(statement)
    carried = _prepare(scope, statement)
    with scope.block() as before:
        test = arithmetic.truth(condition(scope, statement.test), where)
    if before:
        raise Refusal("the condition of a while calls or sums something; compute it inside the loop", where)
    with scope.block(carried) as body:
        block(scope, statement.body)
    scope.emit(Loop(test, tuple(body), scope.label("while", where), where))


def _for(scope: PythonScope, statement: ast.For) -> None:
    where = place(statement)
    items = written_out(scope, statement.iter)
    if items:
        for each in items:
            bind(scope, statement.target, each)
            block(scope, statement.body)
        return
    source = iteration(scope, statement.iter)
    grown = frozenset(changed_arrays(statement.body))
    for whole in source.arrays:
        if whole.name in grown and whole.name in scope.home:
            raise Refusal(
                f"{whole.name} may grow while it is run over; loop over range(len({whole.name}))", where
            )
    carried = _prepare(scope, statement)
    name = counter_name(statement.target, source)
    with counted(scope, source, name, where, carried) as item:
        bind(scope, statement.target, item)
        block(scope, statement.body)
