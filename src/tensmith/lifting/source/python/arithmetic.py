"""Operators on typed numbers: Python's conversions and NumPy's wrapping, written out."""

from __future__ import annotations

import math
from collections.abc import Sequence

from tensmith.formula.expr import Call, Expr, Num, Number, SourcePosition
from tensmith.formula.functions import MIRRORED
from tensmith.formula.types import BOOL, F64, I32, INT, MachineType
from tensmith.lifting.refusal import Refusal
from tensmith.lifting.source.python import kinds as python_kinds
from tensmith.lifting.source.python.scope import ScalarValue, may_fail

TRUTHS = "NumPy's truth values are no numbers; convert them by int()"
_LARGEST_POWER = 16


def constant(value: int | float | bool, position: SourcePosition) -> ScalarValue:
    """A literal of Python's own types."""
    if isinstance(value, int) and not -(1 << 63) <= value < 1 << 63:
        raise Refusal(
            f"an integer of {value.bit_length()} bits does not fit in 64; use smaller ones", position
        )
    kind = python_kinds.own(value)
    return ScalarValue(Num(value, kind.scalar, position), kind)


def cast(expr: Expr, to: MachineType, position: SourcePosition) -> Expr:
    """A conversion written out; literals are converted at once where that is exact."""
    if expr.type == to:
        return expr
    if isinstance(expr, Num) and _exact(expr.value, to):
        return Num(float(expr.value) if to.kind == "float" else int(expr.value), to, expr.position)
    return Call("cast", (expr,), to, position)


def _exact(value: Number, to: MachineType) -> bool:
    if to.kind == "float":
        return to.bits == 64 and not (isinstance(value, int) and int(float(value)) != value)
    if to.kind == "bool" or isinstance(value, float):
        return False
    return fits(int(value), to)


def fits(value: int, to: MachineType) -> bool:
    """Whether an integer lies in the range of a machine type."""
    return to.wrapped(value) == value


def convert(number: ScalarValue, to: python_kinds.NumberKind, position: SourcePosition) -> Expr:
    """The number where a value of kind `to` is expected; refuses what would lose a fraction silently."""
    scalar = number.expr.type
    if scalar.kind == "float" and to.scalar.kind != "float":
        raise Refusal(
            "a float is stored where an integer is expected; convert it by int(), or make the place a float",
            position,
        )
    if (
        isinstance(number.expr, Num)
        and isinstance(number.expr.value, int)
        and to.scalar.kind == "int"
        and not fits(number.expr.value, to.scalar)
    ):
        raise Refusal(f"{number.expr.value} does not fit in {to}; use a wider type", position)
    return cast(number.expr, to.scalar, position)


def binary(operator: str, left: ScalarValue, right: ScalarValue, position: SourcePosition) -> ScalarValue:
    """add, sub, mul on numbers of any kinds."""
    kind = python_kinds.arithmetic(left.kind, right.kind)
    return _machine(operator, kind, (left, right), position)


def _machine(
    operator: str,
    kind: python_kinds.NumberKind,
    operands: Sequence[ScalarValue],
    position: SourcePosition,
) -> ScalarValue:
    """An operator that NumPy wraps in its own width; narrow operands are widened and the result cut."""
    scalar = kind.scalar
    truths = [{one for one in operand.kind.kinds if one.scalar.kind == "bool"} for operand in operands]
    if all(truths) and not set().union(*truths) <= {python_kinds.PY_BOOL}:
        raise Refusal(TRUTHS, position)
    check_settled(kind, position)
    narrow = scalar.kind == "int" and scalar.bits is not None and scalar.bits < 32
    work = I32 if narrow else scalar
    values = tuple(cast(convert(operand, kind, position), work, position) for operand in operands)
    result: Expr = Call(operator, values, work, position)
    if narrow or (scalar.kind == "int" and scalar.bits is not None and not scalar.signed):
        result = Call("cast", (result,), scalar, position)
    return ScalarValue(result, kind)


def check_settled(kind: python_kinds.NumberKind, position: SourcePosition) -> None:
    """Refuses to compute in one kind or another by the path taken: 8 bits wrap, Python's integers do not."""
    if not kind.settled:
        names = " or ".join(sorted(f"{'Python' if one.weak else 'NumPy'}'s {one}" for one in kind.among))
        raise Refusal(
            f"this computes with {names}, by the path taken; convert by int() or a type of NumPy", position
        )


