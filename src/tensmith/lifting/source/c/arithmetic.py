"""Expressions with C's conversions written out: casts, wrapping of unsigned results, truth of a number."""

from __future__ import annotations

import operator as python
from collections.abc import Callable, Iterator
from dataclasses import replace

from tensmith.formula.expr import Call, Expr, Num, SourcePosition, is_cast
from tensmith.formula.functions import WRAPPING
from tensmith.formula.types import BOOL, F32, F64, I32, I64, MachineType
from tensmith.lifting import loops
from tensmith.lifting.refusal import Refusal

FOLDED: dict[str, Callable[[int, int], int]] = {
    "add": python.add,
    "sub": python.sub,
    "mul": python.mul,
    "left_shift": python.lshift,
}


def integer(value: int, position: SourcePosition, kind: MachineType = I64) -> Num:
    return Num(value, kind, position)


def zero(kind: MachineType, position: SourcePosition) -> Expr:
    """0 of a type, false of truth values."""
    return cast(integer(0, position), kind)


def cast(value: Expr, kind: MachineType, position: SourcePosition | None = None) -> Expr:
    """The value converted to a type; literals are converted here and now."""
    if value.type == kind:
        return value
    where = position or value.position
    if kind == BOOL:
        return truth(value)
    if isinstance(value, Num):
        literal = value.value
        if kind.kind == "int" and not isinstance(literal, float):
            return Num(kind.wrapped(int(literal)), kind, where)
        if kind == F64 or (kind == F32 and -(1 << 24) <= literal <= 1 << 24 and literal == int(literal)):
            return Num(float(literal), kind, where)
    return Call("cast", (value,), kind, where)


def truth(value: Expr) -> Expr:
    """Whether a scalar is not zero, as a bool."""
    if value.type == BOOL:
        return value
    if is_cast(value) and value.args[0].type == BOOL:
        return value.args[0]
    if isinstance(value, Num):
        return Num(bool(value.value), BOOL, value.position)
    return Call("not_equal", (value, zero(value.type, value.position)), BOOL, value.position)


def negation(condition: Expr) -> Expr:
    """The opposite of a bool."""
    if isinstance(condition, Num):
        return replace(condition, value=not condition.value)
    if isinstance(condition, Call):
        if condition.function == "not":
            return condition.args[0]
        if condition.function in ("and", "or"):
            other = "or" if condition.function == "and" else "and"
            return replace(condition, function=other, args=tuple(map(negation, condition.args)))
        if (turned := loops.opposite(condition)) is not None:
            return turned
    return Call("not", (condition,), BOOL, condition.position)


def apply(operator: str, arguments: tuple[Expr, ...], kind: MachineType, position: SourcePosition) -> Expr:
    """An arithmetic operator in C's sense: integer division truncates, unsigned results wrap."""
    if operator == "mod":
        operator = "fmod"
    if kind.kind == "int":
        refuse_undefined(operator, arguments, kind, position)
        values = [a.value for a in arguments if isinstance(a, Num)]
        if operator in FOLDED and len(values) == 2:
            found = FOLDED[operator](int(values[0]), int(values[1]))
            if found == kind.wrapped(found):
                return Num(found, kind, position)
        if operator == "neg" and values and -values[0] == kind.wrapped(-int(values[0])):
            return Num(-values[0], kind, position)
    elif operator == "neg" and isinstance(arguments[0], Num):
        return Num(-arguments[0].value, kind, position)
    result = Call(operator, arguments, kind, position)
    wraps = kind.kind == "int" and not kind.signed and operator in WRAPPING
    return Call("cast", (result,), kind, position) if wraps else result


def refuse_undefined(
    operator: str, arguments: tuple[Expr, ...], kind: MachineType, position: SourcePosition
) -> None:
    """Refuse what is undefined whatever the input: division by 0, a shift by too many bits."""
    right = arguments[-1]
    if not isinstance(right, Num) or len(arguments) < 2:
        return
    if operator in ("div", "fmod") and right.value == 0:
        raise Refusal("a division by zero has no value: remove it", position)
    if operator in ("left_shift", "right_shift"):
        bits, left = kind.bits or 0, arguments[0]
        outside = not 0 <= right.value < bits
        if not outside and isinstance(left, Num) and kind.signed and operator == "left_shift":
            shifted = int(left.value) << int(right.value)
            outside = shifted != kind.wrapped(shifted)
        if outside:
            reason = f"a shift by {right.value} is undefined for a value of {bits} bits"
            raise Refusal(f"{reason}: use an unsigned or wider type", position)


def offset(a: Expr, b: Expr, position: SourcePosition, sign: str = "add") -> Expr:
    """The sum or difference of two subscripts, in 64 bits; adding 0 changes nothing."""
    if isinstance(b, Num) and b.value == 0:
        return a
    if isinstance(a, Num) and a.value == 0 and sign == "add":
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


def defined_everywhere(value: Expr) -> bool:
    """Whether evaluating cannot go wrong: no loads, no divisions by what may be 0, no variable shifts."""
    match value:
        case loops.Length(row=row):
            return not row
        case loops.Load():
            return False
        case Call("cast", (inner,), kind):
            return defined_everywhere(inner) and not (inner.type.kind == "float" and kind.kind == "int")
        case Call(operator, arguments, kind):
            risky = operator in ("div", "fmod", "left_shift", "right_shift") and kind.kind == "int"
            if risky and not (isinstance(arguments[1], Num) and arguments[1].value > 0):
                return False
            return all(map(defined_everywhere, arguments))
    return True


def surely(value: Expr) -> Iterator[Expr]:
    """The parts of an expression that are computed whatever its conditions choose."""
    yield value
    match value:
        case Call("where", (condition, _, _)):
            yield from surely(condition)
        case Call(_, parts) | loops.Load(_, parts):
            for part in parts:
                yield from surely(part)
