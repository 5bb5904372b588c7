"""Folds over small windows, written out: a sum of shifted views."""

from __future__ import annotations

from collections.abc import Mapping

from tensmith.formula.expr import Call, Read, Reduce, substitute
from tensmith.formula.functions import JOINS
from tensmith.formula.poly import Poly
from tensmith.formula.walk import walk
from tensmith.lifting.summarize.constants import identity
from tensmith.lifting.summary import Term, first

# A window of at most this many elements is written out.
TAPS = 25


def starts_plain(fold: Reduce) -> bool:
    """Whether joining the start changes nothing."""
    return first(fold) == identity(fold.kind, fold.type)


def is_window(fold: Reduce, extents: Mapping[str, Poly]) -> bool:
    """Whether a small constant fold moves over an axis that another variable moves over too."""
    return _taps(fold) <= TAPS and any(
        fold.var in poly.symbols() and len(poly.symbols() & extents.keys()) >= 1
        for term in walk(fold.body)
        if isinstance(term, Read)
        for poly in term.indices
    )


def _taps(fold: Reduce) -> int:
    """How many terms unrolling makes, folds of constant extent inside included."""
    count = fold.extent.constant
    if count is None:
        return TAPS + 1
    inner = [_taps(term) for term in walk(fold.body) if isinstance(term, Reduce) and term.extent.constant]
    return max(0, count) * max(inner, default=1)


def unrolled(fold: Reduce) -> Term:
    """The fold of constant extent as a chain of operators."""
    terms = [substitute(fold.body, {fold.var: k}) for k in range(fold.extent.constant or 0)]
    if not (starts_plain(fold) and terms):
        terms.insert(0, first(fold))
    value = terms[0]
    for term in terms[1:]:
        value = Call(JOINS[fold.kind], (value, term), fold.type)
    return value
