"""Loops unrolled by hand: what m statements do at positions m*t, m*t + 1, ... as one does at every position.

f(m*t) + f(m*t + 1) + ... over t is the sum of f over all positions, and so are stores; a sum of f over the
positions behind those of another goes on where it ends, and so does a box. Of m variables that each sum a
share, the last one holds the sum of f less what the others hold, which their sum takes away again.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import permutations

from tensmith.formula.expr import Call, Reduce, fresh
from tensmith.formula.functions import JOINS
from tensmith.formula.poly import Poly
from tensmith.formula.walk import polys, walk
from tensmith.lifting.summarize.constants import identity
from tensmith.lifting.summarize.memory import StoredBox
from tensmith.lifting.summarize.scope import Scope
from tensmith.lifting.summarize.substitution import mapped, substitute, symbols
from tensmith.lifting.summary import Term, first

_MOST = 64  # statements in one iteration


def rolled(fold: Reduce) -> Reduce:
    """The fold with one operand in each iteration, where it joins m operands that follow one another."""
    together = _one(_operands(fold.body, fold.kind), fold.var)
    if together is None:
        return fold
    var, body, count = together
    return replace(fold, var=var, extent=fold.extent * count, body=body)


def continued(fold: Reduce, scope: Scope) -> Reduce:
    """The fold and the one that it starts with as one, where it goes on where that one ends."""
    before = first(fold)
    if not isinstance(before, Reduce) or (before.kind, before.type) != (fold.kind, fold.type):
        return fold
    if not scope.proves(before.extent) or not _goes_on(before.body, before.var, before.extent, fold):
        return fold
    return replace(before, extent=before.extent + fold.extent)


def _goes_on(body: Term, var: str, behind: Poly, fold: Reduce) -> bool:
    """Whether a fold's operand at each position is that of another body so many positions behind."""
    return substitute(body, {var: Poly.symbol(fold.var) + behind}) == fold.body


def shared(closed: Mapping[str, Term], extent: Poly) -> tuple[str, Term] | None:
    """The last of m variables that together hold a sum of one f, and what it holds; None where none do."""
    sums = {
        name: term
        for name, term in closed.items()
        if isinstance(term, Reduce) and term.kind == "sum" and term.extent == extent and _plain(term)
    }
    for type_ in dict.fromkeys(term.type for term in sums.values()):
        alike = {name: term for name, term in sums.items() if term.type == type_}
        *others, (last, fold) = alike.items()
        over = Poly.symbol(fold.var)
        bodies = [substitute(term.body, {term.var: over}) for term in alike.values()]
        together = _one(bodies, fold.var)
        if together is not None:
            var, body, count = together
            total: Term = replace(fold, var=var, extent=extent * count, body=body)
            for _, other in others:
                total = Call("sub", (total, other), type_)
            return last, total
    return None


def total_of(share: Term) -> Term:
    """The sum of which others hold shares."""
    return total_of(share.args[0]) if isinstance(share, Call) else share


def since(fold: Reduce, totals: Iterable[Term], scope: Scope) -> Term | None:
    """A fold that goes on where a sum of shares ends: the whole sum, less what it was before."""
    for before in totals:
        if isinstance(before, Reduce) and fold.kind == "sum":
            whole = continued(replace(fold, start=before), scope)
            if whole.start != before:
                more = Call("sub", (whole, before), fold.type)
                return more if _plain(fold) else Call("add", (first(fold), more), fold.type)
    return None


def _plain(fold: Reduce) -> bool:
    """Whether a sum starts with 0 and does not wrap."""
    return first(fold) == identity("sum", fold.type) and (fold.type.kind == "float" or fold.type.signed)


def summed(left: Term, right: Term, scope: Scope) -> Term | None:
    """The sum of two terms of which one takes away folds that the other adds; None where none does."""
    added, taken = _signed(Call("add", (left, right), left.type), True)
    cancelled = False
    for term in list(taken):
        if term in added:
            added.remove(term)
            taken.remove(term)
            cancelled = True
    if not cancelled or not added:
        return None
    total, *rest = _chained(added, scope)
    for term in rest:
        total = Call("add", (total, term), total.type)
    for term in taken:
        total = Call("sub", (total, term), total.type)
    return total


def _chained(terms: Sequence[Term], scope: Scope) -> list[Term]:
    """Terms to be added, folds that go on where others end joined to those."""
    for before, after in permutations(terms, 2):
        if isinstance(after, Reduce) and isinstance(before, Reduce):
            whole = continued(replace(after, start=before), scope)
            if whole.start != before:
                rest = [term for term in terms if term is not before and term is not after]
                return _chained([whole, *rest], scope)
    return list(terms)


def _signed(term: Term, positive: bool) -> tuple[list[Term], list[Term]]:
    """What is added and what is taken away, folds without what they start with."""
    match term:
        case Call("add" | "sub" as operator, (left, right), _):
            pairs = [(left, positive), (right, positive if operator == "add" else not positive)]
        case Reduce("sum") if first(term) != (none := identity("sum", term.type)):
            pairs = [(first(term), positive), (replace(term, start=none), positive)]
        case _:
            return ([term], []) if positive else ([], [term])
    added, taken = list[Term](), list[Term]()
    for part, sign in pairs:
        more, less = _signed(part, sign)
        added, taken = added + more, taken + less
    return added, taken


