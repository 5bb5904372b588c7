"""Conditions in words: what a requirement says of the branches under which it is needed."""

from __future__ import annotations

from fractions import Fraction

from tensmith.formula.expr import Call, Num, Read, Size
from tensmith.lifting.source.text import INFIX
from tensmith.lifting.summary import Path, Term

_OPPOSITE = {
    "less": ("less_equal", True), "less_equal": ("less", True), "equal": ("not_equal", False),
    "not_equal": ("equal", False),
}  # fmt: skip


def under(text: str, path: Path) -> str:
    """A requirement with the branches it stands in: "elements of x >= n where n > 0"."""
    if not path:
        return text
    return f"{text} where {' and '.join(_step(condition, holds) for condition, holds in path)}"


def _step(condition: Term, holds: bool) -> str:
    match condition:
        case Call("not", (inner,)):
            return _step(inner, not holds)
        case Call(("less" | "less_equal" | "equal" | "not_equal") as operator, (left, right)) if (
            not holds and _whole(condition)
        ):
            other, swapped = _OPPOSITE[operator]
            return _said(Call(other, (right, left) if swapped else (left, right), condition.type))
    return _said(condition) if holds else f"not {_enclosed(condition)}"


def _whole(condition: Call) -> bool:
    """Whether numbers are compared that have an order: no NaN."""
    return all(argument.type.kind != "float" for argument in condition.args) or condition.function in (
        "equal",
        "not_equal",
    )


def _said(term: Term) -> str:
    match term:
        case Num(value):
            return str(Fraction(value)) if value == int(value) else str(float(value))
        case Size(poly):
            return str(poly)
        case Read(name, ()):
            return name
        case Read(array, indices):
            return f"{array}[{', '.join(map(str, indices))}]"
        case Call("cast", (inner,)):
            return _said(inner)
        case Call(("less" | "less_equal") as operator, (Num() as left, right)):  # 0 < n reads n > 0
            return f"{_enclosed(right)} {'>' if operator == 'less' else '>='} {_said(left)}"
        case Call("not", (inner,)):
            return f"not {_enclosed(inner)}"
        case Call("neg", (inner,)):
            return f"-{_enclosed(inner)}"
        case Call("element", (array, *subscripts)):
            return f"{_said(array)}[{', '.join(map(_said, subscripts))}]"
        case Call(operator, (left, right)) if operator in INFIX:
            return f"{_enclosed(left)} {INFIX[operator]} {_enclosed(right)}"
        case Call(operator, arguments):
            return f"{operator}({', '.join(map(_said, arguments))})"
    return "..."


def _enclosed(term: Term) -> str:
    text = _said(term)
    return f"({text})" if " " in text and not isinstance(term, Size) else text
