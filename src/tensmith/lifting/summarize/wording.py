"""Conditions in words: what a requirement says of the branches under which it is needed."""

from __future__ import annotations

from tensmith.lifting.terms import Argument, Index, Number, Op, Path, Read, Term

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
        case Op("not", (inner,)):
            return _step(inner, not holds)
        case Op(("lt" | "le" | "eq" | "ne") as operator, (left, right)) if not holds and _whole(condition):
            other, swapped = _OPPOSITE[operator]
            return _said(Op(other, (right, left) if swapped else (left, right), condition.type))
    return _said(condition) if holds else f"not {_enclosed(condition)}"


def _whole(condition: Op) -> bool:
    """Whether numbers are compared that have an order: no NaN."""
    return all(argument.type.kind != "float" for argument in condition.arguments) or condition.operator in (
        "eq",
        "ne",
    )


def _said(term: Term) -> str:
    match term:
        case Number(value):
            return str(value) if value.denominator == 1 else str(float(value))
        case Index(poly):
            return str(poly)
        case Argument(name):
            return name
        case Read(array, indices):
            return f"{array}[{', '.join(map(str, indices))}]"
        case Op("cast", (inner,)):
            return _said(inner)
        case Op(("lt" | "le") as operator, (Number() as left, right)):  # 0 < n reads n > 0
            return f"{_enclosed(right)} {'>' if operator == 'lt' else '>='} {_said(left)}"
        case Op("not", (inner,)):
            return f"not {_enclosed(inner)}"
        case Op("neg", (inner,)):
            return f"-{_enclosed(inner)}"
        case Op(operator, (left, right)) if operator in _SIGNS:
            return f"{_enclosed(left)} {_SIGNS[operator]} {_enclosed(right)}"
        case Op(operator, arguments):
            return f"{operator}({', '.join(map(_said, arguments))})"
    return "..."


def _enclosed(term: Term) -> str:
    text = _said(term)
    return f"({text})" if " " in text and not isinstance(term, Index) else text
