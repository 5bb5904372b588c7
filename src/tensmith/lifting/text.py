"""Expressions as text, for what users are told: of the loop language, of closed forms, of conditions."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

from tensmith.formula.expr import Call, Choose, Expr, Num, Read, Reduce, Size, is_cast, rebuilt
from tensmith.lifting.loops import Length, Load
from tensmith.lifting.summary import first

_INFIX = {
    "add": "+",
    "sub": "-",
    "mul": "*",
    "div": "/",
    "floor_div": "//",
    "fmod": "%",
    "mod": "%",
    "less": "<",
    "less_equal": "<=",
    "equal": "==",
    "not_equal": "!=",
    "and": "and",
    "or": "or",
    "left_shift": "<<",
    "right_shift": ">>",
    "bitwise_and": "&",
    "bitwise_or": "|",
    "bitwise_xor": "^",
}
_PREFIX = {"neg": "-", "not": "not ", "bitwise_not": "~"}
SIGNS = {**_INFIX, **_PREFIX, "where": "if"}
_MIRRORED = {"less": ">", "less_equal": ">="}


def text(expr: Expr) -> str:
    """An expression in one line; what is inside an operator stands in parentheses."""
    match expr:
        case Num(value, kind):
            return _number(value) if kind.kind != "bool" else str(bool(value)).lower()
        case Size(poly):
            return str(poly)
        case Read(name, ()):
            return name
        case Read(array, places):
            return f"{array}[{', '.join(map(str, places))}]"
        case Load(array, indices) | Call("element", (Read(array), *indices)):
            return f"{array}[{', '.join(map(text, indices))}]"
        case Length(array, axis, row=row):
            whole = f"{array}[{', '.join(map(text, row))}]" if row else array
            return f"len({whole}, {axis})" if axis else f"len({whole})"
        case Call("cast", (inner,), kind):
            return f"{kind}({text(inner)})"
        case Call("inf"):
            return "infinity"
        case Call(function, args):
            return _applied(function, args)
        case Reduce(how, var, extent, body):
            return f"{how}({var} < {extent}: {text(body)}; from {text(first(expr))})"
        case Choose(conditions, then, otherwise):
            test, other = " and ".join(f"{poly} >= 0" for poly in conditions), text(otherwise)
            other = other[1:-1] if isinstance(otherwise, Choose) else other
            return f"({text(then)} if {test} else {other})"
    raise TypeError(f"not an expression: {expr!r}")


def bare(expr: Expr) -> Expr:
    """An expression without conversions."""
    if is_cast(expr):
        return bare(expr.args[0])
    if isinstance(expr, Load):
        return replace(expr, indices=tuple(map(bare, expr.indices)))
    return rebuilt(expr, bare)


def operand(expr: Expr) -> str:
    """An expression inside an operator: in parentheses where it is one itself."""
    shown = text(expr)
    operator = isinstance(expr, Call) and expr.function in SIGNS
    sum_ = isinstance(expr, Size) and len(expr.poly.terms) > 1
    return f"({shown})" if operator or sum_ or shown.startswith("-") else shown


def _applied(function: str, args: tuple[Expr, ...]) -> str:
    match args:
        case [Num(), right] if function in _MIRRORED:  # 0 < n reads n > 0
            return f"{operand(right)} {_MIRRORED[function]} {operand(args[0])}"
        case [left, right] if function in _INFIX:
            return f"{operand(left)} {_INFIX[function]} {operand(right)}"
        case [inner] if function in _PREFIX:
            return f"{_PREFIX[function]}{operand(inner)}"
        case [condition, then, otherwise] if function == "where":
            return f"{operand(then)} if {operand(condition)} else {operand(otherwise)}"
    return f"{function}({', '.join(map(text, args))})"


def _number(value: int | float | Fraction) -> str:
    """A literal as it was written; of what was computed the exact whole number, or a float."""
    if not isinstance(value, Fraction):
        return str(value)
    return str(value) if value.denominator == 1 else str(float(value))
