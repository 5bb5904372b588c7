"""Folds over small windows, written out: a sum of shifted views."""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction

import numpy as np

from tensmith.formula.poly import Poly
from tensmith.ir.types import DTYPES
from tensmith.lifting.loops import Scalar
from tensmith.lifting.tensorize.affine import substitute
from tensmith.lifting.tensorize.build import dtype_of
from tensmith.lifting.terms import Fold, Operation, Term, TermNumber, TermRead, infinity, walk

# A window of at most this many elements is written out.
TAPS = 25
JOIN = {"sum": "add", "prod": "mul", "max": "max", "min": "min"}


def identity(kind: str, type_: Scalar) -> Term:
    """What joining leaves everything as it is."""
    if kind in ("sum", "prod"):
        return TermNumber(Fraction(kind == "prod"), type_)
    if type_.kind == "float":
        return infinity(kind == "min", type_)
    bounds = np.iinfo(DTYPES[dtype_of(type_)])
    return TermNumber(Fraction(int(bounds.min if kind == "max" else bounds.max)), type_)


def starts_plain(fold: Fold) -> bool:
    """Whether joining the start changes nothing."""
    return fold.start == identity(fold.kind, fold.type)


def is_window(fold: Fold, extents: Mapping[str, Poly]) -> bool:
    """Whether a small constant fold moves over an axis that another variable moves over too."""
    return _taps(fold) <= TAPS and any(
        fold.var in poly.symbols() and len(poly.symbols() & extents.keys()) >= 1
        for term in walk(fold.body)
        if isinstance(term, TermRead)
        for poly in term.indices
    )


def _taps(fold: Fold) -> int:
    """How many terms unrolling makes, folds of constant extent inside included."""
    count = fold.extent.constant
    if count is None:
        return TAPS + 1
    inner = [_taps(term) for term in walk(fold.body) if isinstance(term, Fold) and term.extent.constant]
    return max(0, count) * max(inner, default=1)


def unrolled(fold: Fold) -> Term:
    """The fold of constant extent as a chain of operators."""
    terms = [substitute(fold.body, {fold.var: k}) for k in range(fold.extent.constant or 0)]
    if not (starts_plain(fold) and terms):
        terms.insert(0, fold.start)
    value = terms[0]
    for term in terms[1:]:
        value = Operation(JOIN[fold.kind], (value, term), fold.type)
    return value
