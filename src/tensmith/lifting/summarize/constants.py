"""Operators on constants, as every arithmetic agrees on them."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import Any

from tensmith.formula.expr import Call, Num, Number
from tensmith.formula.types import MachineType
from tensmith.lifting.loops import dtype_of
from tensmith.lifting.refusal import Refusal
from tensmith.lifting.summary import Term


def number(value: Number, type_: MachineType) -> Num:
    """A constant; floats at their exact binary value."""
    return Num(Fraction(value), type_)


def literal(value: Number, type_: MachineType) -> Term:
    """A constant of the source.

    Raises:
        Refusal: it is NaN, which compares with nothing.
    """
    if isinstance(value, float) and math.isnan(value):
        raise Refusal("NaN is no real number, and floats are proved as reals; use a number")
    if isinstance(value, float) and math.isinf(value):
        return infinity(value > 0, type_)
    return number(value, type_)


def infinity(positive: bool, type_: MachineType) -> Term:
    """Above all numbers of a float type, or below."""
    found = Call("inf", (), type_)
    return found if positive else Call("neg", (found,), type_)


def infinite(term: Term) -> int:
    """1 for infinity, -1 for its negative, 0 for all other terms."""
    match term:
        case Call("inf"):
            return 1
        case Call("neg", (Call("inf"),)):
            return -1
    return 0


def identity(kind: str, type_: MachineType) -> Term:
    """What joining leaves everything as it is."""
    if kind in ("sum", "prod"):
        return Num(Fraction(kind == "prod"), type_)
    if type_.kind == "float":
        return infinity(kind == "min", type_)
    least, greatest = dtype_of(type_).limits or (0, 1)
    return Num(Fraction(least if kind == "max" else greatest), type_)


def unknown(type_: MachineType) -> Term:
    """A value of which nothing is known."""
    return Call("unknown", (), type_)


def truncated(a: Any, b: Any) -> int:
    """a / b toward 0."""
    return int(Fraction(a) / b)


# Of integers, fractions and truth values.
EXACT: dict[str, Callable[..., Any]] = {
    "neg": operator.neg,
    "abs": abs,
    "add": operator.add,
    "sub": operator.sub,
    "mul": operator.mul,
    "minimum": min,
    "maximum": max,
    "fmod": lambda a, b: a - b * truncated(a, b),
    "floor_div": operator.floordiv,
    "mod": operator.mod,
    "less": operator.lt,
    "less_equal": operator.le,
    "equal": operator.eq,
    "not_equal": operator.ne,
    "not": operator.not_,
    "and": lambda a, b: bool(a and b),
    "or": lambda a, b: bool(a or b),
}
_CONSTANT = EXACT | {
    "div": truncated,
    "left_shift": lambda a, b: a * 2 ** int(b),
    "right_shift": lambda a, b: a // 2 ** int(b),
}


def fold_constants(function: str, values: Sequence[Fraction], type_: MachineType) -> Num | None:
    """An integer or boolean operator on constants; floats are left alone, which keeps their rounding."""
    if type_.kind == "float" and function != "neg":
        return None
    if function.endswith(("div", "mod")) and values[1] == 0:
        return None
    if function in ("left_shift", "right_shift") and not 0 <= values[1] < 64:
        return None
    make = _CONSTANT.get(function)
    return None if make is None else number(Fraction(make(*values)), type_)


def cast_constant(value: Fraction, source: MachineType, target: MachineType) -> Num | None:
    if target.kind == "float":
        exact = source.kind != "float" and abs(value) < 2**24
        exact = exact or target.bits == 64 or float(value) == 0 or abs(value) in (1, 2, Fraction(1, 2))
        return number(value, target) if exact else None
    if source.kind == "float":
        value = Fraction(int(value))
    if target.kind == "bool":
        return number(int(value != 0), target)
    return number(target.wrapped(int(value)), target)
