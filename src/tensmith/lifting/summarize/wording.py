"""Conditions in words: what a requirement says of the branches under which it is needed."""

from __future__ import annotations

from tensmith.formula.expr import Call
from tensmith.lifting.summary import Path, Term
from tensmith.lifting.text import bare, operand, text

_OPPOSITE = {
    "less": ("less_equal", True), "less_equal": ("less", True), "equal": ("not_equal", False),
    "not_equal": ("equal", False),
}  # fmt: skip


def under(said: str, path: Path) -> str:
    """A requirement with the branches it stands in: "elements of x >= n where n > 0"."""
    if not path:
        return said
    return f"{said} where {' and '.join(_step(condition, holds) for condition, holds in path)}"


def _step(condition: Term, holds: bool) -> str:
    match condition:
        case Call("not", (inner,)):
            return _step(inner, not holds)
        case Call(("less" | "less_equal" | "equal" | "not_equal") as operator, (left, right)) if (
            not holds and _whole(condition)
        ):
            other, swapped = _OPPOSITE[operator]
            return text(bare(Call(other, (right, left) if swapped else (left, right), condition.type)))
    return text(bare(condition)) if holds else f"not {operand(bare(condition))}"


def _whole(condition: Call) -> bool:
    """Whether numbers are compared that have an order: no NaN."""
    return all(argument.type.kind != "float" for argument in condition.args) or condition.function in (
        "equal",
        "not_equal",
    )
