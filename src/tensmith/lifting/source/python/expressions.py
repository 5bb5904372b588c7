"""Expressions: literals, names, subscripts, operators, comparisons, choices."""

from __future__ import annotations

import ast
import math
from functools import reduce

from tensmith.formula.expr import Call, Expr, Num, Read, SourcePosition
from tensmith.lifting import assumptions, loops
from tensmith.lifting.refusal import Refusal
from tensmith.lifting.source.python import arithmetic
from tensmith.lifting.source.python.comprehensions import WHOLE_ARRAYS, filled, joined, row_copy
from tensmith.lifting.source.python.kinds import PY_BOOL, PY_INT, join
from tensmith.lifting.source.python.module import place
from tensmith.lifting.source.python.names import FLOAT_CONSTANTS
from tensmith.lifting.source.python.scope import (
    ArrayRef,
    PythonScope,
    ScalarValue,
    Value,
    array,
    condition,
    fixed,
    integer,
    lowers,
    number,
    value,
)

_BINARY = {ast.Add: "add", ast.Sub: "sub", ast.Mult: "mul"}
_BITWISE = {
    ast.LShift: "left_shift",
    ast.RShift: "right_shift",
    ast.BitAnd: "bitwise_and",
    ast.BitOr: "bitwise_or",
    ast.BitXor: "bitwise_xor",
}
_COMPARISONS = {
    ast.Lt: "less",
    ast.LtE: "less_equal",
    ast.Gt: "greater",
    ast.GtE: "greater_equal",
    ast.Eq: "equal",
    ast.NotEq: "not_equal",
}


@lowers(ast.Constant)
def _constant(scope: PythonScope, node: ast.Constant) -> Value:
    if isinstance(node.value, bool | int | float):
        return arithmetic.constant(node.value, place(node))
    what = "None" if node.value is None else f"a {type(node.value).__name__}"
    raise Refusal(f"{what} cannot be lifted; use numbers", place(node))


@lowers(ast.Name)
def _name(scope: PythonScope, node: ast.Name) -> Value:
    found = scope.read(node)
    if found is not None:
        return found
    if scope.is_local(node.id):
        raise Refusal(f"{node.id} may be read before it has a value; give it one first", place(node))
    if node.id in scope.module.constants:
        return _file_constant(scope, scope.module.constants[node.id])
    if node.id in scope.module.opaque:
        raise Refusal(
            f"{node.id} is bound more than once in the file, or may be changed there; pass it as a parameter",
            place(node),
        )
    library = scope.module.imports.get(node.id, "")
    if library.startswith(("math.", "numpy.")) and library.partition(".")[2] in FLOAT_CONSTANTS:
        return arithmetic.constant(getattr(math, library.partition(".")[2]), place(node))
    raise Refusal(
        f"{node.id} is neither a variable of the function nor a constant of the file; pass it as a parameter",
        place(node),
    )


def _file_constant(scope: PythonScope, node: ast.expr) -> Value:
    """A constant of the file; a list there is one for all calls, so it is only read."""
    found = fixed(scope, node, "a constant of the file is not understood; pass it as a parameter")
    if isinstance(found, ArrayRef):
        scope.constant_arrays.add(found.name)
        scope.home.pop(found.name, None)
    return found


@lowers(ast.Attribute)
def _attribute(scope: PythonScope, node: ast.Attribute) -> Value:
    where = place(node)
    if isinstance(node.value, ast.Name) and not scope.is_local(node.value.id):
        scope.visit(node.value)
        if scope.module.library(node.value.id) in ("math", "numpy") and node.attr in FLOAT_CONSTANTS:
            return arithmetic.constant(getattr(math, node.attr), where)
    elif node.attr == "size":
        whole = array(scope, node.value)
        lengths = (scope.length(whole, axis, where) for axis in range(whole.kind.rank))
        return reduce(lambda left, right: arithmetic.binary("mul", left, right, where), lengths)
    elif node.attr == "ndim":
        whole = array(scope, node.value)
        scope.touch(whole, where)
        return arithmetic.constant(whole.kind.rank, where)
    raise Refusal(f"{ast.unparse(node)} cannot be lifted; pass its value as a parameter", where)


