"""Normal boxes: the same elements over a rectangular hull, an index variable for each axis."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace

from tensmith.formula.expr import fresh
from tensmith.formula.poly import FloorDiv, Poly, floor_div, map_divisions
from tensmith.lifting.refusal import Refusal
from tensmith.lifting.summarize.memory import StoredBox
from tensmith.lifting.summarize.scope import Scope
from tensmith.lifting.summarize.substitution import mapped
from tensmith.lifting.summary import Term

_ZERO = Poly.of(0)


@dataclass(frozen=True)
class NormalBox:
    """A normal box without its value, and old index variables (and quotients of them) in terms of the new."""

    box: StoredBox
    values: dict[str, Poly]
    quotients: dict[FloorDiv, Poly] = field(default_factory=dict)

    def change(self, poly: Poly) -> Poly:
        """A polynomial over the old index variables in terms of the new ones."""
        if self.quotients:
            poly = map_divisions(poly, lambda d: self.quotients.get(d) or floor_div(d.top, d.bottom))
        return poly.substitute(self.values)

    def put(self, term: Term) -> Term:
        """A term over the old index variables in terms of the new ones."""
        if not self.values:
            return term
        taken = {name for poly in self.values.values() for name in poly.symbols()}
        return mapped(term, self.change, frozenset(taken | set(self.box.indices)))


def normal(box: StoredBox, scope: Scope) -> NormalBox:
    """The same elements as a normal box over the rectangular hull, the rest in `where`.

    scope is that around the box. Raises Refusal where two indices may write one element.
    """
    inside = scope.fixed().binding(*box.ranges)
    free, done = list(box.indices), {}
    indices: list[str] = []
    extents: list[Poly] = []
    at: list[Poly] = []
    where: list[Poly] = list(box.where)
    owner = _owners(box)
    for axis, poly in enumerate(box.at):
        name = owner.get(axis)
        others = [other for other in box.indices if other != name and other in poly.symbols()]
        if name is None and not others:
            at.append(poly)
            continue
        if name is not None and not others:
            extent = dict(box.ranges)[name]
            hull = _hull(extent, extent.symbols() & set(box.indices), inside, box)
            if hull != extent:
                where.append(extent - 1 - Poly.symbol(name))
            indices.append(name)
            extents.append(hull)
            at.append(poly)
            continue
        low, high = inside.lower(poly), inside.upper(poly)
        if low is None or high is None:
            raise _unclear(box)
        new = fresh("i")
        indices.append(new)
        extents.append(high - low + 1)
        at.append(Poly.symbol(new) + low)
        if name is None:  # a diagonal: the axis repeats an index that another axis has
            where += [poly - at[-1], at[-1] - poly]
            continue
        step = poly.coefficient(name)
        if step is None or step.constant not in (1, -1):
            raise _unclear(box)
        done[name] = (at[-1] - poly.substitute({name: _ZERO})) * step.constant
        where += [Poly.symbol(name), dict(box.ranges)[name] - 1 - Poly.symbol(name)]
    if set(owner.values()) != set(free):
        raise _unclear(box)
    values = _solved(done)
    frame = scope.binding(*zip(indices, extents))
    left: list[Poly] = []
    for poly in dict.fromkeys(poly.substitute(values) for poly in where):
        if not frame.knowing(left).proves(poly):
            left.append(poly)
    made = replace(box, indices=tuple(indices), extents=tuple(extents), at=tuple(at), where=tuple(left))
    return NormalBox(made, values)


def _owners(box: StoredBox) -> dict[int, str]:
    """axis -> the index variable that it determines: alone in its axis first, then the innermost one left."""
    names = set(box.indices)
    owner: dict[int, str] = {}
    pending = {axis: poly.symbols() & names for axis, poly in enumerate(box.at)}
    while pending:
        ready = [axis for axis, mine in pending.items() if len(mine - set(owner.values())) <= 1]
        if not ready:
            raise _unclear(box)
        ready.sort(key=lambda axis: (len(pending[axis]), axis))
        axis = ready[0]
        mine = pending.pop(axis) - set(owner.values())
        if mine:
            (name,) = mine
            factor = box.at[axis].coefficient(name)
            if factor is None or not factor.constant:
                raise _unclear(box)
            owner[axis] = name
    return owner


def _hull(extent: Poly, inner: Iterable[str], inside: Scope, box: StoredBox) -> Poly:
    if not inner:
        return extent
    found = inside.upper(extent)
    if found is None:
        raise _unclear(box)
    return found


def _solved(values: dict[str, Poly]) -> dict[str, Poly]:
    """Values that name one another, each in terms of what is left."""
    for _ in values:
        values = {name: poly.substitute(values) for name, poly in values.items()}
    return values


def _unclear(box: StoredBox) -> Refusal:
    return Refusal(
        "two iterations may store to the same element, and which one is last is not clear; "
        "let each loop counter select one subscript of its own",
        box.position,
    )