def negate(number: ScalarValue, position: SourcePosition) -> ScalarValue:
    """-x; a literal's sign becomes part of it."""
    if isinstance(number.expr, Num) and number.kind != python_kinds.PY_BOOL and number.kind.weak:
        return ScalarValue(Num(-number.expr.value, number.expr.type, position), number.kind)
    return _machine("neg", python_kinds.arithmetic(number.kind, number.kind), (number,), position)


def counts_back(index: Expr) -> bool:
    """Whether a subscript is negative by its form: -1, -n, -n - 1, ~n."""
    match index:
        case Num(value):
            return value < 0
        case Call("neg"):
            return True
        case Call("sub", (left, Num(value))):
            return value >= 0 and counts_back(left)
        case Call("sub", (left, _)):
            return counts_back(left)
    return False


def divide(left: ScalarValue, right: ScalarValue, position: SourcePosition) -> ScalarValue:
    """left / right, a float."""
    kind = python_kinds.quotient(left.kind, right.kind)
    values = (convert(left, kind, position), convert(right, kind, position))
    return ScalarValue(Call("div", values, kind.scalar, position), kind)


def floor_divide(left: ScalarValue, right: ScalarValue, position: SourcePosition) -> ScalarValue:
    """left // right."""
    kind = python_kinds.arithmetic(left.kind, right.kind)
    if kind.scalar.kind == "float":
        whole = divide(left, right, position)
        return ScalarValue(Call("floor", (whole.expr,), whole.expr.type, position), kind)
    return _machine("floor_div", kind, (left, right), position)


def remainder(left: ScalarValue, right: ScalarValue, position: SourcePosition) -> ScalarValue:
    """left % right, with the sign of right."""
    kind = python_kinds.arithmetic(left.kind, right.kind)
    if kind.scalar.kind == "float":
        whole = floor_divide(left, right, position)
        return binary("sub", left, binary("mul", right, whole, position), position)
    return _machine("mod", kind, (left, right), position)


def bitwise(operator: str, left: ScalarValue, right: ScalarValue, position: SourcePosition) -> ScalarValue:
    """& | ^ << >> on integers; & | ^ of truth values are and, or, ne."""
    kind = python_kinds.promote(left.kind, right.kind)
    if kind.scalar.kind == "float":
        raise Refusal("bits of a float are asked for; use integers", position)
    if kind.scalar.kind == "bool":
        logical = {"bitwise_and": "and", "bitwise_or": "or", "bitwise_xor": "not_equal"}
        if operator not in logical:
            kind = python_kinds.PY_INT
        else:
            return ScalarValue(Call(logical[operator], (left.expr, right.expr), BOOL, position), kind)
    return _machine(operator, kind, (left, right), position)


def power(
    base: ScalarValue, exponent: ScalarValue, position: SourcePosition, numpy: bool = False
) -> ScalarValue:
    """base ** exponent: repeated products for small whole exponents, sqrt for 0.5."""
    value = exponent.expr.value if isinstance(exponent.expr, Num) else None
    strong = numpy or not (base.kind.weak and exponent.kind.weak)
    if not exponent.kind.weak:
        kind = python_kinds.arithmetic(base.kind, exponent.kind)
        base = ScalarValue(convert(base, kind, position), kind)
    if isinstance(value, int) and value < 0 and strong and base.kind.scalar.kind != "float":
        raise Refusal("NumPy's integers have no negative powers; convert the base by float()", position)
    if isinstance(value, int) and abs(value) <= _LARGEST_POWER:
        result = _repeated(base, abs(value), position)
        return result if value >= 0 else divide(constant(1, position), result, position)
    if value == 0.5:
        return apply_float("sqrt", base, position)
    kind = python_kinds.arithmetic(base.kind, exponent.kind)
    if kind.scalar.kind == "int":
        raise Refusal(
            f"an integer power is lifted where the exponent is a literal from -{_LARGEST_POWER} "
            f"to {_LARGEST_POWER}; write the product, or use floats",
            position,
        )
    values = (convert(base, kind, position), convert(exponent, kind, position))
    return ScalarValue(Call("pow", values, kind.scalar, position), kind)


