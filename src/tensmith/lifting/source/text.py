"""Expressions of the loop language as text, for what users are told."""

from __future__ import annotations

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
        case loops.Apply(operator, (a, b), _, _) if operator in INFIX:
            return f"{inner(a)} {INFIX[operator]} {inner(b)}"
        case loops.Apply(operator, (a,), _, _) if operator in PREFIX:
            return f"{PREFIX[operator]}{inner(a)}"
        case loops.Apply("where", (condition, a, b), _, _):
            return f"{inner(a)} if {inner(condition)} else {inner(b)}"
        case loops.Apply(operator, arguments, _, _):
            return f"{operator}({', '.join(map(text, arguments))})"


def inner(expression: loops.Expr) -> str:
    """An operand: in parentheses where it is an operator itself."""
    shown = text(expression)
    wrapped = isinstance(expression, loops.Apply) and (
        expression.operator in INFIX or expression.operator in PREFIX or expression.operator == "where"
    )
    return f"({shown})" if wrapped else shown