@lowers(ast.Subscript)
def _subscript(scope: PythonScope, node: ast.Subscript) -> Value:
    where = place(node)
    if isinstance(node.slice, ast.Slice):
        return row_copy(scope, node, node.slice)
    if isinstance(node.value, ast.Attribute) and node.value.attr == "shape":
        axis = node.slice.value if isinstance(node.slice, ast.Constant) else None
        if not isinstance(axis, int) or isinstance(axis, bool) or axis < 0:
            raise Refusal("the axis of a shape must be a literal; write a.shape[0]", where)
        scope.visit(node.value, node.slice)
        return scope.length(array(scope, node.value.value), axis, where)
    found: Value = array(scope, node.value)
    scope.visit(*([node.slice] if isinstance(node.slice, ast.Tuple) else []))
    for part in node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]:
        if isinstance(part, ast.Slice):
            raise Refusal("a slice cannot be lifted here; write the loop over its elements", place(part))
        if isinstance(found, ScalarValue):
            raise Refusal(f"{ast.unparse(node)} has too many subscripts; leave some out", where)
        found = scope.load(found, subscript(scope, found, part), where)
    return found


def subscript(scope: PythonScope, whole: ArrayRef, node: ast.expr) -> Expr:
    """A subscript. What is negative by its form counts from the end: -1, -n, -n - 1, ~n; that it does is then
    asked of n. Other subscripts are asked to be from 0."""
    index = integer(scope, node)
    if arithmetic.counts_back(index):
        length = scope.length(whole, 0, place(node))
        return arithmetic.binary("add", length, ScalarValue(index, PY_INT), place(node)).expr
    return index


@lowers(ast.BinOp)
def _binary(scope: PythonScope, node: ast.BinOp) -> Value:
    if isinstance(node.op, ast.Mult) and (made := filled(scope, node)) is not None:
        return made
    left, right = value(scope, node.left), value(scope, node.right)
    if isinstance(left, ArrayRef) and isinstance(right, ArrayRef) and isinstance(node.op, ast.Add):
        return joined(scope, (left, right), node)
    if isinstance(left, ArrayRef) or isinstance(right, ArrayRef):
        raise Refusal(WHOLE_ARRAYS, place(node))
    return operate(scope, node.op, left, right, place(node))


def operate(
    scope: PythonScope,
    operator: ast.operator,
    left: ScalarValue,
    right: ScalarValue,
    where: SourcePosition,
) -> ScalarValue:
    """left operator right."""
    if type(operator) in _BINARY:
        return arithmetic.binary(_BINARY[type(operator)], left, right, where)
    if type(operator) in _BITWISE:
        if isinstance(operator, ast.LShift | ast.RShift):
            _shift_raises(scope, right, where)
        return arithmetic.bitwise(_BITWISE[type(operator)], left, right, where)
    match operator:
        case ast.Div():
            divisor_raises(scope, arithmetic.to_float(left, where), right, where)
            return arithmetic.divide(left, right, where)
        case ast.FloorDiv():
            _whole_quotient(scope, left, right, where)
            return arithmetic.floor_divide(left, right, where)
        case ast.Mod():
            _whole_quotient(scope, left, right, where)
            return arithmetic.remainder(left, right, where)
    return raised(scope, left, right, where)  # the product of matrices is refused by the whitelist


def raised(
    scope: PythonScope, base: ScalarValue, exponent: ScalarValue, where: SourcePosition
) -> ScalarValue:
    """base ** exponent, and what is asked of them: Python has a complex number, or raises, elsewhere."""
    value = exponent.expr.value if isinstance(exponent.expr, Num) else None
    whole = isinstance(value, int)
    if whole:
        simple = isinstance(base.expr, Read | Num | loops.Load)
        base = base if simple else scope.hold("base", base, where)
    found = arithmetic.power(base, exponent, where)
    if isinstance(value, int) and value < 0:
        divisor_raises(scope, arithmetic.to_float(base, where), base, where)
    weak = base.kind.weak and exponent.kind.weak
    if not whole and weak:
        scope.note(assumptions.POWERS())
    if not whole and (not weak or value == 0.5):  # a square root of -inf is NaN
        scope.note(assumptions.POWER_BASE())
    if found.kind.weak and found.kind.scalar.kind == "float":
        scope.note(assumptions.POWER_SIZE())
    return found


def _shift_raises(scope: PythonScope, count: ScalarValue, where: SourcePosition) -> None:
    if not isinstance(count.expr, Num):
        scope.note(assumptions.SHIFTS())
    elif not 0 <= count.expr.value < 64:
        raise Refusal(f"a shift by {count.expr.value} cannot be lifted; shift by 0 to 63", where)


def _whole_quotient(scope: PythonScope, left: ScalarValue, right: ScalarValue, where: SourcePosition) -> None:
    """// and % of floats are floors of quotients, which infinities do not have, and which are rounded where
    the divisor is no power of two."""
    divisor_raises(scope, left, right, where)
    if "float" not in (left.kind.scalar.kind, right.kind.scalar.kind):
        return
    scope.note(assumptions.QUOTIENTS())
    divisor = right.expr.value if isinstance(right.expr, Num) else 0
    if abs(math.frexp(divisor)[0]) != 0.5:
        scope.note(assumptions.ROUNDED())