def _repeated(base: ScalarValue, times: int, position: SourcePosition) -> ScalarValue:
    if times == 0:
        return ScalarValue(cast(Num(1, INT, position), base.kind.scalar, position), base.kind)
    if times == 1:
        return base
    half = _repeated(base, times // 2, position)
    square = binary("mul", half, half, position)
    return binary("mul", square, base, position) if times % 2 else square


def apply_float(
    operator: str, number: ScalarValue, position: SourcePosition, strong: bool = False
) -> ScalarValue:
    """A function of one float; integers become f64 first."""
    kind = number.kind
    if any(
        not one.weak and one.scalar.kind != "float" and (one.scalar.bits or 64) < 32 for one in kind.kinds
    ):
        raise Refusal("NumPy takes this of 8 and 16 bits in half precision; convert it by float()", position)
    if kind.scalar.kind != "float":
        kind = python_kinds.NumberKind(F64, not strong)
    return ScalarValue(Call(operator, (convert(number, kind, position),), kind.scalar, position), kind)


def absolute(number: ScalarValue, position: SourcePosition) -> ScalarValue:
    return _machine("abs", python_kinds.arithmetic(number.kind, number.kind), (number,), position)


def compare(operator: str, left: ScalarValue, right: ScalarValue, position: SourcePosition) -> ScalarValue:
    """A comparison: Python's are exact between integers and floats, which f64 keeps up to 2^53."""
    result = python_kinds.compared(left.kind, right.kind)
    left, right = _as_compared(left), _as_compared(right)
    kind = python_kinds.promote(left.kind, right.kind)
    if python_kinds.PY_BOOL in (left.kind, right.kind) and kind.scalar.kind == "bool":
        kind = python_kinds.PY_INT if operator in ("less", "less_equal", "greater", "greater_equal") else kind
    if kind.scalar.kind == "int" and left.kind.weak != right.kind.weak and not fit(kind, left, right):
        kind = python_kinds.PY_INT  # NumPy compares with Python's integers exactly
    first, second = convert(left, kind, position), convert(right, kind, position)
    if operator in MIRRORED:
        first, second, operator = second, first, MIRRORED[operator]
    return ScalarValue(Call(operator, (first, second), BOOL, position), result)


def _as_compared(number: ScalarValue) -> ScalarValue:
    """A number of one of several kinds as one that holds them all: comparisons are exact."""
    kind = number.kind
    if not kind.among:
        return number
    return ScalarValue(
        number.expr,
        python_kinds.PY_INT if kind.scalar == INT else python_kinds.NumberKind(kind.scalar, kind.weak),
    )


def fit(kind: python_kinds.NumberKind, *numbers: ScalarValue) -> bool:
    """Whether Python's integers among the numbers are literals that the kind holds."""
    return all(
        isinstance(number.expr, Num) and fits(int(number.expr.value), kind.scalar)
        for number in numbers
        if number.kind.weak
    )


def truth(number: ScalarValue, position: SourcePosition) -> Expr:
    """bool(x)."""
    if number.kind.scalar.kind == "bool":
        return number.expr
    zero = cast(Num(0, INT, position), number.kind.scalar, position)
    return Call("not_equal", (number.expr, zero), BOOL, position)


def negation(condition: Expr, position: SourcePosition) -> Expr:
    if isinstance(condition, Num):
        return Num(not condition.value, BOOL, position)
    return Call("not", (condition,), BOOL, position)


def both(left: Expr, right: Expr, position: SourcePosition) -> Expr:
    """left and right: the right side is looked at only where the left holds, if it may be undefined."""
    if may_fail(right):
        return Call("where", (left, right, Num(False, BOOL, position)), BOOL, position)
    return Call("and", (left, right), BOOL, position)


def either(left: Expr, right: Expr, position: SourcePosition) -> Expr:
    if may_fail(right):
        return Call("where", (left, Num(True, BOOL, position), right), BOOL, position)
    return Call("or", (left, right), BOOL, position)


def choose(
    condition: Expr, then: ScalarValue, otherwise: ScalarValue, position: SourcePosition
) -> ScalarValue:
    """then if condition else otherwise."""
    return select(condition, then, otherwise, _one_of(then, otherwise), position)


def _one_of(*numbers: ScalarValue) -> python_kinds.NumberKind:
    """The kind of what is one of several numbers."""
    return python_kinds.join(
        *(
            python_kinds.literal(number.expr.value)
            if isinstance(number.expr, Num) and number.kind.weak
            else number.kind
            for number in numbers
        )
    )


def select(
    condition: Expr,
    then: ScalarValue,
    otherwise: ScalarValue,
    kind: python_kinds.NumberKind,
    position: SourcePosition,
) -> ScalarValue:
    """One of two numbers as a number of some kind."""
    values = (condition, convert(then, kind, position), convert(otherwise, kind, position))
    return ScalarValue(Call("where", values, kind.scalar, position), kind)


def python_extreme(
    operator: str, left: ScalarValue, right: ScalarValue, position: SourcePosition
) -> ScalarValue:
    """min(left, right), max(left, right): of floats the left unless the right is less (greater)."""
    kind = _one_of(left, right)
    if isinstance(right.expr, Num) and _is_no_bound(operator, left.kind, right.expr.value):
        return left
    if kind.scalar.kind == "float":
        better = compare("less" if operator == "minimum" else "greater", right, left, position)
        return choose(better.expr, right, left, position)
    return _extreme(operator, left, right, kind, position)


def numpy_extreme(
    operator: str, left: ScalarValue, right: ScalarValue, position: SourcePosition
) -> ScalarValue:
    """numpy.minimum and maximum."""
    return _extreme(operator, left, right, python_kinds.promote(left.kind, right.kind), position)


def _extreme(
    operator: str,
    left: ScalarValue,
    right: ScalarValue,
    kind: python_kinds.NumberKind,
    position: SourcePosition,
) -> ScalarValue:
    if kind.scalar.kind == "bool":
        kind = python_kinds.PY_INT
    values = (convert(left, kind, position), convert(right, kind, position))
    return ScalarValue(Call(operator, values, kind.scalar, position), kind)


def _is_no_bound(operator: str, kind: python_kinds.NumberKind, bound: Number) -> bool:
    """Whether no integer of a machine type lies beyond a bound."""
    if kind.among or kind.scalar.limits is None:
        return False
    low, high = kind.scalar.limits
    return bound >= high if operator == "minimum" else bound <= low


def beyond(left: ScalarValue, right: ScalarValue, largest: bool, position: SourcePosition) -> ScalarValue:
    """numpy.fmax and fmin: the other argument where one is NaN."""
    kind = python_kinds.promote(left.kind, right.kind)
    if kind.scalar.kind != "float":
        return numpy_extreme("maximum" if largest else "minimum", left, right, position)
    behind = compare("less" if largest else "greater", left, right, position)
    absent = compare("not_equal", left, left, position)
    either = Call("or", (behind.expr, absent.expr), BOOL, position)
    return select(either, right, left, kind, position)


def to_integer(number: ScalarValue, how: str, position: SourcePosition) -> ScalarValue:
    """int(x), math.floor(x), math.ceil(x), round(x): a Python integer."""
    if number.kind.scalar.kind == "float":
        expr = number.expr
        if how != "trunc":
            expr = Call(how, (expr,), expr.type, position)
        return ScalarValue(Call("cast", (expr,), INT, position), python_kinds.PY_INT)
    return ScalarValue(cast(number.expr, INT, position), python_kinds.PY_INT)


def to_float(number: ScalarValue, position: SourcePosition) -> ScalarValue:
    """float(x)."""
    return ScalarValue(cast(number.expr, F64, position), python_kinds.PY_FLOAT)


def to_kind(number: ScalarValue, kind: python_kinds.NumberKind, position: SourcePosition) -> ScalarValue:
    """numpy.float32(x), numpy.uint8(x) and stores to NumPy arrays: any conversion."""
    if kind.scalar.kind == "bool":
        return ScalarValue(truth(number, position), kind)
    if number.kind.scalar.kind == "float" and kind.scalar.kind == "int":
        if isinstance(number.expr, Num) and not math.isfinite(number.expr.value):
            raise Refusal(f"{number.expr.value} has no integer; use a float type", position)
        return ScalarValue(Call("cast", (number.expr,), kind.scalar, position), kind)
    if number.kind.weak and number.kind.scalar.kind == "int":
        return ScalarValue(convert(number, kind, position), kind)
    return ScalarValue(cast(number.expr, kind.scalar, position), kind)
