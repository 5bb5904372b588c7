"""Expressions with C's conversions written out: casts, wrapping of unsigned results, truth of a number."""

from __future__ import annotations

import operator as python
from collections.abc import Callable, Iterator
from dataclasses import replace

from tensmith.formula.types import BOOL, F32, F64, I32, I64, MachineType
from tensmith.lifting import loops
from tensmith.lifting.refusal import Refusal

WRAPPING = ("add", "sub", "mul", "neg", "left_shift", "bitwise_not")
# With the operands exchanged; integers only, NaN is not comparable.
NEGATED = {"less": "less_equal", "less_equal": "less"}
FOLDED: dict[str, Callable[[int, int], int]] = {
    "add": python.add,
    "sub": python.sub,
    "mul": python.mul,
    "left_shift": python.lshift,
}


def integer(value: int, position: loops.SourcePosition, kind: MachineType = I64) -> loops.Constant:
    return loops.Constant(value, kind, position)


def zero(kind: MachineType, position: loops.SourcePosition) -> loops.Expr:
    """0 of a type, false of truth values."""
    return cast(integer(0, position), kind)


def cast(value: loops.Expr, kind: MachineType, position: loops.SourcePosition | None = None) -> loops.Expr:
    """The value converted to a type; literals are converted here and now."""
    if value.type == kind:
        return value
    where = position or value.position
    if kind == BOOL:
        return truth(value)
    if isinstance(value, loops.Constant):
        literal = value.value
        if kind.kind == "int" and not isinstance(literal, float):
            return loops.Constant(kind.wrapped(int(literal)), kind, where)
        if kind == F64 or (kind == F32 and abs(literal) <= 1 << 24 and literal == int(literal)):
            return loops.Constant(float(literal), kind, where)
    return loops.ScalarCast(value, kind, where)


def truth(value: loops.Expr) -> loops.Expr:
    """Whether a scalar is not zero, as a bool."""
    if value.type == BOOL:
        return value
    if isinstance(value, loops.ScalarCast) and value.value.type == BOOL:
        return value.value
    if isinstance(value, loops.Constant):
        return loops.Constant(bool(value.value), BOOL, value.position)
    return loops.Apply("not_equal", (value, zero(value.type, value.position)), BOOL, value.position)


def negation(condition: loops.Expr) -> loops.Expr:
    """The opposite of a bool."""
    if isinstance(condition, loops.Constant):
        return replace(condition, value=not condition.value)
    if isinstance(condition, loops.Apply):
        a, *rest = condition.arguments
        if condition.operator == "not":
            return a
        if condition.operator in NEGATED and a.type.kind != "float":
            return replace(condition, operator=NEGATED[condition.operator], arguments=(rest[0], a))
        if condition.operator in ("and", "or"):
            other = "or" if condition.operator == "and" else "and"
            return replace(condition, operator=other, arguments=(negation(a), negation(rest[0])))
        if condition.operator in ("equal", "not_equal"):
            return replace(condition, operator="not_equal" if condition.operator == "equal" else "equal")
    return loops.Apply("not", (condition,), BOOL, condition.position)


def apply(
    operator: str, arguments: tuple[loops.Expr, ...], kind: MachineType, position: loops.SourcePosition
) -> loops.Expr:
    """An arithmetic operator in C's sense: integer division truncates, unsigned results wrap."""
    if operator == "mod":
        operator = "fmod"
    if kind.kind == "int":
        refuse_undefined(operator, arguments, kind, position)
        values = [a.value for a in arguments if isinstance(a, loops.Constant)]
        if operator in FOLDED and len(values) == 2:
            found = FOLDED[operator](int(values[0]), int(values[1]))
            if found == kind.wrapped(found):
                return loops.Constant(found, kind, position)
        if operator == "neg" and values and -values[0] == kind.wrapped(-int(values[0])):
            return loops.Constant(-values[0], kind, position)
    elif operator == "neg" and isinstance(arguments[0], loops.Constant):
        return loops.Constant(-arguments[0].value, kind, position)
    result = loops.Apply(operator, arguments, kind, position)
    wraps = kind.kind == "int" and not kind.signed and operator in WRAPPING
    return loops.ScalarCast(result, kind, position) if wraps else result


def refuse_undefined(
    operator: str, arguments: tuple[loops.Expr, ...], kind: MachineType, position: loops.SourcePosition
) -> None:
    """Refuse what is undefined whatever the input: division by 0, a shift by too many bits."""
    right = arguments[-1]
    if not isinstance(right, loops.Constant) or len(arguments) < 2:
        return
    if operator in ("div", "fmod") and right.value == 0:
        raise Refusal("a division by zero has no value: remove it", position)
    if operator in ("left_shift", "right_shift"):
        bits, left = kind.bits or 0, arguments[0]
        outside = not 0 <= right.value < bits
        if not outside and isinstance(left, loops.Constant) and kind.signed and operator == "left_shift":
            shifted = int(left.value) << int(right.value)
            outside = shifted != kind.wrapped(shifted)
        if outside:
            reason = f"a shift by {right.value} is undefined for a value of {bits} bits"
            raise Refusal(f"{reason}: use an unsigned or wider type", position)


def offset(a: loops.Expr, b: loops.Expr, position: loops.SourcePosition, sign: str = "add") -> loops.Expr:
    """The sum or difference of two subscripts, in 64 bits; adding 0 changes nothing."""
    if isinstance(b, loops.Constant) and b.value == 0:
        return a
    if isinstance(a, loops.Constant) and a.value == 0 and sign == "add":
        return b
    return apply(sign, (cast(a, I64), cast(b, I64)), I64, position)


def common(a: MachineType, b: MachineType) -> MachineType:
    """The usual arithmetic conversions (C11 6.3.1.8)."""
    if "float" in (a.kind, b.kind):
        return F64 if F64 in (a, b) else F32
    a, b = promoted(a), promoted(b)
    if a == b:
        return a
    assert a.bits is not None and b.bits is not None
    if a.bits != b.bits:
        return a if a.bits > b.bits else b
    return a if not a.signed else b


def promoted(kind: MachineType) -> MachineType:
    """Integer promotion: what is narrower than int becomes int."""
    if kind.kind == "float" or (kind.kind == "int" and kind.bits is not None and kind.bits >= 32):
        return kind
    return I32


def defined_everywhere(value: loops.Expr) -> bool:
    """Whether evaluating cannot go wrong: no loads, no divisions by what may be 0, no variable shifts."""
    match value:
        case loops.Load() | loops.Length():
            return False
        case loops.ScalarCast(inner, kind, _):
            return defined_everywhere(inner) and not (inner.type.kind == "float" and kind.kind == "int")
        case loops.Apply(operator, arguments, kind, _):
            risky = operator in ("div", "fmod", "left_shift", "right_shift") and kind.kind == "int"
            if risky and not (isinstance(arguments[1], loops.Constant) and arguments[1].value > 0):
                return False
            return all(map(defined_everywhere, arguments))
    return True


def surely(value: loops.Expr) -> Iterator[loops.Expr]:
    """The parts of an expression that are computed whatever its conditions choose."""
    yield value
    match value:
        case loops.ScalarCast(inner, _, _):
            yield from surely(inner)
        case loops.Apply("where", (condition, _, _), _, _):
            yield from surely(condition)
        case loops.Apply(_, parts, _, _) | loops.Load(_, parts, _, _):
            for part in parts:
                yield from surely(part)
