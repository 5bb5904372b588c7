"""Expressions of the loop language as text, for what users are told."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

from tensmith.lifting import loops

INFIX = {
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
PREFIX = {"neg": "-", "not": "not ", "bitwise_not": "~"}
SIGNS = {**INFIX, **PREFIX, "where": "if"}
Part = TypeVar("Part")


def text(expression: loops.Expr) -> str:
    """An expression; what is inside an operator stands in parentheses."""
    match expression:
        case loops.Constant(value, kind, _):
            return str(value).lower() if kind.kind == "bool" else str(value)
        case loops.Variable(name, _, _):
            return name
        case loops.Load(array, indices, _, _):
            return f"{array}[{', '.join(map(text, indices))}]"
        case loops.Length(array, axis, _, _, row):
            whole = f"{array}[{', '.join(map(text, row))}]" if row else array
            return f"len({whole}, {axis})" if axis else f"len({whole})"
        case loops.ScalarCast(value, kind, _):
            return f"{kind}({text(value)})"
        case loops.Apply(operator, arguments, _, _):
            return applied(operator, arguments, text, inner)


def inner(expression: loops.Expr) -> str:
    """An operand: in parentheses where it is an operator itself."""
    shown = text(expression)
    return f"({shown})" if isinstance(expression, loops.Apply) and expression.operator in SIGNS else shown


def applied(
    operator: str, arguments: Sequence[Part], text: Callable[[Part], str], inner: Callable[[Part], str]
) -> str:
    """An operator or function of what `text` says alone, and `inner` as an operand."""
    match [inner(argument) for argument in arguments]:
        case [a, b] if operator in INFIX:
            return f"{a} {INFIX[operator]} {b}"
        case [a] if operator in PREFIX:
            return f"{PREFIX[operator]}{a}"
        case [condition, a, b] if operator == "where":
            return f"{a} if {condition} else {b}"
    return f"{operator}({', '.join(map(text, arguments))})"
