"""Whether what a formula reads is there: each subscript inside its axis, under the guards around it.

Sound and incomplete, as `Ranges` are: what is not proved counts as outside.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from tensmith.formula.bounds import Ranges
from tensmith.formula.expr import Choose, Expr, Formula, Read, Reduce, inside
from tensmith.formula.poly import Dim, Poly
from tensmith.formula.walk import parts, reads

# Where no bound is found, this many values of the variables are looked at one by one.
_MOST_VALUES = 2**16


def outside(formula: Formula, shapes: Mapping[str, Sequence[Dim]]) -> Read | None:
    """A read that may lie outside of its tensor, whose sizes are in `shapes`; None if surely none does."""
    ranges = Ranges(dict(zip(formula.indices, formula.shape)))
    return next(_outside(formula.body, shapes, ranges, ()), None)


def _outside(
    expr: Expr, shapes: Mapping[str, Sequence[Dim]], ranges: Ranges, given: tuple[Poly, ...]
) -> Iterator[Read]:
    """The reads where all of `given` are >= 0."""
    match expr:
        case Read(name, indices, when=when):
            sizes = shapes[name]
            wanted = [bound for index, size in zip(indices, sizes) for bound in inside(index, size)]
            if len(indices) != len(sizes) or not all(_follows(w, given, ranges) for w in wanted):
                yield expr
            if when is not None:
                yield from _outside(when, shapes, ranges, given)
        case Choose(conditions, then, otherwise):
            left = tuple(condition for condition in conditions if not ranges.never_negative(condition))
            yield from _outside(then, shapes, ranges, (*given, *left))
            if any(reads(otherwise)):
                for place, first in enumerate(left):  # the first condition that does not hold
                    yield from _outside(otherwise, shapes, ranges, (*given, *left[:place], -first - 1))
        case Reduce(_, var, extent, body, start=start):
            if start is not None:
                yield from _outside(start, shapes, ranges, given)
            yield from _outside(body, shapes, ranges.within(((var, extent),)), given)
        case _:
            for part in parts(expr):
                yield from _outside(part, shapes, ranges, given)


def _follows(wanted: Poly, given: tuple[Poly, ...], ranges: Ranges) -> bool:
    """Whether wanted >= 0 wherever all of `given` are."""
    if ranges.never_negative(wanted) or any(ranges.never_negative(wanted - guard) for guard in given):
        return True
    return _holds_everywhere(wanted, given, ranges)


def _holds_everywhere(wanted: Poly, given: tuple[Poly, ...], ranges: Ranges) -> bool:
    """The same, by all values of the variables, where those are few."""
    near = [guard for guard in given if guard.symbols() & wanted.symbols()]
    names = sorted(wanted.symbols().union(*(guard.symbols() for guard in near)))
    extents = [ranges.extents[name].constant if name in ranges.extents else None for name in names]
    known = [extent for extent in extents if extent is not None]
    if len(known) < len(names) or math.prod(known) > _MOST_VALUES:
        return False
    values = dict(zip(names, np.indices(known, sparse=True, dtype=np.int64)))
    with np.errstate(divide="ignore"):
        holds = np.asarray(wanted.evaluate(values) >= 0)
        for guard in near:
            holds = holds | (guard.evaluate(values) < 0)
    return bool(holds.all())
