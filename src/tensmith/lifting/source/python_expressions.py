"""Expressions: literals, names, subscripts, operators, comparisons, choices."""

from __future__ import annotations

import ast
import math
from functools import reduce

from tensmith.lifting.loops import Apply, Assign, Constant, Expr, If, Load, Position, Statement, Variable
from tensmith.lifting.refusal import Refusal
from tensmith.lifting.source import python_arithmetic as arithmetic
from tensmith.lifting.source.python_comprehensions import filled, row_copy
from tensmith.lifting.source.python_kinds import PY_BOOL, PY_INT
from tensmith.lifting.source.python_module import place
from tensmith.lifting.source.python_names import FLOAT_CONSTANTS
from tensmith.lifting.source.python_scope import (
    ArrayRef,
    Number,
    Scope,
    Value,
    array,
    integer,
    lowers,
    number,
    value,
)

_BINARY = {ast.Add: "add", ast.Sub: "sub", ast.Mult: "mul"}
_BITWISE = {ast.LShift: "shl", ast.RShift: "shr", ast.BitAnd: "band", ast.BitOr: "bor", ast.BitXor: "bxor"}
_COMPARISONS = {ast.Lt: "lt", ast.LtE: "le", ast.Gt: "gt", ast.GtE: "ge", ast.Eq: "eq", ast.NotEq: "ne"}
_WHOLE_ARRAYS = "arrays are combined as wholes; write the loop over their elements"


@lowers(ast.Constant)
def _constant(scope: Scope, node: ast.Constant) -> Value:
    if isinstance(node.value, bool | int | float):
        return arithmetic.constant(node.value, place(node))
    what = "None" if node.value is None else f"a {type(node.value).__name__}"
    raise Refusal(f"{what} cannot be lifted; use numbers", place(node))


@lowers(ast.Name)
def _name(scope: Scope, node: ast.Name) -> Value:
    found = scope.read(node)
    if found is not None:
        return found
    if node.id in scope.frame.code.types.variables:
        raise Refusal(f"{node.id} may be read before it has a value; give it one first", place(node))
    if node.id in scope.module.constants:
        return value(scope, scope.module.constants[node.id])
    library = scope.module.imports.get(node.id, "")
    if library.startswith(("math.", "numpy.")) and library.partition(".")[2] in FLOAT_CONSTANTS:
        return arithmetic.constant(getattr(math, library.partition(".")[2]), place(node))
    raise Refusal(
        f"{node.id} is neither a variable of the function nor a constant of the file; pass it as a parameter",
        place(node),
    )


@lowers(ast.Attribute)
def _attribute(scope: Scope, node: ast.Attribute) -> Value:
    where = place(node)
    if isinstance(node.value, ast.Name) and node.value.id not in scope.frame.names:
        if scope.module.library(node.value.id) in ("math", "numpy") and node.attr in FLOAT_CONSTANTS:
            return arithmetic.constant(getattr(math, node.attr), where)
    elif node.attr == "size":
        whole = array(scope, node.value)
        lengths = (scope.length(whole, axis, where) for axis in range(whole.kind.rank))
        return reduce(lambda left, right: arithmetic.binary("mul", left, right, where), lengths)
    elif node.attr == "ndim":
        return arithmetic.constant(array(scope, node.value).kind.rank, where)
    raise Refusal(f"{ast.unparse(node)} cannot be lifted; pass its value as a parameter", where)


@lowers(ast.Subscript)
def _subscript(scope: Scope, node: ast.Subscript) -> Value:
    where = place(node)
    if isinstance(node.slice, ast.Slice) and not (node.slice.lower or node.slice.upper or node.slice.step):
        return row_copy(scope, node)
    if isinstance(node.value, ast.Attribute) and node.value.attr == "shape":
        axis = node.slice.value if isinstance(node.slice, ast.Constant) else None
        if not isinstance(axis, int) or axis < 0:
            raise Refusal("the axis of a shape must be a literal; write a.shape[0]", where)
        return scope.length(array(scope, node.value.value), axis, where)
    found: Value = array(scope, node.value)
    for part in node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]:
        if isinstance(part, ast.Slice):
            raise Refusal("a slice cannot be lifted here; write the loop over its elements", place(part))
        if isinstance(found, Number):
            raise Refusal(f"{ast.unparse(node)} has too many subscripts; leave some out", where)
        found = scope.load(found, subscript(scope, found, part), where)
    return found


def subscript(scope: Scope, whole: ArrayRef, node: ast.expr) -> Expr:
    """A subscript; negative literals count from the end."""
    index = integer(scope, node)
    if isinstance(index, Constant) and index.value < 0:
        length = scope.length(whole, 0, place(node))
        return arithmetic.binary("add", length, Number(index, PY_INT), place(node)).expr
    return index


@lowers(ast.BinOp)
def _binary(scope: Scope, node: ast.BinOp) -> Value:
    if isinstance(node.op, ast.Mult) and (made := filled(scope, node)) is not None:
        return made
    left, right = value(scope, node.left), value(scope, node.right)
    if isinstance(left, ArrayRef) or isinstance(right, ArrayRef):
        raise Refusal(_WHOLE_ARRAYS, place(node))
    return operate(scope, node.op, left, right, place(node))


