"""The constraints of calls; see `infer`."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from functools import reduce
from typing import TYPE_CHECKING

from tensmith.lifting.refusal import Refusal
from tensmith.lifting.source.python import names
from tensmith.lifting.source.python.jumps import structured
from tensmith.lifting.source.python.kinds import (
    DTYPES,
    PY_BOOL,
    PY_FLOAT,
    PY_INT,
    NumberKind,
    arithmetic,
    join,
    literal,
    promote,
    read_dtype,
)
from tensmith.lifting.source.python.module import place
from tensmith.lifting.source.python.types import Cell, TypeScope

if TYPE_CHECKING:
    from tensmith.lifting.source.python.infer import Inference


def call(inference: Inference, node: ast.Call, scope: TypeScope) -> Cell:
    called = inference.module.callee(node.func)
    if isinstance(node.func, ast.Attribute) and (
        not isinstance(node.func.value, ast.Name) or scope.find(node.func.value.id) is not None
    ):
        return method(inference, node, node.func, scope)
    if called is None:
        return inference.cells.new(place(node))
    if called.startswith("def "):
        return helper(inference, node, called[4:], scope)
    if called in names.TOTALS and node.args:
        parts = (*node.args, *(word.value for word in node.keywords))
        return total(inference, node, called, *(inference.expression(part, scope) for part in parts))
    if called in ("min", "max") and len(node.args) == 1:
        result = inference.cells.new(place(node))
        inference.cells.flow(inference.cells.element(inference.expression(node.args[0], scope)), result)
        return result
    if called in names.FILLS or called in names.FILLS_LIKE or called == "numpy.full":
        return filled(inference, node, called, scope)
    if called in names.COPIES and node.args:
        return copied(inference, node, called, scope)
    arguments = [inference.expression(argument, scope) for argument in node.args]
    return scalar_call(inference, node, called, arguments)


def scalar_call(inference: Inference, node: ast.Call, called: str, arguments: list[Cell]) -> Cell:
    new = inference.cells.new
    if called == "len" and arguments:
        inference.cells.element(arguments[0])
        return inference.count(node)
    if called in names.FLOAT_OPERATORS or called in (*names.LOGARITHMS, *names.HYPOTENUSES):
        for argument in arguments:
            argument.demanded = True
        result = new(place(node))
        inference.cells.relate(result, *arguments)
        if called.startswith("math."):
            return inference.cells.rule(result, arguments, lambda _: PY_FLOAT)
        return inference.cells.rule(result, arguments, lambda kinds: _inexact(promoted(kinds)))
    if called in names.ROUNDINGS and len(arguments) == 1:
        arguments[0].demanded = True
        return new(place(node), PY_INT)
    if called in names.TRUTHS and len(arguments) == 1:
        inference.cells.element(arguments[0])
        return new(place(node), DTYPES["bool"] if called.startswith("numpy.") else PY_BOOL)
    if called in ("float", "bool"):
        return inference.float(node) if called == "float" else new(place(node), PY_BOOL)
    if called in names.POWERS and len(arguments) == 2:
        if called == "math.pow":
            arguments[0].demanded = True
            return inference.float(node)
        return inference.power(arguments[0], arguments[1], node)
    if called in names.ABSOLUTE or called in names.SQUARES:
        return inference.same(node, arguments[:1], lambda kinds: arithmetic(kinds[0], kinds[0]))
    if called in ("min", "max"):
        return inference.same(node, arguments, lambda kinds: join(*kinds))
    if called in (*names.SMALLEST, *names.LARGEST, "numpy.clip"):
        return inference.same(node, arguments, promoted)
    if called in names.CHOICES and len(arguments) == 3:
        return inference.same(node, arguments[1:], promoted)
    if called.startswith("numpy."):
        try:
            return new(place(node), read_dtype(inference.module.meant(node.func), place(node)))
        except Refusal:
            pass
    return new(place(node))


def method(inference: Inference, node: ast.Call, function: ast.Attribute, scope: TypeScope) -> Cell:
    receiver = inference.expression(function.value, scope)
    arguments = [inference.expression(argument, scope) for argument in node.args]
    if function.attr == "append" and len(arguments) == 1:
        inference.cells.flow(arguments[0], inference.cells.element(receiver))
    elif function.attr == "copy":
        result = inference.cells.new(place(node))
        inference.cells.flow(receiver, result)
        inference.cells.element(result)
        return result
    elif function.attr == "sum":
        receiver.root().numpy = True
        return total(inference, node, "numpy.sum", receiver)
    return inference.cells.new(place(node))


def helper(inference: Inference, node: ast.Call, name: str, scope: TypeScope) -> Cell:
    """A function of the same file: arguments flow to parameters, its result here."""
    inner = inference.called.get(name)
    function = inference.module.functions[name]
    if inner is None and isinstance(function, ast.FunctionDef):
        inference.called[name] = inner = TypeScope(result=inference.cells.new(place(function)))
        arguments = function.args
        for argument in (*arguments.posonlyargs, *arguments.args):
            inner.parameters[argument.arg] = cell = inference.cells.new(place(argument))
            inner.variables[argument.arg] = cell
        inference.block(structured(inference.module, function), inner)
    passed = [inference.expression(argument, scope) for argument in node.args]
    named = {word.arg: inference.expression(word.value, scope) for word in node.keywords}
    if inner is None or inner.result is None:
        return inference.cells.new(place(node))
    for parameter, value in zip(inner.parameters, passed):
        named.setdefault(parameter, value)
    for parameter, cell in inner.parameters.items():
        if parameter in named:
            inference.cells.flow(named[parameter], cell)
    result = inference.cells.new(place(node))
    inference.cells.flow(inner.result, result)
    return result


def total(inference: Inference, node: ast.Call, called: str, whole: Cell, *start: Cell) -> Cell:
    element = inference.cells.element(whole)
    return inference.same(node, [element, *start], lambda kinds: _sum(called, *kinds))


def _sum(called: str, element: NumberKind, *start: NumberKind) -> NumberKind:
    """numpy.sum adds integers in 64 bits, math.fsum floats, sum in their own type from a start that may be
    all there is."""
    if called == "math.fsum":
        return PY_FLOAT
    first = start[0] if start else literal(0)
    found = arithmetic(first, element)
    if called == "numpy.sum" and not found.weak and found.scalar.kind == "int":
        return DTYPES["int64" if found.scalar.signed else "uint64"]
    return found if called == "numpy.sum" else join(first, found)


def filled(inference: Inference, node: ast.Call, called: str, scope: TypeScope) -> Cell:
    kind, dtyped = DTYPES["float64"], False
    for word in node.keywords:
        if word.arg == "dtype":
            kind, dtyped = read_dtype(inference.module.meant(word.value), place(word.value)), True
    if called in names.FILLS_LIKE and node.args:
        model = inference.expression(node.args[0], scope)
        result = inference.cells.array(place(node), numpy=True)
        if dtyped:
            result.leaf = kind
            inference.cells.alike(model, result)
        else:
            inference.cells.flow(model, result)
        return result
    shape = node.args[0] if node.args else next((w.value for w in node.keywords if w.arg == "shape"), None)
    extra = 1 if called != "numpy.full" else 2
    if len(node.args) > extra:
        kind, dtyped = read_dtype(inference.module.meant(node.args[extra]), place(node.args[extra])), True
    if called == "numpy.full" and len(node.args) > 1:
        value = node.args[1]
        inference.expression(value, scope)
        if isinstance(value, ast.Name) and scope.find(value.id) is None:
            value = inference.module.constants.get(value.id, value)
        kind = kind if dtyped else _of_literals([value]) or kind
    parts = shape.elts if isinstance(shape, ast.Tuple | ast.List) else [shape] if shape is not None else []
    if isinstance(shape, ast.Attribute) and shape.attr == "shape":
        result = inference.cells.array(place(node), numpy=True)
        result.leaf = kind
        inference.cells.alike(inference.expression(shape.value, scope), result)
        return result
    for part in parts:
        inference.pinned(part, scope)
    cell = inference.cells.new(place(node), kind)
    for _ in parts:
        cell = inference.cells.array(place(node), True, cell)
    return cell


def copied(inference: Inference, node: ast.Call, called: str, scope: TypeScope) -> Cell:
    result = inference.cells.new(place(node))
    source = inference.expression(node.args[0], scope)
    listed = isinstance(node.args[0], ast.List) and called.startswith("numpy.")
    kind = _of_literals(node.args[0].elts) if listed else None  # type: ignore[attr-defined]
    if kind is not None:  # nothing else sees the list
        return inference.cells.array(place(node), True, inference.cells.new(place(node), kind))
    inference.cells.flow(source, result)
    inference.cells.element(result)
    if called.startswith("numpy."):
        result.root().numpy = True
    if called == "list":
        result.root().listed = True
    return result


def _of_literals(parts: Sequence[ast.expr]) -> NumberKind | None:
    """What a NumPy array of literals holds; None where other numbers are among them."""
    values = []
    for part in parts:
        signed = isinstance(part, ast.UnaryOp) and isinstance(part.op, ast.USub | ast.UAdd)
        inner = part.operand if signed else part  # type: ignore[attr-defined]
        value = inner.value if isinstance(inner, ast.Constant) else None
        values.append(int(value) if signed and isinstance(value, bool) else value)
    for name, types in (("bool", (bool,)), ("int64", (bool, int)), ("float64", (bool, int, float))):
        if values and all(type(value) in types for value in values):
            return DTYPES[name]
    return None


def _inexact(kind: NumberKind) -> NumberKind:
    """What numpy.exp and the like return."""
    if kind.scalar.kind == "float" and not kind.weak:
        return kind
    return NumberKind(PY_FLOAT.scalar, False)


def promoted(kinds: list[NumberKind]) -> NumberKind:
    return reduce(promote, kinds)