def _operands(term: Term, kind: str) -> list[Term]:
    """What a term joins."""
    match term:
        case Call(function, (left, right), _) if function == JOINS[kind]:
            return [*_operands(left, kind), *_operands(right, kind)]
    return [term]


def _one(terms: Sequence[Term], var: str) -> tuple[str, Term, int] | None:
    """(x, f(x), m), where m terms are f(m*var), f(m*var + 1), ... in some order; None where they are not."""
    count = len(terms)
    if not 1 < count <= _MOST:
        return None
    position = fresh("k")
    for term in terms:
        body = _divided(term, var, count, position)
        if body is None:
            return None
        at = (Poly.symbol(var) * count + step for step in range(count))
        wanted = [substitute(body, {position: each}) for each in at]
        if all(each in terms for each in wanted):
            return position, body, count
    return None


def _divided(term: Term, var: str, by: int, position: str) -> Term | None:
    """The term over a position where it is over `by` times a variable; None where it does not vary so."""
    for part in walk(term):
        for poly in polys(part):
            factor = poly.coefficient(var)
            if factor is None or any(number % by for _, number in factor.terms):
                return None
    if var not in symbols(term):
        return None

    def change(poly: Poly) -> Poly:
        factor = poly.coefficient(var)
        assert factor is not None
        share = Poly.from_terms({monomial: number // by for monomial, number in factor.terms})
        return poly + share * Poly.symbol(position) - factor * Poly.symbol(var)

    return mapped(term, change, frozenset((position,)))


# Stores


def rolled_boxes(boxes: Sequence[StoredBox]) -> list[StoredBox]:
    """Boxes, in each run of m of them that write every m-th element one that writes all."""
    found: list[StoredBox] = []
    while boxes:
        count, box = _first_rolled(boxes)
        found.append(box)
        boxes = boxes[count:]
    return found


def _first_rolled(boxes: Sequence[StoredBox]) -> tuple[int, StoredBox]:
    """How many of the first boxes are one, and it."""
    step = _step(boxes[0])
    if step is not None and 1 < step[1] <= min(_MOST, len(boxes)):
        together = _rolled_box(boxes[: step[1]], *step)
        if together is not None:
            return step[1], together
    return 1, boxes[0]


def _step(box: StoredBox) -> tuple[int, int] | None:
    """The axis and the step of the only box index that has another than 1."""
    if box.where:
        return None
    found = [
        (axis, factor.constant)
        for axis, poly in enumerate(box.at)
        for name in box.indices
        if (factor := poly.coefficient(name)) is not None and factor.constant not in (0, 1)
    ]
    ((axis, step),) = found if len(found) == 1 else [(0, None)]
    return None if step is None else (axis, step)


def _rolled_box(boxes: Sequence[StoredBox], axis: int, step: int) -> StoredBox | None:
    """Boxes that write every so many elements along an axis as one that writes all."""
    head = boxes[0]
    (name,) = (n for n in head.indices if head.at[axis].coefficient(n) != 0)
    alike = []
    for box in boxes:
        if len(box.indices) != len(head.indices):
            return None
        alike.append(box.substituted(dict(zip(box.indices, map(Poly.symbol, head.indices)))))
    if any((box.extents, box.where) != (head.extents, ()) for box in alike):
        return None
    alike.sort(key=lambda box: (box.at[axis] - head.at[axis]).constant or 0)
    low = alike[0]
    at = [(*low.at[:axis], low.at[axis] + n, *low.at[axis + 1 :]) for n in range(step)]
    if [box.at for box in alike] != at or any(name in e.symbols() for e in head.extents):
        return None
    body = _divided(low.value, name, step, var := fresh("i"))
    if name not in symbols(low.value):
        body = low.value
    if body is None:
        return None
    for n, box in enumerate(alike):
        if substitute(body, {var: Poly.symbol(name) * step + n}) != box.value:
            return None
    place = low.at[axis] - Poly.symbol(name) * step + Poly.symbol(var)
    return replace(
        low,
        indices=tuple(var if n == name else n for n in head.indices),
        extents=tuple(e * step if n == name else e for n, e in head.ranges),
        at=(*low.at[:axis], place, *low.at[axis + 1 :]),
        value=body,
    )


def continued_box(old: StoredBox, new: StoredBox, scope: Scope) -> StoredBox | None:
    """One box for two, where the second goes on where the first ends along one axis; else None."""
    if len(old.indices) != len(new.indices) or old.where or new.where:
        return None
    new = new.substituted(dict(zip(new.indices, map(Poly.symbol, old.indices))))
    for place, name in enumerate(old.indices):
        end = old.extents[place]
        shift = {name: Poly.symbol(name) + end}
        extents = (*old.extents[:place], new.extents[place], *old.extents[place + 1 :])
        if (
            tuple(poly.substitute(shift) for poly in old.at) == new.at
            and new.extents == extents
            and not any(name in extent.symbols() for extent in old.extents)
            and scope.proves(end)
            and scope.proves(new.extents[place])
            and substitute(old.value, shift) == new.value
        ):
            extents = (*old.extents[:place], end + new.extents[place], *old.extents[place + 1 :])
            return replace(old, extents=extents)
    return None
