"""A fold and its next term, joined: the fold over one more, as m = max(m, a[i]) leaves it for out[i] = m."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from tensmith.formula.expr import Call, Reduce, substitute
from tensmith.formula.functions import JOINS
from tensmith.formula.poly import Poly
from tensmith.lifting.summarize.logic import extreme, of_numbers
from tensmith.lifting.summary import Term

_KINDS = {operator: kind for kind, operator in JOINS.items()}


def continued(term: Call, extents: Mapping[str, Poly]) -> Reduce | None:
    """The fold over k <= v that joins one over k < v to its term at v, for an index variable v; or so for as
    many as are behind v. extents: of index variables.

    A fold of floats has no NaN, so a choice between it and its next term is their maximum or minimum.
    """
    match term:
        case Call("where", (condition, a, b)):
            kind: str | None = extreme(of_numbers(condition), a, b)
        case Call(operator, (a, b)) if operator in _KINDS:
            kind = _KINDS[operator]
        case _:
            return None
    for fold, item in ((a, b), (b, a)):
        if isinstance(fold, Reduce) and (fold.kind, fold.type) == (kind, term.type):
            ends = ((Poly.symbol(v), extent - 1 - Poly.symbol(v)) for v, extent in extents.items())
            if any(fold.extent in pair for pair in ends) and _at(item, fold):
                return replace(fold, extent=fold.extent + 1)
    return None


def _at(item: Term, fold: Reduce) -> bool:
    """Whether a term is the body of a fold just behind its last."""
    return item == substitute(fold.body, {fold.var: fold.extent})
