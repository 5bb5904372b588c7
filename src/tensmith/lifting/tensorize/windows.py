"""Folds over small windows, written out: a sum of shifted views."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from tensmith.formula.expr import Call, Choose, Reduce, substitute
from tensmith.formula.functions import JOINS
from tensmith.formula.poly import Poly
from tensmith.formula.walk import loads, walk
from tensmith.lifting.summarize.constants import identity
from tensmith.lifting.summary import Term, first

# A window of at most this many elements is written out.
TAPS = 25


def starts_plain(fold: Reduce) -> bool:
    """Whether joining the start changes nothing."""
    return first(fold) == identity(fold.kind, fold.type)


def is_window(fold: Reduce, extents: Mapping[str, Poly]) -> bool:
    """Whether a small constant fold moves over an axis that another variable moves over too."""
    return _moves(fold, extents) and _taps(fold, extents) <= TAPS


def _moves(fold: Reduce, extents: Mapping[str, Poly]) -> bool:
    others = extents.keys() - {fold.var}
    indices = (index.symbols() for read in loads(fold.body) for index in read.indices)
    return any(fold.var in index and not index.isdisjoint(others) for index in indices)


def _taps(fold: Reduce, extents: Mapping[str, Poly]) -> int:
    """How many terms unrolling makes, windows inside included."""
    count = fold.extent.constant
    if count is None:
        return TAPS + 1
    folds = (term for term in walk(fold.body) if isinstance(term, Reduce))
    inner = [_taps(term, extents) for term in folds if term.extent.constant and _moves(term, extents)]
    return max(0, count) * max(inner, default=1)


def decided(term: Term) -> Term:
    """What is chosen where no variable decides that; else a choice by what variables decide."""
    if not isinstance(term, Choose):
        return term
    left = tuple(poly for poly in term.conditions if poly.constant is None)
    holds = all(poly.constant >= 0 for poly in term.conditions if poly.constant is not None)
    then, otherwise = decided(term.then), decided(term.otherwise)
    if then == otherwise or not (holds and left):
        return then if holds else otherwise
    return replace(term, conditions=left, then=then, otherwise=otherwise)


def unrolled(fold: Reduce) -> Term:
    """The fold of constant extent as a chain of operators."""
    terms = [decided(substitute(fold.body, {fold.var: k})) for k in range(fold.extent.constant or 0)]
    terms = [term for term in terms if term != identity(fold.kind, fold.type)] or terms[:1]
    if not (starts_plain(fold) and terms):
        terms.insert(0, first(fold))
    value = terms[0]
    for term in terms[1:]:
        value = Call(JOINS[fold.kind], (value, term), fold.type)
    return value