def operate(scope: Scope, operator: ast.operator, left: Number, right: Number, where: Position) -> Number:
    """left operator right."""
    if type(operator) in _BINARY:
        return arithmetic.binary(_BINARY[type(operator)], left, right, where)
    if type(operator) in _BITWISE:
        return arithmetic.bitwise(_BITWISE[type(operator)], left, right, where)
    match operator:
        case ast.Div():
            divisor_raises(scope, arithmetic.to_float(left, where), right)
            return arithmetic.divide(left, right, where)
        case ast.FloorDiv():
            divisor_raises(scope, left, right)
            return arithmetic.floor_divide(left, right, where)
        case ast.Mod():
            divisor_raises(scope, left, right)
            return arithmetic.remainder(left, right, where)
        case ast.Pow():
            if isinstance(right.expr, Constant) and isinstance(right.expr.value, int):
                simple = isinstance(left.expr, Variable | Constant | Load)
                left = left if simple else scope.hold("base", left, where)
            return arithmetic.power(left, right, where)
    raise Refusal("the product of matrices cannot be lifted from an operator; write the loops", where)


def divisor_raises(scope: Scope, left: Number, right: Number) -> None:
    """States that Python's own float division does not meet a zero."""
    if isinstance(right.expr, Constant) and right.expr.value != 0:
        return
    if left.kind.weak and right.kind.weak and "float" in (left.kind.scalar.kind, right.kind.scalar.kind):
        scope.note("divisors are not zero (Python raises there)")


@lowers(ast.UnaryOp)
def _unary(scope: Scope, node: ast.UnaryOp) -> Value:
    where = place(node)
    inner = number(scope, node.operand)
    match node.op:
        case ast.Not():
            return Number(arithmetic.negation(arithmetic.truth(inner, where), where), PY_BOOL)
        case ast.USub():
            return arithmetic.negate(inner, where)
        case ast.Invert():
            if inner.kind.scalar.kind != "int":
                raise Refusal("bits of a value that is no integer are asked for; use integers", where)
            return Number(Apply("bnot", (inner.expr,), inner.kind.scalar, where), inner.kind)
    return inner if inner.kind != PY_BOOL else arithmetic.to_integer(inner, "trunc", where)


@lowers(ast.Compare)
def _compare(scope: Scope, node: ast.Compare) -> Value:
    where = place(node)
    left = number(scope, node.left)
    found: Expr | None = None
    for operator, comparator in zip(node.ops, node.comparators):
        if type(operator) not in _COMPARISONS:
            raise Refusal("is and in cannot be lifted; compare numbers by == and <", where)
        right = number(scope, comparator)
        step = arithmetic.compare(_COMPARISONS[type(operator)], left, right, where).expr
        found = step if found is None else arithmetic.both(found, step, where)
        left = right
    assert found is not None
    return Number(found, PY_BOOL)


@lowers(ast.BoolOp)
def _logic(scope: Scope, node: ast.BoolOp) -> Value:
    """and, or: the last operand that was looked at, as Python has it; a condition between truth values."""
    where = place(node)
    found = number(scope, node.values[0])
    for part in node.values[1:]:
        with scope.block() as inside:
            other = number(scope, part)
        first = arithmetic.truth(found, where)
        if inside:
            held = scope.hold("first", Number(first, PY_BOOL), where).expr
            if isinstance(node.op, ast.And):
                found = chosen(scope, held, other, found, (inside, []), where)
            else:
                found = chosen(scope, held, found, other, ([], inside), where)
        elif found.kind.scalar.kind == "bool" and other.kind.scalar.kind == "bool":
            join = arithmetic.both if isinstance(node.op, ast.And) else arithmetic.either
            found = Number(join(first, other.expr, where), PY_BOOL)
        elif isinstance(node.op, ast.And):
            found = arithmetic.choose(first, other, found, where)
        else:
            found = arithmetic.choose(first, found, other, where)
    return found


def chosen(
    scope: Scope,
    condition: Expr,
    then: Number,
    otherwise: Number,
    sides: tuple[list[Statement], list[Statement]],
    where: Position,
) -> Number:
    """condition ? then : otherwise, by a branch whose sides begin with the statements given."""
    kind = arithmetic.choose(condition, then, otherwise, where).kind
    local = scope.undefined("chosen", kind, where)
    made = []
    for side, result in zip(sides, (then, otherwise)):
        made.append((*side, Assign(local.name, arithmetic.convert(result, kind, where), where)))
    scope.emit(If(condition, made[0], made[1], where))
    return Number(Variable(local.name, kind.scalar, where), kind)


@lowers(ast.IfExp)
def _choice(scope: Scope, node: ast.IfExp) -> Value:
    where = place(node)
    condition = arithmetic.truth(number(scope, node.test), where)
    with scope.block() as first:
        then = number(scope, node.body)
    with scope.block() as second:
        otherwise = number(scope, node.orelse)
    if first or second:
        return chosen(scope, condition, then, otherwise, (first, second), where)
    return arithmetic.choose(condition, then, otherwise, where)
