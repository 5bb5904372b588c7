"""Conditions in words: what a requirement says of the branches under which it is needed."""

from __future__ import annotations

from tensmith.lifting.terms import Argument, Index, Operation, Path, Term, TermNumber, TermRead

_SIGNS = {
    "add": "+", "sub": "-", "mul": "*", "div": "/", "tdiv": "/", "fdiv": "//", "tmod": "%", "fmod": "%",
    "lt": "<", "le": "<=", "eq": "==", "ne": "!=", "and": "and", "or": "or", "band": "&", "bor": "|",
    "bxor": "^", "shl": "<<", "shr": ">>",
}  # fmt: skip
_OPPOSITE = {"lt": ("le", True), "le": ("lt", True), "eq": ("ne", False), "ne": ("eq", False)}
_LOOSE = frozenset({"lt", "le", "eq", "ne", "and", "or"})


def under(text: str, path: Path) -> str:
    """A requirement with the branches it stands in: "elements of x >= n where n > 0"."""
    if not path:
        return text
    return f"{text} where {' and '.join(_step(condition, holds) for condition, holds in path)}"


def _step(condition: Term, holds: bool) -> str:
    match condition:
        case Operation("not", (inner,)):
            return _step(inner, not holds)
        case Operation(("lt" | "le" | "eq" | "ne") as operator, (left, right)) if not holds and _whole(
            condition
        ):
            other, swapped = _OPPOSITE[operator]
            return _said(Operation(other, (right, left) if swapped else (left, right), condition.type))
    return _said(condition) if holds else f"not {_enclosed(condition)}"


def _whole(condition: Operation) -> bool:
    """Whether numbers are compared that have an order: no NaN."""
    return all(argument.type.kind != "float" for argument in condition.arguments) or condition.operator in (
        "eq",
        "ne",
    )


def _said(term: Term) -> str:
    match term:
        case TermNumber(value):
            return str(value) if value.denominator == 1 else str(float(value))
        case Index(poly):
            return str(poly)
        case Argument(name):
            return name
        case TermRead(array, indices):
            return f"{array}[{', '.join(map(str, indices))}]"
        case Operation("cast", (inner,)):
            return _said(inner)
        case Operation(("lt" | "le") as operator, (TermNumber() as left, right)):  # 0 < n reads n > 0
            return f"{_enclosed(right)} {'>' if operator == 'lt' else '>='} {_said(left)}"
        case Operation("not", (inner,)):
            return f"not {_enclosed(inner)}"
        case Operation("neg", (inner,)):
            return f"-{_enclosed(inner)}"
        case Operation(operator, (left, right)) if operator in _SIGNS:
            return f"{_enclosed(left)} {_SIGNS[operator]} {_enclosed(right)}"
        case Operation(operator, arguments):
            return f"{operator}({', '.join(map(_said, arguments))})"
    return "..."


def _enclosed(term: Term) -> str:
    text = _said(term)
    return f"({text})" if " " in text and not isinstance(term, Index) else text
