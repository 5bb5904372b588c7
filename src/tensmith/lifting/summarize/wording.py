"""Conditions in words: what a requirement says of the branches under which it is needed."""

from __future__ import annotations

from tensmith.formula.expr import Call
from tensmith.lifting.loops import opposite
from tensmith.lifting.summary import Path, Term
from tensmith.lifting.text import bare, operand, text


def under(said: str, path: Path) -> str:
    """A requirement with the branches it stands in: "elements of x >= n where n > 0"."""
    if not path:
        return said
    return f"{said} where {' and '.join(_step(condition, holds) for condition, holds in path)}"


def _step(condition: Term, holds: bool) -> str:
    match condition:
        case Call("not", (inner,)):
            return _step(inner, not holds)
        case Call() if not holds and (other := opposite(condition)) is not None:
            return text(bare(other))
    return text(bare(condition)) if holds else f"not {operand(bare(condition))}"