def divisor_raises(scope: PythonScope, left: ScalarValue, right: ScalarValue, where: SourcePosition) -> None:
    """States that Python's own float division does not meet a zero; refuses a literal one."""
    if isinstance(right.expr, Num):
        if right.expr.value == 0:
            raise Refusal("a division by 0 raises; leave it out", where)
        return
    if left.kind.weak and right.kind.weak and "float" in (left.kind.scalar.kind, right.kind.scalar.kind):
        scope.note(assumptions.DIVISORS())


@lowers(ast.UnaryOp)
def _unary(scope: PythonScope, node: ast.UnaryOp) -> Value:
    where = place(node)
    if isinstance(node.op, ast.Not):
        test = arithmetic.truth(condition(scope, node.operand), where)
        return ScalarValue(arithmetic.negation(test, where), PY_BOOL)
    inner = number(scope, node.operand)
    match node.op:
        case ast.USub():
            return arithmetic.negate(inner, where)
        case ast.Invert():
            if inner.kind.scalar.kind != "int":
                raise Refusal("bits of a value that is no integer are asked for; use integers", where)
            arithmetic.check_settled(inner.kind, where)
            if isinstance(inner.expr, Num) and inner.kind.weak:
                return arithmetic.constant(~int(inner.expr.value), where)
            if inner.kind.weak:  # -x - 1
                one = arithmetic.constant(1, where)
                return arithmetic.binary("sub", arithmetic.negate(inner, where), one, where)
            return ScalarValue(Call("bitwise_not", (inner.expr,), inner.kind.scalar, where), inner.kind)
    if inner.kind.scalar.kind != "bool":
        return inner
    if not inner.kind.weak:
        raise Refusal(arithmetic.TRUTHS, where)
    return arithmetic.to_integer(inner, "trunc", where)


@lowers(ast.Compare)
def _compare(scope: PythonScope, node: ast.Compare) -> Value:
    where = place(node)
    left = number(scope, node.left)
    found: ScalarValue | None = None
    for operator, comparator in zip(node.ops, node.comparators):
        right = number(scope, comparator)
        step = arithmetic.compare(_COMPARISONS[type(operator)], left, right, where)
        if found is not None:
            both = arithmetic.both(found.expr, step.expr, where)
            step = ScalarValue(both, join(found.kind, step.kind))
        left, found = right, step
    assert found is not None
    return found


@lowers(ast.BoolOp)
def _logic(scope: PythonScope, node: ast.BoolOp) -> Value:
    """and, or: the last operand that was looked at, as Python has it; a condition between truth values."""
    where = place(node)
    found = number(scope, node.values[0])
    for part in node.values[1:]:
        with scope.block() as inside:
            other = number(scope, part)
        first = arithmetic.truth(found, where)
        if inside:
            held = scope.hold("first", ScalarValue(first, PY_BOOL), where).expr
            if isinstance(node.op, ast.And):
                found = chosen(scope, held, other, found, (inside, []), where)
            else:
                found = chosen(scope, held, found, other, ([], inside), where)
        elif found.kind.scalar.kind == "bool" and other.kind.scalar.kind == "bool":
            logical = arithmetic.both if isinstance(node.op, ast.And) else arithmetic.either
            found = ScalarValue(logical(first, other.expr, where), join(found.kind, other.kind))
        elif isinstance(node.op, ast.And):
            found = arithmetic.choose(first, other, found, where)
        else:
            found = arithmetic.choose(first, found, other, where)
    return found


def chosen(
    scope: PythonScope,
    condition: Expr,
    then: ScalarValue,
    otherwise: ScalarValue,
    sides: tuple[list[loops.Statement], list[loops.Statement]],
    where: SourcePosition,
) -> ScalarValue:
    """condition ? then : otherwise, by a branch whose sides begin with the statements given."""
    kind = arithmetic.choose(condition, then, otherwise, where).kind
    local = scope.variable("chosen", kind, None, where)
    made = []
    for side, result in zip(sides, (then, otherwise)):
        made.append((*side, loops.Assign(local.name, arithmetic.convert(result, kind, where), where)))
    scope.emit(loops.If(condition, made[0], made[1], where))
    return local.at(where)


@lowers(ast.IfExp)
def _choice(scope: PythonScope, node: ast.IfExp) -> Value:
    where = place(node)
    test = arithmetic.truth(condition(scope, node.test), where)
    with scope.block() as first:
        then = number(scope, node.body)
    with scope.block() as second:
        otherwise = number(scope, node.orelse)
    if first or second:
        return chosen(scope, test, then, otherwise, (first, second), where)
    return arithmetic.choose(test, then, otherwise, where)
