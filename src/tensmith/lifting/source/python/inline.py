"""A call of a function of the same file: its statements stand in for it."""

from __future__ import annotations

import ast

from tensmith.lifting.loops import Allocate, Append, Statement, Store, statements
from tensmith.lifting.refusal import Refusal
from tensmith.lifting.source.python.kinds import AnyKind, NumberKind
from tensmith.lifting.source.python.module import Module, place
from tensmith.lifting.source.python.scope import (
    ArrayRef,
    Binding,
    Code,
    PythonFrame,
    PythonScope,
    Value,
    fixed,
    value,
)

_DEEPEST = 12
_DECORATORS = ("lift", "optimize", "jit", "njit")


def inline(scope: PythonScope, node: ast.Call, name: str) -> Value:
    """The value of a call inside a larger expression."""
    found = call(scope, node, name, False)
    if found is None:
        raise Refusal(
            f"{name} returns nothing, so its call has no value; call it on a line of its own", place(node)
        )
    return alone(found, name, node)


def alone(found: Value | tuple[Value, ...], name: str, node: ast.AST) -> Value:
    """What a call gives, which must be one value."""
    if isinstance(found, tuple):
        taken = "x, y" if len(found) == 2 else "x, y, ..."
        raise Refusal(
            f"{name} returns {len(found)} values; take them apart: {taken} = {name}(...)", place(node)
        )
    return found


def call(scope: PythonScope, node: ast.Call, name: str, statement: bool) -> Value | tuple[Value, ...] | None:
    """The value of the call, or those of a tuple, None if the function returns nothing. `statement`: it is
    all of its statement, so what it writes disturbs nothing."""
    from tensmith.lifting.source.python.statements import block

    where = place(node)
    scope.visit(node, node.func)
    function = plain_function(scope.module, scope.module.functions[name])
    if any(frame.code.function is function for frame in scope.frames):
        raise Refusal(f"{name} calls itself; write the recursion as a loop", where)
    if len(scope.frames) > _DEEPEST:
        raise Refusal("helper functions call one another too deeply; put them together", where)
    scope.check_time(where)
    passed = _arguments(scope, node, function)
    kinds: dict[str, AnyKind] = {}
    for parameter, argument in passed.items():
        kinds[parameter] = argument.kind
    code = Code.of(scope.module, function, kinds)
    names: dict[str, Binding] = {}
    for parameter, argument in passed.items():
        names[parameter] = _bound(scope, parameter, argument, code, node)
    start = len(scope.statements)
    scope.frames.append(PythonFrame(code, names))
    try:
        found = block(scope, code.body)
        scope.check_visited(code)
    finally:
        scope.frames.pop()
    if not statement and _writes_outside(scope.statements[start:]):
        raise Refusal(
            f"{name} writes to its argument inside a larger expression; call it on a line of its own", where
        )
    return found


def plain_function(module: Module, function: ast.FunctionDef | ast.AsyncFunctionDef) -> ast.FunctionDef:
    """The function, if it is one that can be lifted at all: no decorator but ours and numba's."""
    if isinstance(function, ast.AsyncFunctionDef):
        raise Refusal("an async function cannot be lifted; write a plain def", place(function))
    for decorator in function.decorator_list:
        called = module.callee(decorator.func if isinstance(decorator, ast.Call) else decorator) or ""
        home, _, name = called.rpartition(".")
        if name not in _DECORATORS or home.partition(".")[0] not in ("tensmith", "numba"):
            raise Refusal("a decorator changes what the function does; take it off", place(decorator))
    return function


def _arguments(scope: PythonScope, node: ast.Call, function: ast.FunctionDef) -> dict[str, Value]:
    """Parameter -> value passed, in the order of parameters."""
    parameters = [argument.arg for argument in (*function.args.posonlyargs, *function.args.args)]
    named = {argument.arg for argument in function.args.args}
    given: dict[str, ast.expr] = dict(zip(parameters, node.args))
    for word in node.keywords:
        if word.arg is None or word.arg not in named or word.arg in given:
            raise Refusal(f"{function.name} has no such free parameter; pass arguments in order", place(node))
        given[word.arg] = word.value
        scope.visit(word)
    defaults = dict(zip(reversed(parameters), reversed(function.args.defaults)))
    missing = [name for name in parameters if name not in given and name not in defaults]
    if missing or len(node.args) > len(parameters):
        raise Refusal(f"{function.name} takes {len(parameters)} arguments; pass all of them", place(node))
    return {
        name: value(scope, given[name]) if name in given else _default(scope, defaults[name])
        for name in parameters
    }


def _default(scope: PythonScope, node: ast.expr) -> Value:
    refused = "a default that is no literal was evaluated with the def; pass the argument"
    if not isinstance(node, ast.Constant | ast.UnaryOp):
        raise Refusal(refused, place(node))
    return fixed(scope, node, refused)


def _bound(scope: PythonScope, parameter: str, argument: Value, code: Code, node: ast.Call) -> Binding:
    if isinstance(argument, ArrayRef):
        scope.touch(argument, place(node))
        return argument
    kind = code.types.variables[parameter]
    if parameter in code.rebound or not isinstance(kind, NumberKind):
        return scope.declare(parameter, argument, place(node))
    return scope.hold(parameter, argument, place(node))


def _writes_outside(body: list[Statement]) -> bool:
    """Whether statements store or append to arrays that they did not make."""
    inside = list(statements(body))
    made = {statement.name for statement in inside if isinstance(statement, Allocate)}
    return any(isinstance(statement, Store | Append) and statement.array not in made for statement in inside)
